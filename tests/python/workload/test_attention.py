"""Context parallelism: who sees whose keys and values, what is sent, and how long it takes, against
closed forms."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_layer import setting
from test_transformer import EXPERTS, GPT, LATENT, LLAMA, MODELS, summary, volumes
from thorough import usually

import armillary as arm
from armillary.workload import Model, Program, Workload, build, transformer
from armillary.workload.attention import core, sizes
from armillary.workload.framework_set import nested
from armillary.workload.parallelism import ContextExchange
from armillary.workload.script import Exchange, KernelStep, KernelStream, Script, Wait
from armillary.workload.setting import Setting
from armillary.workload.stage import rings

KINDS: tuple[ContextExchange, ...] = ("p2p", "all_gather", "a2a")
LAYERS, SHARE = 32, 8192 // 4 * (8 // 2) * (128 + 128) * 2
"""Of Llama 3 8B on cp 4 and tp 2: layers, bytes of one rank's keys and values (4 of 8 heads)."""
QUERIES = 8192 // 4 * (32 // 2) * 128 * 2


def test_messages_of_a_ring() -> None:
    """Keys and values go to every other rank, forward and again backward; their gradients to as
    many. Every message is of one rank's, however many heads there are of queries."""
    found = volumes(transformer("llama-3-8b", cp=4, tp=2), 0)
    assert found["", "send"] == (LAYERS * 9, LAYERS * 9 * SHARE)
    assert not any(group == "cp" for group, _ in found)


def test_gathers() -> None:
    """Grattafiori et al. 2024, section 3.3.2: keys and values gathered, backward again; their
    gradients reduced."""
    found = volumes(transformer("llama-3-8b", cp=4, tp=2, cp_comm_type="all_gather"), 0)
    assert found["cp", "all_gather"] == (2 * LAYERS, 2 * LAYERS * SHARE)
    assert found["cp", "reduce_scatter"] == (LAYERS, LAYERS * SHARE * 4)


def test_exchanges_of_heads() -> None:
    """Jacobs et al. 2023: queries, keys and values there, values back; the gradients the other
    way."""
    found = volumes(transformer("llama-3-8b", cp=4, tp=2, cp_comm_type="a2a"), 0)
    assert found["cp", "all_to_all"] == (4 * LAYERS, 2 * LAYERS * (2 * QUERIES + SHARE))


@given(
    model=st.sampled_from(MODELS),
    tp=st.sampled_from([1, 2]),
    cp=st.sampled_from([2, 4, 8]),
    recompute=st.sampled_from(["none", "selective"]),
)
def test_ranks_share_the_work(model: Model, tp: int, cp: int, recompute: str) -> None:
    """However keys and values come, every rank does a `cp`-th of the attention and of everything
    else."""
    alone = summary(build(model, tp=tp, recompute=recompute)).classes[0].operations
    for kind in KINDS:
        if kind == "a2a" and (8 if model in (GPT, LATENT) else 4) // tp % cp:
            continue
        each = (
            summary(build(model, tp=tp, cp=cp, cp_comm_type=kind, recompute=recompute))
            .classes[0]
            .operations
        )
        if model in (GPT, LLAMA):
            assert each * cp == alone
        else:  # experts round up
            assert each * cp >= alone


Part = tuple[int, frozenset[int]]
"""Gradients of the keys and values of a rank, and the ranks whose queries are in it."""


def passed_on(parts: Sequence[Part]) -> list[Part]:
    """What the ranks have after a message to the next of each."""
    return [parts[rank - 1] for rank in range(len(parts))]


def follow(script: Script, cp: int) -> tuple[list[set[int]], list[Part]]:
    """All ranks in step: whose keys and values each of them worked on, and what came home in the
    end."""
    held: list[Part] = [(rank, frozenset()) for rank in range(cp)]
    seen: list[set[int]] = [set() for _ in range(cp)]
    gradients = list(held)
    flying: dict[str, list[Part]] = {}
    for step in script:
        if isinstance(step, Exchange):
            flying[step.name] = passed_on(gradients if step.name.startswith("kv_grad") else held)
        elif isinstance(step, KernelStep) and step.name.startswith("attention.core"):
            for rank, (owner, _) in enumerate(held):
                assert owner not in seen[rank]
                seen[rank].add(owner)
            gradients = [(owner, frozenset([rank])) for rank, (owner, _) in enumerate(held)]
        elif isinstance(step, Wait) and not step.name.startswith("kv_grad"):
            held = flying.pop(step.name)
        elif isinstance(step, Wait):
            arrived = flying.pop(step.name)
            if step.name == f"kv_grad.{cp - 1}":
                gradients = arrived
            else:
                assert [owner for owner, _ in arrived] == [owner for owner, _ in gradients]
                gradients = [
                    (owner, one | two)
                    for (owner, one), (_, two) in zip(arrived, gradients, strict=True)
                ]
    assert not flying
    return seen, gradients


@pytest.mark.parametrize("cp", [2, 3, 4, 8])
def test_everybody_sees_everything_once(cp: int) -> None:
    """Forward and backward each rank works on every rank's keys and values; to these come home the
    gradients of all others, its own being there."""
    model = Model("m", "transformer", {**GPT.fields, "sequence": 48 * cp, "positions": 48 * cp})
    inner = core(setting(model, cp=cp))
    everybody = set(range(cp))
    assert follow(inner.forward, cp)[0] == [everybody] * cp
    seen, home = follow(inner.backward, cp)
    assert seen == [everybody] * cp
    assert home == [(rank, frozenset(everybody - {rank})) for rank in range(cp)]


@pytest.mark.parametrize(("cp", "tp"), [(2, 1), (3, 2), (8, 4)])
def test_rings_close(cp: int, tp: int) -> None:
    """The next rank's one before is oneself; the ring goes through all ranks of the group and no
    other."""
    model = Model(
        "m", "transformer", {**GPT.fields, "sequence": 6 * cp * tp, "positions": 6 * cp * tp}
    )
    neighbours = rings(setting(model, cp=cp, tp=tp).par)
    places = [0]
    for _ in range(cp):
        here = places[-1] // tp
        places.append(places[-1] + neighbours[here].ahead)
        assert places[-1] + neighbours[places[-1] // tp].behind == places[-2]
    assert places == [*range(0, cp * tp, tp), 0]


def ring(script: Script, at: Setting, bandwidth: str) -> float:
    """Picoseconds of a script on a ring of ranks, each a microsecond from the next, that move no
    bytes of their own."""
    programs, cp = [], at.par.cp
    for around in rings(at.par):
        stream = KernelStream(Program(), 2, around)
        stream.play("", script)
        programs.append(stream.program)
    workload = Workload.mesh("ring", [("cp", cp)], {}, ["cp"], programs)
    keys = {"npu.peak": "1 TFLOPS", "scheduler.endpoint_delay": "0 ns", "scheduler.chunks": 1}
    target = arm.Platform(f"Switch({cp})", bandwidth=bandwidth, latency="500 ns", settings=keys)
    return 1e3 * arm.simulate(workload, target).step_time_ns


@pytest.mark.parametrize("cp", [2, 3, 4, 8])
@pytest.mark.parametrize("rate", [0.01, 0.1, 10])
def test_time_of_a_ring(cp: int, rate: float) -> None:
    """A step takes the longer of its kernel and of its messages; the last forward has none.
    Backward keys and values leave in all steps but the last and gradients in all but the first two,
    one after the other, and at the end."""
    model = Model("m", "transformer", {**LLAMA.fields, "sequence": 48 * cp})
    at = setting(model, cp=cp)
    pairs = at.tokens * 48 * cp * 8
    one, back = pairs * 16 / cp, pairs * 40 / cp  # ps: widths of 8 and 8, of which backward 3 and 2
    sent = sizes(at).shared * 1e3 / rate
    alone, both = 1e6 + sent, 1e6 + 2 * sent
    forward = (cp - 1) * max(one, alone) + one
    backward = 3 * max(back, alone) + (cp - 3) * max(back, both) + alone
    if cp == 2:
        backward = max(back, alone) + back + alone
    inner = core(at)
    for script, expected in ((inner.forward, forward), (inner.backward, backward)):
        found = ring(script, at, f"{rate} GB/s")
        print(f"cp {cp} {rate} GB/s: {found:.0f} ps, by hand {expected:.0f} ps")
        assert found == pytest.approx(expected, rel=1e-6, abs=10)


def moved(script: Script, kernel: str) -> int:
    """Bytes of all kernels of a kind."""
    return sum(
        step.bytes for step in script if isinstance(step, KernelStep) and step.kernel == kernel
    )


def test_results_are_merged() -> None:
    """After each step but the first results are read twice and written; so are gradients of
    queries, and of keys and values, which other ranks begin and the owner ends."""
    plain, cp = core(setting(LLAMA)), 4
    at = setting(LLAMA, cp=cp)
    size, inner = sizes(at), core(at)
    assert (
        moved(inner.forward, "elementwise") * cp
        == moved(plain.forward, "elementwise") + 9 * size.values * cp
    )
    extra = 9 * size.queries + 3 * 3 * size.shared
    assert (
        moved(inner.backward, "elementwise") * cp
        == moved(plain.backward, "elementwise") + extra * cp
    )
    assert (size.queries, size.values, size.shared) == (16 * 64 * 2, 16 * 64 * 2, 16 * 4 * 16 * 2)


def test_heads_are_packed_and_unpacked() -> None:
    """What is exchanged is copied before and after; attention reads the keys and values of its own
    heads only."""
    at = setting(LLAMA, cp=4, cp_comm_type="a2a")
    size, inner = sizes(at), core(at)
    sent = size.queries + size.shared + size.values
    copies = moved(inner.forward, "elementwise") - core(setting(LLAMA, cp=4)).again[0].bytes  # type: ignore[union-attr]
    assert copies == 4 * sent
    assert moved(inner.forward, "attention") == sent
    gathered = core(setting(LLAMA, cp=4, cp_comm_type="all_gather")).forward
    assert moved(gathered, "unmasked_attention") == sent + 3 * size.shared


def test_only_a_ranks_own_keys_are_masked() -> None:
    """In a ring the first kernel, of `cp`; the others see whole blocks, which platforms may give an
    efficiency."""
    for script in (core(setting(LLAMA, cp=4)).forward, core(setting(LLAMA, cp=4)).backward):
        kinds = [
            step.kernel
            for step in script
            if isinstance(step, KernelStep) and "attention.core" in step.name
        ]
        assert kinds == ["attention"] + ["unmasked_attention"] * 3
    workload = build(LLAMA, cp=4, seq=4096)
    times = []
    for settings_ in ({}, {"npu.compute.efficiency": {"unmasked_attention": 0.5}}):
        target = arm.Platform(
            "Switch(4)",
            bandwidth="1 TB/s",
            latency="0 ns",
            settings={"npu.peak": "1 TFLOPS", **settings_},
        )
        times.append(arm.simulate(workload, target).step_time_ns)
    # 8 layers, 3.5 times the forward pass's operations, three quarters of them unmasked.
    unmasked = 8 * 3.5 * (1024 * 4096 * 8 * 16) * 3 / 4
    assert times[1] - times[0] == pytest.approx(unmasked / 1000, rel=0.01)


LINEAR = Model(
    "linear",
    LLAMA.family,
    {
        **LLAMA.fields,
        "linear_key_heads": 4,
        "linear_value_heads": 8,
        "linear_key_dim": 16,
        "linear_value_dim": 16,
        "linear_kernel": 4,
        "full_every": 4,
    },
)
PROBLEMS = [
    (
        LLAMA,
        {"cp": 2, "cp_comm_type": "ring"},
        "cp_comm_type: unknown cp_comm_type 'ring' (allowed: p2p, all_gather, a2a)",
    ),
    (
        LLAMA,
        {"cp": 2, "cp_comm_type": "p2p", "attention": "unfused"},
        "p2p with unfused attention, which writes no sums of its rows (allowed: all_gather, a2a)",
    ),
    (
        LLAMA,
        {"cp": 8, "cp_comm_type": "a2a", "seq": 128},
        "a2a, but 4 heads of keys and values of a rank are not divisible by cp 8 (allowed: cp 4, "
        "or "
        "another cp_comm_type)",
    ),
    (
        LLAMA,
        {"cp": 8, "tp": 2, "cp_comm_type": "a2a", "seq": 128},
        "a2a, but 4 heads of a rank are not divisible by cp 8",
    ),
    (
        LINEAR,
        {"recompute": "ops"},
        "recompute: ops of a model with linear attention (allowed: none, selective, full)",
    ),
]


@pytest.mark.parametrize(("model", "options", "message"), PROBLEMS)
def test_problems(model: Model, options: dict[str, object], message: str) -> None:
    with pytest.raises(arm.InputError) as error:
        build(model, **options)
    assert any(message in str(problem) for problem in error.value.problems)


def test_defaults_and_options_without_effect() -> None:
    """Megatron's default is the ring, which needs fused attention."""
    assert setting(LLAMA, cp=2).par.cp_comm_type == "p2p"
    assert setting(LLAMA, cp=2, attention="unfused").par.cp_comm_type == "all_gather"
    idle: dict[str, object] = {
        "cp_comm_type": "a2a",
        "early_stop": True,
        "fp8_recipe": "rowwise",
        "bucket_mb": 25.0,
    }
    notes = summary(build(LLAMA, **nested(idle))).notes
    for key in idle:
        assert any(key in note and "no effect" in note for note in notes)


@settings(max_examples=usually(12, 200), deadline=None)
@given(
    cp=st.sampled_from([2, 4]),
    pp=st.sampled_from([1, 2]),
    dp=st.sampled_from([1, 2]),
    tp=st.sampled_from([1, 2]),
)
def test_rings_fold(cp: int, pp: int, dp: int, tp: int) -> None:
    """Ranks of a ring have programs of their own where it closes, and the same classes of memory
    and work."""
    workload = build(LLAMA, cp=cp, pp=pp, dp=dp, tp=tp, global_batch=dp * pp)
    assert workload.programs == min(cp, 3) * pp
    assert len(summary(workload).classes) == pp
    target = arm.Platform(
        f"Switch({workload.ranks})",
        bandwidth="10 GB/s",
        latency="1 us",
        settings={"npu.peak": "1 TFLOPS"},
    )
    folded, whole = (arm.simulate(workload, target, fold=fold) for fold in (True, False))
    assert folded.step_time_ns == whole.step_time_ns
    assert max(row["peak_memory_bytes"] for row in folded.breakdown().to_dicts()) > 0


@pytest.mark.parametrize(
    ("scaled", "separate", "moved"),
    [(True, True, (12, 17)), (True, False, (2, 2)), (False, True, (2, 2))],
)
def test_rotary_embeddings_that_scale(scaled: bool, separate: bool, moved: tuple[int, int]) -> None:
    """Product (2), halves in turn (1 and 2), product (2), sum (3), one tensor (2). Backward: two
    products (4), halves (1 and 2), the sum of three gradients (3, 3), two slices (3, 1)."""
    fields = {**EXPERTS.fields, "rotary_scaled": scaled, "positions": 0}
    found = core(setting(Model("scaled", "moe", fields), separate_rotary=separate))
    heads = EXPERTS.fields["heads"] + EXPERTS.fields["kv_heads"]
    one = 64 * heads * (EXPERTS.fields["hidden"] // EXPERTS.fields["heads"]) * 2
    for steps, name, tensors in zip(
        (found.forward, found.backward), ("rotary", "rotary.grad"), moved, strict=True
    ):
        bytes_ = [s.bytes for s in steps if isinstance(s, KernelStep) and s.name == name]
        assert bytes_ == [tensors * one]
