"""What large mixtures of experts train with: layouts, passes side by side, pipelines from both
ends, tokens sent once to a node, single modules recomputed, multi-token prediction. Counts against
closed forms and published ones, and that every combination runs."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_rank import held
from test_layer import setting
from test_transformer import EXPERTS, GPT, LLAMA, platform, summary, volumes

import armillary as arm
from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.flops import step_flops
from armillary.model.weights import active_parameters, layer_weights, mtp_weights, parameters
from armillary.workload import Model, build, footprints, load_model
from armillary.workload.checks import KNOWN_MODULES
from armillary.workload.experts import experts, visited
from armillary.workload.framework_set import nested
from armillary.workload.memory import layer_activations
from armillary.workload.placement import PipelinePlacement, nearly_even, read_layout, shortened
from armillary.workload.schedule import bubble_over_ideal, bubble_share, order, put_off
from armillary.workload.script import CollectiveStep, KernelStep

V3 = decoder(load_model("deepseek-v3"))

# Layouts


def test_layers_of_deepseek_v3_on_sixteen_stages() -> None:
    """By a list, and by Megatron's layout over 32 parts, as NVIDIA's recipe for the model has
    it."""
    found = summary(build("deepseek-v3", pp=16, layers_per_stage=[4] * 15 + [1], global_batch=16))
    assert f"layers of each part: {shortened([4] * 15 + [1])}" in found.notes
    expert, dense = layer_weights(V3, 3).total, layer_weights(V3, 0).total
    weights = [entry.memory.weights // 2 for entry in found.classes]
    assert weights[1:-1] == [4 * expert] * 14
    assert weights[0] == 3 * dense + expert + V3.hidden * V3.vocabulary
    assert weights[-1] == expert + V3.hidden + V3.hidden * V3.vocabulary
    found = summary(
        build(
            "deepseek-v3",
            pp=16,
            virtual_stages=2,
            mtp=1,
            global_batch=16,
            layers_per_stage="Et*3|(tt|)*29m|L",
        )
    )
    assert "layers of each part: 3,2*29,0*2" in found.notes
    assert (
        found.classes[14].memory.weights // 2
        == 2 * expert + mtp_weights(V3).total + V3.hidden * V3.vocabulary
    )


def test_layers_that_do_not_divide_are_dealt_as_evenly_as_they_go() -> None:
    """DeepSeek-V3's 61 layers, over 8 and 16 stages; the ends of the pipeline get the fewest."""
    for pp, counts in ((8, "7,8*5,7*2"), (16, "3,4*13,3*2")):
        uneven = build("deepseek-v3", pp=pp, global_batch=pp)
        given = build("deepseek-v3", pp=pp, global_batch=pp, layers_per_stage=counts)
        said = f"61 layers over {pp} parts as evenly as they go: {counts}"
        assert said in summary(uneven).notes
        assert summary(uneven).classes == summary(given).classes
    chunks = build("llama-3-8b", pp=4, virtual_stages=3, global_batch=4)
    assert "32 layers over 12 parts as evenly as they go: 2,3*8,2*3" in summary(chunks).notes
    with pytest.raises(InputError, match=r"pp: 32 layers for 33 .*allowed: up to 32"):
        build("llama-3-8b", pp=33, global_batch=33)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("4,4*3", r"layers_per_stage: adds up to 16 layers \(allowed: 32 layers in all"),
        ("8*3", r"3 parts for 4 parts \(pp x virtual_stages\)"),
        ("16,16,0,0", "part 2 has no layer"),
        ("8,8,8,x", "'x' is not a number of layers"),
        ("8,8,8,-8", "'-8' is not a number of layers"),
        ("Et*8|t*8|t*8|t*8", r"the order is Et\*32"),
        ("Et*8|t*8|t*8|t*8mL", "1 m, but mtp 0"),
        ("Et*8|t*8|t*8|t*8Q", "'Q' in a layout"),
        ("(((t*99999)*99999)*99999)", "longer than any pipeline"),
        ("Et*8|t*8|t*8|t*8L|", "4 parts|after the loss"),
        (7, "neither a text nor a list"),
    ],
)
def test_faulty_layouts(layout: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build("llama-3-8b", pp=4, global_batch=4, layers_per_stage=layout)


@given(layers=st.integers(1, 200), parts=st.integers(1, 40))
def test_nearly_even_layouts_are_read_back(layers: int, parts: int) -> None:
    """Shortened, too; parts differ by one layer at most."""
    counts = nearly_even(layers, parts)
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1
    if layers >= parts:
        model = decoder(Model("any", "transformer", {**LLAMA.fields, "layers": layers}))
        assert list(read_layout(shortened(counts), model.layers, parts, 0).layers) == counts


@given(pp=st.sampled_from([2, 4, 6, 16]))
def test_both_ways_every_part_is_twice(pp: int) -> None:
    """Stages from either end hold the same parts in the same chunks, next to each other; neighbours
    meet neighbours."""
    place = PipelinePlacement(pp, 2, both_ways=True)
    assert sorted(map(place.index, range(pp))) == list(range(pp))
    for stage in range(pp):
        other = pp - 1 - stage
        assert [place.part(stage, c) for c in (0, 1)] == [place.part(other, c) for c in (0, 1)]
        assert abs(place.index(stage) - place.index(other)) == 1
        for chunk in (0, 1):
            part = place.part(stage, chunk)
            assert place.at(part, stage, chunk) == (stage, chunk)
            if part + 1 < pp:
                there, its = place.at(part + 1, stage, chunk)
                assert place.part(there, its) == part + 1
                assert abs(there - stage) == 1


# Schedules


def makespan(
    schedule: str, stages: int, micro_batches: int, chunks: int, overlap: bool
) -> tuple[Fraction, Fraction]:
    """Runs the orders with messages free, passes side by side as one: the time of the step, and
    that of a stage's work.

    Forward 1, input gradients 1, weight gradients 1, of a chunk 1 / chunks of that.
    """
    place = PipelinePlacement(
        stages, 2 if schedule == "dualpipe" else chunks, schedule == "dualpipe"
    )
    orders = [
        order(schedule, stage, stages, micro_batches, chunks, overlap) for stage in range(stages)
    ]
    done: dict[tuple[str, int, bool, int], Fraction] = {}
    at, clock, work = [0] * stages, [Fraction(0)] * stages, [Fraction(0)] * stages

    def ready(stage: int, i: int) -> Fraction | None:
        kind, micro_batch, chunk, _ = orders[stage][i]
        part = place.part(stage, chunk)
        way = place.both_ways and part == stage
        before = {"F": ("F", part - 1), "W": ("B", part), "B": ("B", part + 1)}[kind]
        if kind == "F" and not part:
            return Fraction(0)
        if kind == "B" and part == place.parts - 1:
            before = ("F", part)
        return done.get((before[0], micro_batch, way, before[1]))

    while any(at[s] < len(orders[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            later = put_off(orders[s])
            while at[s] < len(orders[s]):
                group = range(at[s], at[s] + (2 if orders[s][at[s]].overlaps else 1))
                times = [ready(s, i) for i in group]
                if any(time is None for time in times):
                    break
                whole = [
                    orders[s][i].kind == "B"
                    and (orders[s][i].micro_batch, orders[s][i].chunk) not in later
                    for i in group
                ]
                length = Fraction(len(group) + sum(whole), chunks)
                clock[s] = max(clock[s], *(time for time in times if time is not None)) + length
                work[s] += length
                for i in group:
                    kind, micro_batch, chunk, _ = orders[s][i]
                    part = place.part(s, chunk)
                    done[kind, micro_batch, place.both_ways and part == s, part] = clock[s]
                at[s] += len(group)
                moved = True
        assert moved, f"deadlock at {at}"
    return max(clock), work[0]


@pytest.mark.parametrize(
    ("schedule", "stages", "micro_batches", "chunks"),
    [
        ("1f1b", 2, 8, 1),
        ("1f1b", 4, 16, 1),
        ("interleaved", 4, 16, 2),
        ("interleaved", 8, 32, 3),
        ("dualpipe", 2, 4, 1),
        ("dualpipe", 4, 8, 1),
        ("dualpipe", 8, 20, 1),
        ("dualpipe", 16, 120, 1),
    ],
)
@pytest.mark.parametrize("overlap", [False, True])
def test_bubbles(
    schedule: str, stages: int, micro_batches: int, chunks: int, overlap: bool
) -> None:
    """DualPipe: (p / 2 - 1) (FB + B - 3 W), README of deepseek-ai/DualPipe; passes side by side
    leave those of 1F1B and of interleaving as they are."""
    time, work = makespan(schedule, stages, micro_batches, chunks, overlap)
    found = float((time - work) / work)
    assert found == pytest.approx(
        bubble_over_ideal(schedule, stages, micro_batches, chunks, overlap), abs=1e-12
    )
    share = bubble_share(schedule, stages, micro_batches, chunks, overlap)
    assert float((time - work) / time) == pytest.approx(share, abs=1e-12)
    if schedule == "dualpipe" and overlap:
        assert time - work == (Fraction(stages, 2) - 1) * (3 + 2 - 3)


@pytest.mark.parametrize("stages", [2, 4, 8, 16])
def test_held_side_by_side(stages: int) -> None:
    """DualPipe holds p + 1 micro-batches of a part on every stage (its README); 1F1B twice what it
    does otherwise, interleaving one chunk more."""
    count = 4 * stages
    for stage in range(stages):
        assert held(order("dualpipe", stage, stages, count, 1, True), [1, 1]) == stages + 1
        assert held(order("1f1b", stage, stages, count, 1, True), [1]) == 2 * (stages - stage)
        plain, more = (
            held(order("interleaved", stage, stages, count, 2, each), [1, 1])
            for each in (False, True)
        )
        assert more == plain + 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pp": 3, "global_batch": 12}, "pp: 3 stages under dualpipe"),
        (
            {"pp": 4, "global_batch": 6},
            r"global_batch: 6 micro-batches under dualpipe.*allowed: 8\)",
        ),
        (
            {"pp": 4, "global_batch": 9},
            r"global_batch: 9 micro-batches under dualpipe.*allowed: 8 or 10\)",
        ),
        (
            {"pp": 4, "global_batch": 8, "virtual_stages": 2},
            "virtual_stages: 2 chunks per stage under dualpipe",
        ),
        (
            {"pp": 4, "global_batch": 16, "dp": 2, "zero": 1, "zero_group": 2},
            "zero_group: 2 under dualpipe",
        ),
        ({"pp": 4, "schedule": "gpipe", "overlap_passes": True}, "overlap_passes: on under gpipe"),
        (
            {"pp": 4, "schedule": "1f1b", "zero": 3, "dp": 2, "overlap_passes": True},
            "overlap_passes: on with ZeRO 3",
        ),
    ],
)
def test_what_does_not_go_side_by_side(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        build(GPT, **{"schedule": "dualpipe", **options})


def test_both_ways_every_stage_holds_two_parts() -> None:
    """Twice the parameters on every rank, reduced over twice as many (arXiv:2412.19437, section
    3.2.1)."""
    one = summary(build(LLAMA, pp=4, dp=2, global_batch=16))
    both = summary(build(LLAMA, pp=4, dp=2, global_batch=16, schedule="dualpipe"))
    assert [entry.name for entry in both.classes] == ["stage 0", "stage 3", "stage 1", "stage 2"]
    weights = [entry.memory.weights for entry in one.classes]
    assert [entry.memory.weights for entry in both.classes] == [
        weights[0] + weights[3],
        weights[0] + weights[3],
        weights[1] + weights[2],
        weights[1] + weights[2],
    ]
    assert sum(c.operations * c.ranks for c in both.classes) == sum(
        c.operations * c.ranks for c in one.classes
    )
    optimizer = footprints(LLAMA, pp=4, dp=2, global_batch=16, schedule="dualpipe", zero=1)[
        0
    ].optimizer
    assert optimizer == 12 * (weights[0] + weights[3]) // 2 // 4


@pytest.mark.parametrize("schedule", ["1f1b", "dualpipe"])
def test_communication_hides_behind_the_other_pass(schedule: str) -> None:
    """Side by side, all-to-alls cost less than after one another, and never less than the kernels
    alone."""
    options = {"pp": 2, "dp": 4, "ep": 4, "global_batch": 64, "schedule": schedule, "seq": 512}
    slow = arm.Platform(
        "Switch(8)", bandwidth="1 GB/s", latency="1 us", settings={"npu.peak": "0.2 TFLOPS"}
    )
    fast = arm.Platform(
        "Switch(8)", bandwidth="100 TB/s", latency="0 ns", settings={"npu.peak": "0.2 TFLOPS"}
    )
    times = {}
    for overlap in (False, True):
        workload = build(EXPERTS, **options, overlap_passes=overlap)
        times[overlap] = [arm.simulate(workload, target).step_time_ns for target in (slow, fast)]
    exposed = [each[0] - each[1] for each in (times[False], times[True])]
    print(f"{schedule}: exposed {exposed[0] / 1e6:.1f} ms, side by side {exposed[1] / 1e6:.1f} ms")
    assert 0 < exposed[1] < 0.6 * exposed[0]


# Routes of tokens


@pytest.mark.parametrize(
    ("experts", "top_k", "ep", "near", "limit"),
    [(8, 2, 4, 2, None), (8, 2, 4, 2, 1), (8, 3, 8, 4, 2)],
)
def test_visits_are_those_of_random_experts(
    experts: int, top_k: int, ep: int, near: int, limit: int | None
) -> None:
    """Against every choice of experts there is."""
    import itertools

    model = Model("any", "moe", {**EXPERTS.fields, "experts": experts, "top_k": top_k})
    at = setting(model, dp=ep, ep=ep, ep_node=near, node_limit=limit)
    nodes = limit or ep // near
    each = experts // ep
    choices = list(itertools.combinations(range(nodes * near * each), top_k))
    met = [
        sum(len({x // (each * size) for x in choice}) for choice in choices) / len(choices)
        for size in (near, 1)
    ]
    assert visited(at) == pytest.approx(tuple(met))


def test_deepseek_v3_visits() -> None:
    """8 of 256 experts on 8 nodes of 8 GPUs, 4 nodes at most (arXiv:2412.19437, section 3.2.2)."""
    at = setting(load_model("deepseek-v3"), dp=64, ep=64, ep_node=8, node_limit=4)
    found = visited(at)
    assert 3.5 < found.nodes < 4
    assert 7 < found.ranks < 8
    assert visited(setting(load_model("deepseek-v3"), dp=64, ep=64, ep_node=8)).nodes > 5


@pytest.mark.parametrize(("narrow", "out"), [(False, 2 * 64), (True, 64 + 4)])
@pytest.mark.parametrize("ep", [2, 4])
def test_volume_by_dimension(narrow: bool, out: int, ep: int) -> None:
    """T x nodes tokens between nodes and T x ranks within, 2 dispatched (in 8 bits with a scale of
    4 bytes for 128) and 2 combined a layer and micro-batch."""
    workload = build(EXPERTS, dp=4, ep=ep, ep_node=2, fp8_dispatch=narrow, global_batch=8)
    visits = visited(setting(EXPERTS, dp=4, ep=ep, ep_node=2))
    calls, found = 7 * 2, volumes(workload, 0)
    sizes = (
        {"ep_nodes": visits.nodes, "ep_node": visits.ranks} if ep > 2 else {"ep_node": visits.ranks}
    )
    for group, each in sizes.items():
        tokens = math.ceil(64 * each)
        assert found[group, "all_to_all"] == (4 * calls, 2 * calls * tokens * (out + 2 * 64))
    assert not [key for key in found if key[0] == "ep"]
    direct = volumes(build(EXPERTS, dp=4, ep=ep, fp8_dispatch=narrow, global_batch=8), 0)
    assert direct["ep", "all_to_all"] == (4 * calls, 2 * calls * 64 * 2 * (out + 2 * 64))


def test_whole_experts_lie_over_the_ranks_of_a_replica_first(tmp_path: Path) -> None:
    """Megatron-Core's `expert_tensor_parallel_size=1`: with tp 2 and dp 4 the four ranks of `ep`
    are two replicas, and the ranks with the same experts are four apart. Each rank sends its own
    tokens. Weights and operations of a rank are those of experts that two ranks divide."""
    shared = {"tp": 2, "dp": 4, "zero": 1, "global_batch": 8}
    cut, whole = build(EXPERTS, ep=2, **shared), build(EXPERTS, ep=4, etp=1, **shared)
    whole.write(tmp_path / "whole", "chakra")
    listed = json.loads((tmp_path / "whole/comm_group.json").read_text()).values()
    made = {tuple(map(int, group)) for group in listed}
    assert {(0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7)} <= made
    # 64 tokens in a micro-batch, half of them on a rank, two experts each, 64 values of 2 bytes.
    calls = 7 * 2
    assert volumes(whole, 0)["ep", "all_to_all"] == (4 * calls, 4 * calls * 32 * 2 * 64 * 2)
    found, other = (summary(each).classes[0] for each in (whole, cut))
    assert found.operations == other.operations
    assert found.memory.weights == other.memory.weights


@pytest.mark.parametrize(
    ("etp", "calls"), [(None, {"experts.gather", "experts.reduce"}), (1, set())]
)
def test_whole_experts_gather_no_tokens(etp: int | None, calls: set[str]) -> None:
    forward = experts(setting(EXPERTS, tp=2, dp=2, ep=2, etp=etp)).forward
    names = {step.name for step in forward if isinstance(step, CollectiveStep)}
    assert names == calls


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("separate", [True, False])
def test_separate_biases_of_experts(bias: bool, separate: bool) -> None:
    """A product in 4 bytes (written), a sum (2 and 4 read, 4 written), one tensor (4, 4), and its
    16-bit form (4, 2): 28 bytes a value. Backward 6, 6, twice 12 and 4: 40."""
    model = Model("biased", "moe", {**EXPERTS.fields, "bias": bias})
    scripts = experts(setting(model, separate_bias=separate))
    there, values = bias and separate, 64 * 2 * 64
    for steps, name, each in (
        (scripts.forward, "experts.bias", 28),
        (scripts.backward, "experts.bias.grad", 40),
    ):
        found = [s.bytes for s in steps if isinstance(s, KernelStep) and s.name == name]
        assert found == ([each * values] if there else [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"etp": 3}, "etp: 3 ranks for each expert, with tp 1"),
        ({"etp": 1, "cp": 8}, "ep: 4 with etp 1 is not a multiple of tp x cp 8"),
        ({"etp": 1, "tp": 2, "ep_node": 1}, "ep_node: 1 with etp 1 is not a multiple of tp x cp 2"),
        ({"ep_node": 3}, "ep_node: 3 ranks in a node don't divide ep 4"),
        ({"node_limit": 2}, "node_limit: 2 without ep_node"),
        ({"ep_node": 2, "node_limit": 3}, "node_limit: 3 of 2 nodes"),
        ({"fp8_weight_cache": True}, "fp8_weight_cache: on with precision bf16"),
        ({"mtp": 9}, "mtp: 9 modules"),
        ({"mtp": -1}, "mtp: invalid count: -1 .allowed: a whole number from 0"),
        ({"recompute_modules": "norms"}, "recompute_modules: norms: unknown, or not in this model"),
        (
            {"recompute_modules": ["mla_up_proj"]},
            "recompute_modules: mla_up_proj: unknown, or not in this model",
        ),
        (
            {"recompute_modules": "moe", "recompute": "full"},
            "recompute_modules: given with recompute full",
        ),
        ({"layers_per_stage": "8", "partition": "cost"}, "given with partition cost"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        build(EXPERTS, dp=4, ep=4, **nested(options))


def test_options_of_experts_for_a_dense_model() -> None:
    for name, value in (("fp8_dispatch", True), ("gates_inside", True)):
        with pytest.raises(InputError, match=f"{name}: True for a model without experts"):
            build(LLAMA, **nested({name: value}))


def test_grouped_multiplications_have_their_own_efficiency() -> None:
    """Experts' at half of the others' rate: the step grows by as long again as they took."""
    workload = build(EXPERTS, seq=64)
    times = []
    for grouped in (1.0, 0.5):
        rates = {"gemm": 1.0, "grouped": grouped}
        target = arm.Platform(
            "Switch(1)", bandwidth="1 GB/s", latency="0 ns",
            settings={"npu.peak": "1 TFLOPS", "npu.compute.efficiency": rates},
        )  # fmt: skip
        times.append(arm.simulate(workload, target).step_time_ns)
    routed = (
        3 * 2 * 7 * 64 * 2 * (3 * 64 * 32)
    )  # layers x tokens x experts x weights, at 1,000 operations a ns
    assert times[1] - times[0] == pytest.approx(routed / 1000, rel=0.01)


# Recomputation of single modules


def kept(model: Model, **options: object) -> int:
    """Bytes that a layer like the last one keeps of a micro-batch, with fused functions."""
    at = setting(model, **{"saved": "fused", **options})
    return layer_activations(at, at.model.layers - 1)


def test_what_modules_drop() -> None:
    """Of DeepSeek-V3's layers, bytes a token: results that are computed again from what stays."""
    model, tokens = load_model("deepseek-v3"), 4096
    options = {"dp": 64, "ep": 64}
    whole = kept(model, **options)
    heads, up = 128, 2048
    expected = {
        "layernorm": 2 * 2 * 7168,
        "mla_up_proj": 2 * (heads * (192 + 192 + 128) + 1536 + 512),
        "moe_act": 2 * 8 * up,
        "activation": 2 * 9 * up,
        "shared_experts": 2 * 3 * up,
        "moe": 2 * (2 * 8 * 7168 + 9 * 3 * up),
    }
    for name, each in expected.items():
        assert whole - kept(model, **options, recompute_modules=name) == tokens * each, name
    # The router's weights inside: results of experts; in 8 bits: inputs of norms' matrices, of
    # up-projections, experts and functions.
    assert whole - kept(model, **options, gates_inside=True) == tokens * 2 * 8 * 7168
    narrow = kept(model, **options, precision="fp8", fp8_activations=True)
    assert whole - narrow == tokens * (2 * 7168 + 1536 + 512 + 8 * 7168 + 9 * 3 * up)
    sent = kept(model, **options, fp8_dispatch=True)
    assert whole - sent == tokens * 8 * 7168


def test_modules_of_dense_layers() -> None:
    """A gated perceptron keeps 3 inner widths and its norm's result; `mlp` drops the first,
    `layernorm` both norms'."""
    whole = kept(LLAMA)
    assert whole - kept(LLAMA, recompute_modules="mlp") == 64 * 2 * 3 * 192
    assert whole - kept(LLAMA, recompute_modules="activation") == 64 * 2 * 192
    assert whole - kept(LLAMA, recompute_modules=["layernorm", "mlp"]) == 64 * 2 * (
        3 * 192 + 2 * 64
    )
    unfused = kept(LLAMA, attention="unfused") - kept(
        LLAMA, attention="unfused", recompute_modules="core_attn"
    )
    assert unfused == 64 * 64 * 8 * 2


def test_dropped_tensors_come_back_for_one_layer() -> None:
    """They are there again while the layer's backward pass runs."""
    options = {"pp": 2, "global_batch": 8, "framework_set": {"saved": "fused"}}
    one, less = (
        footprints(LLAMA, recompute_modules=modules, **options)[0] for modules in (None, "mlp")
    )
    assert one.activations - less.activations == 8 * 64 * 2 * 3 * 192
    assert less.temporary - one.temporary == 64 * 2 * 3 * 192


def test_operations_of_modules() -> None:
    """Of DeepSeek-V3, whose 3 first layers are dense; elementwise kernels have none."""
    base = step_flops(V3, 1, 4096)
    again = {
        name: step_flops(V3, 1, 4096, modules=frozenset({name})).hardware - base.model
        for name in sorted(KNOWN_MODULES)
    }
    once = 2 * 4096
    assert again["mla_up_proj"] == once * 61 * (1536 * 128 * 192 + 512 * 128 * 256)
    assert again["shared_experts"] == once * 58 * 3 * 7168 * 2048
    assert again["moe"] == once * 58 * (9 * 3 * 7168 * 2048 + 256 * 7168)
    assert again["mlp"] == once * 3 * 3 * 7168 * 18432
    assert again["core_attn"] == once * 61 * 4096 * 128 * (192 + 128)
    assert again["layernorm"] == again["activation"] == again["moe_act"] == 0


# Multi-token prediction, optimizer


def test_parameters_of_multi_token_prediction() -> None:
    """DeepSeek-V3's module has 11.5 B of its own, and a token meets 2.4 B with the shared embedding
    and head, which is its layer without the projection and three norms (README_WEIGHTS.md of
    deepseek-ai/DeepSeek-V3)."""
    own = parameters(V3, mtp=1) - parameters(V3)
    layer = own - 2 * 7168 * 7168 - 3 * 7168
    assert layer == layer_weights(V3, 60).total
    assert round(layer / 1e9, 1) == 11.5
    met = layer - (256 - 8) * 3 * 7168 * 2048 + 2 * 7168 * 129280
    assert round(met / 1e9, 1) == 2.4
    assert active_parameters(V3, mtp=1) - active_parameters(V3) == own - (256 - 8) * 3 * 7168 * 2048


def test_work_of_multi_token_prediction() -> None:
    """A layer, a projection of twice the width, and the head once more, three times."""
    one, two = (step_flops(V3, 1, 4096, mtp=mtp).model for mtp in (0, 1))
    layer = (
        2
        * 4096
        * (
            sum(
                n
                for n in (1536 * 7168, 1536 * 128 * 192, 7168 * 576, 512 * 128 * 256, 16384 * 7168)
            )
        )
    )
    layer += 2 * 4096 * (9 * 3 * 7168 * 2048 + 256 * 7168) + 2 * 4096 * 4096 * 128 * 320
    head = 2 * 4096 * 7168 * 129280
    assert two - one == 3 * (layer + head + 2 * 4096 * 2 * 7168 * 7168)


def test_modules_in_a_part_of_their_own() -> None:
    """Messages carry the hidden states of the model and of each module before them; the embedding
    is there once more, and its gradients are exchanged."""
    options = {"pp": 4, "global_batch": 8, "mtp": 1}
    workload = build(LLAMA, **options, layers_per_stage="Ettt|ttt|ttm|L")
    one = 64 * 64 * 2
    sent = [volumes(workload, stage)["", "send"][1] for stage in range(4)]
    gradient = 2 * 512 * 64
    assert sent == [8 * one + gradient, 8 * 2 * one, 8 * (2 + 1) * one + gradient, 8 * 2 * one]
    assert arm.simulate(workload, platform(4)).step_time_ns > 0


@pytest.mark.parametrize(
    ("precision", "wide", "narrow"), [("bf16", 12, 8), ("fp8", 12, 8), ("fp32", 8, 4)]
)
def test_bytes_of_moments(precision: str, wide: int, narrow: int) -> None:
    """A master copy of 4 bytes below fp32 and two moments (arXiv:2412.19437, section 3.3.1)."""
    count = summary(build(LLAMA)).parameters
    for moments, each in (("fp32", wide), ("bf16", narrow)):
        found = footprints(LLAMA, precision=precision, moments=moments)[0]
        assert found.optimizer == each * count


def test_weights_cast_once() -> None:
    """A cache of 8-bit weights, as they are and transposed: 2 bytes a parameter of matrices, and no
    weight cast in a micro-batch."""
    plain, cached = (
        build(LLAMA, precision="fp8", global_batch=4, fp8_weight_cache=on) for on in (False, True)
    )
    matrices = 8 * (64 * 128 + 64 * 64 + 3 * 64 * 192)
    weights = [summary(each).classes[0].memory.weights for each in (plain, cached)]
    assert weights[1] - weights[0] == 2 * matrices
    times = [arm.simulate(each, platform(1)).step_time_ns for each in (plain, cached)]
    # 6 bytes an element a cast at 100 GB/s: three of four are saved.
    assert times[0] - times[1] == pytest.approx(3 * 6 * matrices / 100, rel=0.02)
