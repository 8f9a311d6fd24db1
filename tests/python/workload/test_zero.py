"""Shards of groups of ranks and whole tensors: volumes, groups and memory in closed form; that the
steps run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_rank import states
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model, models
from armillary.model.weights import Weights, layer_tensors, layer_weights
from armillary.workload import Model, Workload, build, transformer
from armillary.workload.framework_set import nested
from armillary.workload.parallelism import Parallelism
from armillary.workload.transformer import footprints
from armillary.workload.zero import deal

LLAMA_8B = 8_030_261_248
DECODERS = [name for name in models() if load_model(name).family in ("transformer", "moe")]
SMALL = {
    "layers": 2,
    "hidden": 64,
    "heads": 8,
    "ffn": 256,
    "vocabulary": 512,
    "sequence": 64,
    "tied": False,
}
EXPERTS = Model(
    "small-moe", "moe", {**SMALL, "experts": 8, "top_k": 2, "expert_ffn": 32, "gated": True}
)


def volumes(workload: Workload) -> dict[tuple[str, str], tuple[int, int]]:
    """Count and bytes by group and kind of a rank of the first stage."""
    assert workload.summary is not None
    return {(v.group, v.kind): (v.count, v.bytes) for v in workload.summary.classes[0].volumes}


def platform(ranks: int) -> arm.Platform:
    return arm.Platform(
        f"Switch({ranks})", bandwidth="10 GB/s", latency="1 us", settings={"npu.peak": "1 TFLOPS"}
    )


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("overlap", [True, False])
def test_volumes_of_groups(zero: int, overlap: bool) -> None:
    """MiCS (arXiv:2205.00119, section 3.4): micro-batches are reduced within the group, the step's
    shards beyond."""
    g, micro_batches = 4, 2
    workload = transformer(
        "llama-3-8b",
        dp=16,
        zero=zero,
        zero_group=g,
        framework_set={"overlap_grad_reduce": overlap, "overlap_param_gather": overlap},
        global_batch=32,
    )
    found = volumes(workload)
    reductions = micro_batches if zero >= 2 else 1
    gathered = 2 * micro_batches if zero == 3 else 1
    assert found["zero", "reduce_scatter"][1] == 2 * LLAMA_8B * reductions
    assert found["replica", "all_reduce"][1] == 2 * LLAMA_8B // g
    assert found["zero", "all_gather"][1] == gathered * 2 * LLAMA_8B // g
    assert not any(group == "dp" for group, _ in found)


def test_groups_are_neighbours(tmp_path: Path) -> None:
    """Rank = tp + 2 (replica of 8): of 8 replicas of each half of the model, shards over 4, two
    hold the same."""
    model = Model("m", "transformer", SMALL)
    build(model, tp=2, dp=8, zero=3, zero_group=4).write(tmp_path / "w", "chakra")
    groups = {
        tuple(group) for group in json.loads((tmp_path / "w/comm_group.json").read_text()).values()
    }
    assert {(0, 2, 4, 6), (8, 10, 12, 14), (1, 3, 5, 7), (0, 8), (7, 15)} <= groups
    assert (0, 2, 4, 6, 8, 10, 12, 14) not in groups


def test_a_group_of_all_is_none_given() -> None:
    """Down to the same collectives."""
    given_, not_given = (transformer("llama-3-8b", dp=8, zero=2, zero_group=g) for g in (8, None))
    assert volumes(given_) == volumes(not_given)
    assert (
        arm.simulate(given_, platform(8)).step_time_ns
        == arm.simulate(not_given, platform(8)).step_time_ns
    )


def test_experts_are_cut_within_the_group(tmp_path: Path) -> None:
    """With ep 2 an expert's replicas are every second rank: g / ep of them hold a shard each."""
    workload = build(EXPERTS, dp=8, ep=2, zero=1, zero_group=4)
    expert = 2 * (8 // 2) * 3 * 64 * 32 + 2 * (8 // 2) * (2 * 32 + 64)
    found = volumes(workload)
    assert found["ezero", "reduce_scatter"][1] == 2 * expert
    assert found["ezero", "all_gather"][1] == 2 * expert // 2
    workload.write(tmp_path / "w", "chakra")
    groups = {
        tuple(group) for group in json.loads((tmp_path / "w/comm_group.json").read_text()).values()
    }
    assert {(0, 2), (4, 6), (0, 1, 2, 3), (0, 4)} <= groups


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("g", [1, 2, 8, 32])
def test_memory_of_groups(zero: int, g: int) -> None:
    """2 + 2 + 12 bytes a parameter, cut by g instead of dp."""
    count = 3200
    ours = states(Weights(count), Parallelism(dp=32, zero=zero, zero_group=g))
    cut = [count // g if zero >= stage else count for stage in (3, 2, 1)]
    assert (ours.weights, ours.gradients, ours.optimizer) == (2 * cut[0], 2 * cut[1], 12 * cut[2])
    experts = states(
        Weights(count, count), Parallelism(dp=32, ep=2, zero=zero, zero_group=max(g, 2))
    )
    assert experts.optimizer == 12 * (count // max(g, 2) + count // (max(g, 2) // 2))


@pytest.mark.parametrize("group", [None, 4])
@pytest.mark.parametrize("overlap", [True, False])
def test_volumes_of_whole_tensors(group: int | None, overlap: bool) -> None:
    """All gradients are all-reduced; every parameter is broadcast once, a message an owner."""
    workload = transformer(
        "llama-3-8b",
        dp=16,
        zero=1,
        zero_group=group,
        framework_set={"whole_tensors": True, "overlap_param_gather": overlap},
    )
    name = "zero" if group else "dp"
    found = volumes(workload)
    assert found["dp", "all_reduce"][1] == 2 * LLAMA_8B
    assert found[name, "broadcast"][1] == 2 * LLAMA_8B
    if not overlap:
        assert found[name, "broadcast"][0] == (group or 16)


@pytest.mark.parametrize("group", [None, 4])
@pytest.mark.parametrize(("wide", "width"), [(False, 2), (True, 4)])
def test_volumes_of_gradients_that_are_all_reduced(
    group: int | None, wide: bool, width: int
) -> None:
    """Whole gradients are all-reduced over all copies; parameters are gathered in 2 bytes, a piece
    a rank."""
    keys = {"grad_all_reduce": True, "fp32_grad_reduce": wide, "overlap_param_gather": False}
    options = {"dp": 16, "zero": 1, "zero_group": group, "framework_set": keys}
    found = volumes(transformer("llama-3-8b", **options))
    assert found["dp", "all_reduce"][1] == width * LLAMA_8B
    assert found["zero" if group else "dp", "all_gather"][1] == 2 * LLAMA_8B // (group or 16)
    assert not any(kind == "reduce_scatter" for _, kind in found)


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_gradients_may_be_reduced_in_four_bytes(zero: int) -> None:
    """Memory is as before: they are kept in 2."""
    kind = "reduce_scatter" if zero else "all_reduce"
    sizes, held = [], []
    for wide in (False, True):
        made = transformer("llama-3-8b", dp=16, zero=zero, framework_set={"fp32_grad_reduce": wide})
        sizes.append(volumes(made)["dp", kind][1])
        assert made.summary is not None
        held.append(made.summary.classes[0].memory)
    assert sizes[1] == 2 * sizes[0]
    assert held[0] == held[1]


def test_no_more_broadcasts_than_tensors() -> None:
    """Five matrices a layer, one of gains, embedding, head and last gain; most of 1,024 ranks own
    none."""
    workload = transformer(
        "llama-2-7b",
        dp=1024,
        zero=1,
        framework_set={"whole_tensors": True, "overlap_param_gather": False},
    )
    assert volumes(workload)["dp", "broadcast"][0] == 32 * 6 + 3


def test_memory_of_whole_tensors() -> None:
    """The owner of the embedding holds it whole, 12 bytes an element."""
    (held,) = footprints("llama-3-8b", dp=1024, zero=1, whole_tensors=True)
    assert held.optimizer == 12 * 128256 * 4096
    (even,) = footprints("llama-3-8b", dp=1024, zero=1)
    assert even.optimizer == 12 * LLAMA_8B // 1024


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 12))
def test_dealing(sizes: list[int], ranks: int) -> None:
    """Graham 1969: the largest first leaves nobody more than the mean and the largest; up to
    `ranks` one each."""
    owners = deal(sizes, ranks)
    loads = [
        sum(n for n, owner in zip(sizes, owners, strict=True) if owner == rank)
        for rank in range(ranks)
    ]
    assert sum(loads) == sum(sizes)
    assert max(loads) <= sum(sizes) / ranks + max(sizes)
    if len(sizes) <= ranks:
        assert max(loads) == max(sizes)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(("tp", "ep"), [(1, 1), (2, 1), (1, 8)])
def test_tensors_add_up(name: str, tp: int, ep: int) -> None:
    model = decoder(load_model(name))
    ep = ep if model.experts else 1
    for layer in (0, model.layers - 1):
        tensors, weights = layer_tensors(model, layer, tp, ep), layer_weights(model, layer, tp, ep)
        assert (sum(tensors.dense), sum(tensors.expert)) == (weights.dense, weights.expert)
        assert min(tensors.dense + tensors.expert) > 0


@st.composite
def shardings(draw: st.DrawFn) -> dict[str, object]:
    """A sharding that fits."""
    ep, cp = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    inner, outer = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    zero = draw(st.sampled_from([1, 2, 3]))
    return {
        "tp": draw(st.sampled_from([1, 2])),
        "pp": draw(st.sampled_from([1, 2])),
        "ep": ep,
        "cp": cp,
        "dp": ep * inner * outer,
        "zero": zero,
        "zero_group": cp * ep * inner,
        "whole_tensors": zero == 1 and draw(st.booleans()),
        "overlap_grad_reduce": draw(st.booleans()),
        "overlap_param_gather": draw(st.booleans()),
    }


@settings(max_examples=usually(12, 250), deadline=None)
@given(shardings())
def test_every_sharding_runs(options: dict[str, object]) -> None:
    workload = build(EXPERTS, **nested(options))
    folded = arm.simulate(workload, platform(workload.ranks)).step_time_ns
    assert folded == arm.simulate(workload, platform(workload.ranks), fold=False).step_time_ns > 0


def test_offloaded_shards_of_groups_run() -> None:
    """Gradients are reduced over the replicas before they are stored."""
    workload = build(
        Model("m", "transformer", SMALL), dp=8, zero=3, zero_group=4, offload="parameters"
    )
    shard = 2 * sum(entry.dense for entry in _small_weights()) // 4
    assert volumes(workload)["replica", "all_reduce"][1] == shard


def _small_weights() -> list[Weights]:
    model = decoder(Model("m", "transformer", SMALL))
    ends = Weights(512 * 64), Weights(512 * 64 + 2 * 64)
    return [*(layer_weights(model, layer) for layer in range(2)), *ends]


BAD = [
    (
        {"dp": 12, "zero": 1, "zero_group": 8},
        "zero_group: 8 doesn't divide dp x cp = 12 (allowed: 6 or 12)",
    ),
    (
        {"dp": 8, "zero_group": 4},
        "zero_group: 4 with ZeRO 0, which shards nothing (allowed: zero 1, 2 or 3)",
    ),
    ({"dp": 8, "zero": 1, "zero_group": 0}, "zero_group: invalid count: 0"),
    (
        {"dp": 4, "cp": 4, "zero": 1, "zero_group": 2},
        "zero_group: 2 doesn't divide dp x cp = 16, or is not a multiple of cp 4 x ep 1 (allowed: "
        "4)",
    ),
    (
        {"dp": 4, "zero": 3, "whole_tensors": True},
        "whole_tensors: on with ZeRO 3, which cuts gradients too",
    ),
    (
        {"dp": 4, "whole_tensors": True},
        "whole_tensors: on with ZeRO 0, which deals out nothing (allowed: zero 1)",
    ),
    (
        {"dp": 4, "zero": 1, "whole_tensors": True, "offload": "optimizer"},
        "whole_tensors: on with offload optimizer (allowed: offload none)",
    ),
    (
        {"dp": 4, "zero": 2, "grad_all_reduce": True},
        "grad_all_reduce: on with ZeRO 2, which cuts gradients too (allowed: zero 1)",
    ),
    (
        {"dp": 4, "zero": 1, "grad_all_reduce": True, "offload": "optimizer"},
        "grad_all_reduce: on with offload optimizer (allowed: offload none)",
    ),
    (
        {"dp": 4, "zero": 3, "zero_group": 2, "offload": "parameters", "in_switch": True},
        "zero_group: 2, but switches of the memory reduce over all 4 ranks",
    ),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        build("llama-3-8b", **nested(options))
    assert any(said in str(problem) for problem in caught.value.problems), str(caught.value)
