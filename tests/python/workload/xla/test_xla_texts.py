"""Modules written by hand: loops, overlap, moves, custom calls, and bad input."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Armillary
from hlo_text import REDUCED, module, parsed, taken
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.workload.xla import Options, costs, import_hlo, loops, proto
from armillary.workload.xla.module import DamagedError, Window
from armillary.workload.xla.steps import Exchange, Permute, Step, Work, read

MAXTEXT = ROOT.parent / "shared/samples/hlo/maxtext_reference_hlo_llama3_8b.txt.gz"
BODY = "wide.region_1.6_spmd.sunk.clone.clone.clone.sunk"


def test_drawn_windows_are_counted_as_by_hand() -> None:
    chance = random.Random(8)
    for _ in range(usually(200, 5000)):
        window = Window(
            0, chance.randint(1, 4), chance.randint(-2, 4), 0, chance.randint(1, 3),
            chance.randint(1, 4),
        )  # fmt: skip
        inputs, kernel, outputs = (chance.randint(0, 9) for _ in range(3))
        count = 0
        for at, out in itertools.product(range(kernel), range(outputs)):
            place = out * window.stride - window.low + at * window.dilation
            inside = 0 <= place <= (inputs - 1) * window.base_dilation
            count += inside and place % window.base_dilation == 0
        assert costs.positions(window, inputs, kernel, outputs, "") == count


LOOP = """%body (t: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %t = (s32[], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %v = f32[8] get-tuple-element(%t), index=1
  %s = s32[] constant({step})
  %n = s32[] {op}(%i, %s)
  %e = f32[8] add(%v, %v)
  ROOT %r = (s32[], f32[8]) tuple(%n, %e)
}}
%test (t.1: (s32[], f32[8])) -> pred[] {{
  %t.1 = (s32[], f32[8]) parameter(0)
  %i.1 = s32[] get-tuple-element(%t.1), index=0
  %l = s32[] {last}
  ROOT %c = pred[] compare({sides}), direction={direction}
}}
"""
RUN = """%z = s32[] constant({first})
%p = f32[8] parameter(0)
%in = (s32[], f32[8]) tuple(%z, %p)
%w = (s32[], f32[8]) while(%in), condition=%test, body=%body"""
HOLDS: dict[str, Callable[[int, int], bool]] = {
    "LT": int.__lt__,
    "LE": int.__le__,
    "GT": int.__gt__,
    "GE": int.__ge__,
    "NE": int.__ne__,
}
FLIP = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}


def test_drawn_loops_run_as_often_as_they_count() -> None:
    chance = random.Random(9)
    known = 0
    for _ in range(usually(100, 3000)):
        first, last = chance.randint(-9, 9), chance.randint(-9, 9)
        step, op = chance.randint(1, 3), chance.choice(["add", "subtract"])
        direction, flipped = chance.choice([*HOLDS]), chance.random() < 0.3
        value, count = first, 0
        while HOLDS[direction](value, last) and count <= 100:
            value, count = value + (step if op == "add" else -step), count + 1
        before = LOOP.format(
            step=step,
            op=op,
            last=f"constant({last})",
            sides="%l, %i.1" if flipped else "%i.1, %l",
            direction=FLIP[direction] if flipped else direction,
        )
        text = module(RUN.format(first=first), "", before)
        made = parsed(text)
        assert made.entry is not None
        entry = made.computations[made.entry]
        found = loops.trips(made, entry, entry.instructions[-1])
        assert found == (count if count <= 100 else None)
        if found is not None:
            known += 1
            assert taken(text).covered.operations == 9 * count
    assert known > 30


def test_a_loop_of_unknown_length_is_refused_with_a_way_out() -> None:
    before = LOOP.format(
        step=1, op="add", last="get-tuple-element(%t.1), index=0", sides="%i.1, %l", direction="LT"
    )
    text = module(RUN.format(first=0), "", before)
    with pytest.raises(InputError, match="runs an unknown number of times") as refused:
        taken(text)
    assert "--trip-count w=10" in str(refused.value)
    assert taken(text, trips={"w": 7}).covered.operations == 63
    with pytest.raises(InputError, match="--trip-count v"):
        taken(text, trips={"w": 7, "v": 3})
    config = ', backend_config={"known_trip_count":{"n":"4"}}'
    assert taken(text.replace("body=%body", f"body=%body{config}")).covered.operations == 36


OVERLAP = """%p = f32[1048576]{{0}} parameter(0)
%q = f32[2048,2048]{{1,0}} parameter(1)
%s = f32[1048576]{{0}} all-reduce{start}(%p), channel_id=1, replica_groups=[1,8]<=[8], \
use_global_device_ids=true, to_apply=%add
%d = f32[2048,2048]{{1,0}} dot(%q, %q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{done}
%e = f32[1048576]{{0}} negate({last})"""
HEAD = ", is_scheduled=true, num_partitions=8"
DONE = "%f = f32[1048576]{0} all-reduce-done(%s)"


def step_time(text: str) -> float:
    """Time on eight GPUs."""
    return arm.simulate(taken(text).workload, "dgx-h100", npus=8).step_time_ns


def test_what_is_between_start_and_done_overlaps() -> None:
    """Without the collective, without the product, one after the other, next to each other."""
    waits = module(OVERLAP.format(start="", done="", last="%s"), HEAD)
    next_to = module(OVERLAP.format(start="-start", done=DONE, last="%f"), HEAD)
    product = step_time(waits.replace(" all-reduce(%p), channel_id=1", " bitcast(%p), c=1"))
    dot = next(line for line in waits.splitlines() if " dot(" in line)
    collective = step_time(waits.replace(dot + "\n", ""))
    last = step_time(
        waits.replace(dot + "\n", "").replace(" all-reduce(%p), channel_id=1", " bitcast(%p), c=1")
    )
    assert step_time(waits) == pytest.approx(product + collective - last, abs=1)
    assert step_time(next_to) == pytest.approx(max(product, collective), abs=1)
    assert min(product, collective) > 2 * last
    assert [type(each) for each in _steps(next_to)] == [Exchange, Work, Work]
    assert [each.after for each in _steps(next_to)] == [(), (), (0, 1)]
    assert [each.after for each in _steps(waits)] == [(), (0,), (1,)]
    wrapped = next_to.replace("all-reduce-start(%p), channel_id=1", "async-start(%p), calls=%wrap")
    assert [each.after for each in _steps(wrapped.replace("\nENTRY", f"{WRAP}\nENTRY"))] == [
        (), (), (0, 1)
    ]  # fmt: skip


WRAP = """%wrap (w: f32[1048576]) -> f32[1048576] {
  %w = f32[1048576]{0} parameter(0)
  ROOT %g = f32[1048576]{0} all-reduce(%w), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, \
use_global_device_ids=true, to_apply=%add
}
"""


def _steps(text: str) -> list[Step]:
    made = parsed(text)
    assert made.entry is not None
    return list(read(made, made.entry, {}).steps)


def test_tuples_that_share_their_elements_are_flattened_once() -> None:
    lines = ["%p = f32[4] parameter(0)", "%a.0 = f32[4] negate(%p)"]
    lines += [f"%a.{at} = (f32[]) tuple(%a.{at - 1}, %a.{at - 1})" for at in range(1, 64)]
    lines.append('%z = f32[4] custom-call(%a.63), custom_call_target="x"')
    assert [each.after for each in _steps(module("\n".join(lines)))] == [(), (0,)]


def test_forms_of_the_text_give_one_module() -> None:
    """Operands with shapes, without the sign %, with comments; tuples in tuples; attributes over
    several lines."""
    plain = """%p = (f32[4]{0}, (s8[], /*index=1*/token[])) parameter(0)
    %a = f32[4]{0:T(128)S(1)} get-tuple-element(%p), index=0
    %b = f32[4]{0} add(%a, %a), frontend_attributes={x={"}\\"{"}}, metadata={op_name="a/b/c"}
    %t = (f32[4]{0}, f32[4]{0}) tuple(%a, %b)"""
    shown = plain.replace("add(%a, %a)", "add(f32[4]{0:T(128)S(1)} %a, /*index=1*/ f32[4]{0} %a)")
    bare = plain.replace("%", "")
    split = plain.replace('x={"', 'x={"').replace('{"}\\"{"}', '{"}\\"{\n"}')
    wanted = parsed(module(plain)).computations
    assert [each.opcode for each in wanted[1].instructions] == [
        "parameter", "get-tuple-element", "add", "tuple"
    ]  # fmt: skip
    assert wanted[1].instructions[2].operands == (1, 1)
    assert wanted[1].instructions[1].shape.space == 1
    assert wanted[1].instructions[2].op_name == "a/b/c"
    for other in (shown, bare, split):
        assert parsed(module(other)).computations == wanted


PIPELINE = """%body (t: (s32[], f32[1024])) -> (s32[], f32[1024]) {
  %t = (s32[], f32[1024]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %v = f32[1024] get-tuple-element(%t), index=1
  %k = token[] after-all()
  %r = (f32[1024], u32[], token[]) recv(%k), channel_id=1, FRONT
  %s = (f32[1024], u32[], token[]) send(%v, %k), channel_id=2, FRONT
  %q = f32[2048,2048] custom-call(%v), custom_call_target="AllocateBuffer"
  %d = f32[2048,2048] dot(%q, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %f = (f32[1024], token[]) recv-done(%r), channel_id=1
  %g = token[] send-done(%s), channel_id=2
  %o = s32[] constant(1)
  %n = s32[] add(%i, %o)
  %e = f32[1024] get-tuple-element(%f), index=0
  ROOT %x = (s32[], f32[1024]) tuple(%n, %e)
}
%test (u: (s32[], f32[1024])) -> pred[] {
  %u = (s32[], f32[1024]) parameter(0)
  %j = s32[] get-tuple-element(%u), index=0
  %l = s32[] constant(3)
  ROOT %c = pred[] compare(%j, %l), direction=LT
}
""".replace(
    "FRONT", 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2},{2,3}}"}'
)


def test_sends_and_receives_are_messages_next_to_kernels() -> None:
    """Three runs of a loop: each device but the last sends, each but the first receives."""
    run = RUN.format(first=0).replace("f32[8]", "f32[1024]")
    text = module(run, ", is_scheduled=true, num_partitions=4", PIPELINE)
    found = taken(text)
    assert found.covered.collectives["send"].count == 3
    halves = [each for each in _steps(text) if isinstance(each, Permute)]
    assert [each.half for each in halves] == ["recv", "send"] * 3
    assert [each.tag for each in halves[::2]] == [each.tag for each in halves[1::2]]
    assert len({each.tag for each in halves}) == 3
    summary = found.workload.summary
    assert summary is not None
    sent = [sum(each.count for each in one.volumes) for one in summary.classes]
    assert sorted(sent) == [0, 3, 3, 3]
    time = arm.simulate(found.workload, "dgx-h100", npus=4, backend="link").step_time_ns
    assert time > 3 * 2 * 2048**3 / 1e15 * 1e9


@pytest.mark.parametrize("kind", ["negate", "slice"])
def test_any_instruction_may_have_a_start(kind: str) -> None:
    end = ", slice={[0:524288]}" if kind == "slice" else ""
    size = 524288 if kind == "slice" else 1048576
    start = f"(f32[1048576]), f32[{size}], s32[]"
    lines = f"""%p = f32[1048576] parameter(0)
    %q = f32[1024,1024] parameter(1)
    %a = ({start}) {kind}-start(%p){end}
    %u = ({start}) {kind}-update(%a)
    %d = f32[1024,1024] dot(%q, %q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    %b = f32[{size}] {kind}-done(%u)
    %c = f32[{size}] negate(%b)"""
    text = module(lines, ", is_scheduled=true")
    assert [each.after for each in _steps(text)] == [(), (), (0, 1)]
    moved = {"negate": 2 * 4 * 1048576, "slice": 2 * 4 * 524288}
    assert taken(text).covered.bytes == moved[kind] + 3 * 4 * 1024**2 + 2 * 4 * size


def test_a_fused_collective_is_run_with_its_parts() -> None:
    fused = """%fused (w: f32[64]) -> f32[8] {
      %w = f32[64]{0} parameter(0)
      %n = f32[64]{0} negate(%w)
      %g = f32[64]{0} all-reduce(%n), replica_groups={{0,1}}, to_apply=%add
      ROOT %s = f32[8]{0} slice(%g), slice={[0:8]}
    }
    """
    text = module(
        "%p = f32[64]{0} parameter(0)\n%f = f32[8]{0} fusion(%p), kind=kCustom, calls=%fused",
        ", replica_count=2",
        fused,
    )
    assert [type(each) for each in _steps(text)] == [Work, Exchange, Work]
    assert any("f, which fuses a collective" in note for note in taken(text).notes)


MOVED = (
    ("f32[4,8] dynamic-slice(%t, %i, %i), dynamic_slice_sizes={4,8}", 2 * 128 + 4),
    ("f32[16,8] dynamic-update-slice(%t, %u, %i, %i)", 2 * 128 + 4),
    (
        "f32[4,8] gather(%t, %k), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}",
        2 * 128 + 16,
    ),
    (
        "f32[16,8] scatter(%t, %k, %u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add",
        3 * 128 + 16,
    ),
    ("f32[2,8] slice(%t), slice={[0:2], [0:8]}", 2 * 64),
    ("f32[8,16] transpose(%t), dimensions={1,0}", 2 * 512),
    ("f32[16] reduce(%t, %z), dimensions={1}, to_apply=%add", 512 + 64 + 4),
    ("f32[16,16] concatenate(%t, %t), dimensions={1}", 4 * 512),
)


@pytest.mark.parametrize(("said", "size"), MOVED, ids=lambda each: str(each).split("(")[0])
def test_moves_touch_what_they_read_and_write(said: str, size: int) -> None:
    """Bytes counted by hand; a scatter adds each of its 32 updates, a reduction 7 in each row."""
    lines = """%t = f32[16,8]{1,0} parameter(0)
    %u = f32[4,8]{1,0} parameter(1)
    %k = s32[4]{0} parameter(2)
    %i = s32[] parameter(3)
    %z = f32[] constant(0)
    %r = """
    found = taken(module(lines + said)).covered
    assert found.bytes == size
    operations = {"scatter": 32, "reduce": 7 * 16}
    assert found.operations == operations.get(said.split()[1].partition("(")[0], 0)


def test_the_root_may_be_anywhere() -> None:
    """The loop goes on with the root of its body, which is not its last line."""
    before = LOOP.format(step=1, op="add", last="constant(3)", sides="%i.1, %l", direction="LT")
    root = "  ROOT %r = (s32[], f32[8]) tuple(%n, %e)\n"
    assert root in before
    moved = before.replace(root, root + "  %x = f32[8] multiply(%v, %v)\n")
    assert taken(module(RUN.format(first=0), "", moved)).covered.operations == 3 * 17


CALLS = (
    (
        "f32[16,32]{1,0}, s8[4096]{0}",
        "f32[16,8]{1,0} %a, f32[8,32]{1,0} %b",
        '"__cublas$gemm"',
        '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}',
        2 * 16 * 32 * 8,
    ),
    (
        "bf16[2,4,16,8]{3,2,1,0}, u8[0]{0}",
        "bf16[2,4,16,8]{3,2,1,0} %a, bf16[2,4,16,8]{3,2,1,0} %a",
        '"__cudnn$fmhaSoftmax"',
        '{"cudnn_fmha_backend_config":{"mask_type":"NO_MASK","intermediate_tensor_shape":'
        '{"dimensions":["2","4","16","16"]}}}',
        4 * 2 * 4 * 16 * 16 * 8,
    ),
    (
        "bf16[2,4,16,8]{3,2,1,0}, u8[0]{0}",
        "bf16[2,4,16,8]{3,2,1,0} %a, bf16[2,4,16,8]{3,2,1,0} %a",
        '"__cudnn$fmhaSoftmaxBackward"',
        '{"cudnn_fmha_backend_config":{"mask_type":"CAUSAL","intermediate_tensor_shape":'
        '{"dimensions":["2","4","16","16"]}}}',
        5 * 2 * 4 * 16 * 16 * 8,
    ),
    (
        "f32[16]{0}",
        "f32[16]{0} %a",
        '"tpu_custom_call"',
        '{"custom_call_config":{"cost_estimate":{"flops":"77","bytes_accessed":"9"}}}',
        77,
    ),
    ("f32[16]{0}", "f32[16]{0} %a", '"__gpu$xla.gpu.triton"', '"x"', None),
)


@pytest.mark.parametrize(("shape", "operands", "target", "config", "operations"), CALLS)
def test_custom_calls(
    shape: str, operands: str, target: str, config: str, operations: int | None
) -> None:
    kinds = dict(reversed([*_typed(operands)]))
    lines = [f"%{name} = {kind} parameter({at})" for at, (name, kind) in enumerate(kinds.items())]
    lines.append(
        f"%c = ({shape}) custom-call({operands}), custom_call_target={target}, "
        f"backend_config={config}"
    )
    found = taken(module("\n".join(lines)))
    assert found.covered.operations == (operations or 0)
    named = [note for note in found.notes if target.strip('"') in note]
    assert bool(named) == (operations is None)
    assert found.covered.bytes > 0


def _typed(operands: str) -> list[tuple[str, str]]:
    """Name and shape of each operand."""
    words = operands.replace(", ", ",").replace("%", "").split(" ")
    shapes = [words[0], *(word.partition(",")[2] for word in words[1:-1])]
    names = [word.partition(",")[0] for word in words[1:]]
    return list(zip(names, shapes, strict=True))


def test_a_conditional_takes_its_longest_branch_and_says_so() -> None:
    branches = "".join(
        f"%b{at} (q: f32[8]) -> f32[8] {{\n  %q{at} = f32[8]{{0}} parameter(0)\n"
        f"  ROOT %r{at} = f32[8]{{0}} {op}(%q{at}, %q{at})\n}}\n"
        for at, op in enumerate(("bitcast", "add"))
    ).replace("bitcast(%q0, %q0)", "bitcast(%q0)")
    found = taken(
        module(
            """%i = pred[] parameter(0)
        %p = f32[8]{0} parameter(1)
        %c = f32[8]{0} conditional(%i, %p, %p), branch_computations={%b0, %b1}""",
            "",
            branches,
        )
    )
    assert found.covered.operations == 8
    assert "c always takes its longest branch, b1" in found.notes


SOUND = "%p = f32[64]{0} parameter(0)\n%a = " + REDUCED
CHANNEL = ", channel_id=1, use_global_device_ids=true"
EIGHT = ", num_partitions=8"
BAD: dict[str, tuple[str, str]] = {
    "cut": (module(SOUND)[:-20], "ends inside the computation main_spmd"),
    "no entry": (module(SOUND).replace("ENTRY ", ""), "no computation marked ENTRY"),
    "empty": ("HloModule x\n", "has no computation"),
    "unknown operand": (module(SOUND.replace("(%p)", "(%x)")), "takes 'x', which is not before"),
    "unknown opcode": (module(SOUND.replace("all-reduce", "frob")), "opcode without known"),
    "unknown type": (module(SOUND.replace("f32[64]{0} par", "q7[64]{0} par")), "unknown type"),
    "unbounded": (module(SOUND.replace("f32[64]{0} par", "f32[?]{0} par")), "not bounded"),
    "huge": (module(SOUND.replace("[64]{0} par", f"[{10**15},{10**15}] par")), "too many elements"),
    "unknown callee": (module(SOUND.replace("%add", "%sub")), "is called, but is not there"),
    "twice": (module(SOUND.replace("%a =", "%p =")), "is there twice"),
    "groups of others": (
        module(f"{SOUND}, replica_groups={{{{0,9}}}}{CHANNEL}", EIGHT),
        "names device 9 of 8",
    ),
    "groups of some": (
        module(f"{SOUND}, replica_groups={{{{0,1}}}}{CHANNEL}", EIGHT),
        "has groups of 2 devices, where the module has 8",
    ),
    "one device twice": (
        module(f"{SOUND}, replica_groups={{{{0,0}}}}{CHANNEL}", EIGHT),
        "has a device in two groups",
    ),
    "uneven table": (
        module(f"{SOUND}, replica_groups=[2,3]<=[8]{CHANNEL}", EIGHT),
        "groups that do not fit together",
    ),
    "unknown groups": (module(f"{SOUND}, replica_groups=all{CHANNEL}", EIGHT), "unknown form"),
    "too many devices": (module(SOUND, ", num_partitions=9999999"), "invalid number"),
    "calls that double": (
        module(
            "%p = f32[]{0} parameter(0)\n%a = f32[] call(%p), to_apply=%d29".replace("{0}", ""),
            "",
            "".join(
                f"%d{at} (q: f32[]) -> f32[] {{\n  %q{at} = f32[] parameter(0)\n"
                f"  %l{at} = f32[] {op}\n  ROOT %r{at} = f32[] {op}\n}}\n"
                for at in range(30)
                for op in [f"call(%q{at}), to_apply=%d{at - 1}" if at else "negate(%q0)"]
            ),
        ),
        "steps on each rank",
    ),
    "not split": (
        module("%p = f32[4]{0} parameter(0)\n%a = f32[4]{0} negate(%p)", EIGHT).replace(
            "main_spmd", "main"
        ),
        "has 8 partitions, but no collective",
    ),
    "sharded": (
        module(
            "%p = f32[4]{0} parameter(0)\n"
            '%a = f32[4]{0} custom-call(%p), custom_call_target="Sharding"',
            EIGHT,
        ),
        "not yet split over devices",
    ),
    "calls itself": (
        module(SOUND).replace("add(%x, %y)", "call(%x), to_apply=%add"),
        "calls itself",
    ),
    "endless": (
        module(
            RUN.format(first=0),
            "",
            LOOP.format(
                step=1, op="add", last="constant(9000000)", sides="%i.1, %l", direction="LT"
            ),
        ),
        "steps on each rank",
    ),
    "too few operands": (
        module("%p = f32[4] parameter(0)\n%a = f32[4] dynamic-update-slice(%p)"),
        "has too few operands",
    ),
    "too much work": (
        module(
            "%p = f32[33554432,33554432] parameter(0)\n%a = f32[33554432,33554432] dot(%p, %p), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        ),
        "more than 2^60 operations",
    ),
    "too much to send": (
        module(
            "%p = f64[33554432,33554432] parameter(0)\n"
            f"%a = f64[] all-to-all({', '.join(['%p'] * 300)})"
        ),
        "more than 2^60 operations or bytes",
    ),
    "no labels": (
        module("%p = f32[4] parameter(0)\n%a = f32[4] convolution(%p, %p)"),
        "has no dim_labels",
    ),
    "send": (
        module("%p = f32[4]{0} parameter(0)\n%a = (f32[4], u32[], token[]) send(%p), channel_id=1"),
        "is a send between devices that does not name them",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_gets_one_clear_message(kind: str) -> None:
    text, said = BAD[kind]
    with pytest.raises(InputError) as refused:
        taken(text)
    assert said in str(refused.value)
    assert "allowed:" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("BufferAssignment:\n", "has no allocation"),
        (f"BufferAssignment:\nallocation 0: size {2**61}, constant:\n", "more than an exabyte"),
    ],
)
def test_bad_buffers_are_refused(text: str, said: str) -> None:
    buffers = ("buffers.txt", text.encode())
    with pytest.raises(InputError, match=said):
        import_hlo("made.txt", module(SOUND).encode(), Options(), buffers)


def test_a_text_cut_anywhere_is_refused_or_taken() -> None:
    text = module(SOUND + '\n%b = f32[64]{0} negate(%a), metadata={op_name="a/b"}')
    for at in range(12, len(text)):
        try:
            taken(text[:at])
        except InputError:
            continue


def test_the_reader_of_protobuf_refuses_other_messages() -> None:
    for data in (b"", b"\n", b"\n\x01a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"{}"):
        assert not proto.is_module(data)
        with pytest.raises(DamagedError):
            proto.read(data)


@pytest.mark.skipif(not MAXTEXT.is_file(), reason=f"{MAXTEXT} is missing")
@pytest.mark.parametrize(
    ("platform", "topology"), [("tpu-v5p-pod", "Ring(4)"), ("dgx-h100", "Switch(4)")]
)
def test_a_layer_of_maxtext_runs(platform: str, topology: str) -> None:
    """The file ends before its entry, so it is refused; the body of its first loop is a layer of
    Llama 3 8B for 128 tokens, whose products are counted by hand."""
    text = gzip.decompress(MAXTEXT.read_bytes()).decode()
    with pytest.raises(InputError, match="before its ENTRY"):
        taken(text)
    found = taken(text, entry=BODY)
    hidden, ffn, keys = 4096, 14336, 1024
    weights = 2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * ffn
    assert found.covered.computed["products"].operations == pytest.approx(
        2 * 128 * weights, rel=1e-3
    )
    gathered = found.covered.collectives["all_gather"]
    assert (gathered.count, gathered.bytes) == (7, 2 * weights // 4)
    assert any("tpu_custom_call" in note for note in found.notes)
    target = arm.Platform.load(platform, {"topology": topology})
    assert arm.simulate(found.workload, target).step_time_ns > 0


def test_the_command_line(armillary: Armillary, tmp_path: Path) -> None:
    path = tmp_path / "module.txt"
    path.write_text(module(SOUND.replace("f32[64]", "f32[8,8]"), ", replica_count=4"))
    ran = armillary("import", str(path), "-o", str(tmp_path / "job"), "--json", "-")
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["ranks"] == 4
    assert said["module"]["collectives"]["all_reduce"] == {
        "count": 1, "operations": 0, "transcendentals": 0, "bytes": 256
    }  # fmt: skip
    ran = armillary("run", str(tmp_path / "job"), "-p", "dgx-h100", "--npus", "4")
    assert ran.returncode == 0, ran.stderr
    for words, message in (
        (["--trip-count", "w"], "is not a name and a whole number"),
        (["--trip-count", "w=3"], "is not a loop that runs an unknown number"),
        (["--entry", "x"], "is not a computation of the module"),
        (["--step", "3"], "has no effect on a module of XLA"),
        ([str(path)], "2 modules"),
    ):
        ran = armillary("import", str(path), "-o", str(tmp_path / "other"), *words)
        assert ran.returncode == 2
        assert message in ran.stderr


def test_the_same_module_gives_the_same_files(tmp_path: Path) -> None:
    text = module(SOUND, ", replica_count=4")
    for name in ("a", "b"):
        taken(text).workload.write(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
