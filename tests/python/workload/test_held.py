"""What nodes hold over a step adds up to the peak that the summary says; what is offloaded
moves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import armillary as arm
from armillary.errors import InputError
from armillary.workload import Program, Workload, cnn, dlrm, moe, transformer
from armillary.workload.parallelism import Recompute, Schedule

POOL = (
    "{model: hierarchical, nodes: 2, out_switches: 2, groups: 4, chunk_size: 1 MB, "
    "memory_side: {bandwidth: 100 GB/s}, "
    "npu_side: {bandwidth: 100 GB/s}, in_node: {bandwidth: 400 GB/s}}"
)


def platform(npus: int, **settings: object) -> arm.Platform:
    return arm.Platform(
        f"SW({npus})",
        bandwidth="100 GB/s",
        latency="500 ns",
        settings={"npu.peak": "100 TFLOPS"} | settings,
    )


def peaks(workload: Workload) -> list[tuple[int, int]]:
    """Simulated and declared peak of each class of ranks."""
    assert workload.summary is not None
    classes = arm.simulate(workload, platform(workload.ranks)).report["classes"]
    declared = [
        entry.memory.total for entry in workload.summary.classes for _ in range(entry.ranks)
    ]
    first = [int(item["ranks"].split(",")[0].split("-")[0]) for item in classes]
    return [
        (item["peak_memory_bytes"], declared[rank])
        for item, rank in zip(classes, first, strict=True)
    ]


@given(
    pp=st.sampled_from([1, 2, 4]),
    waves=st.integers(1, 3),
    schedule=st.sampled_from(["gpipe", "1f1b", "zb-h1"]),
    zero=st.integers(0, 3),
    recompute=st.sampled_from(["none", "selective", "full"]),
)
def test_stages_hold_what_their_summary_says(
    pp: int, waves: int, schedule: Schedule, zero: int, recompute: Recompute
) -> None:
    workload = transformer(
        "megatron-1.7b",
        pp=pp,
        dp=2,
        global_batch=2 * pp * waves,
        schedule=schedule,
        zero=zero,
        recompute=recompute,
    )
    for simulated, declared in peaks(workload):
        assert simulated == declared


def test_interleaved_stages_hold_what_their_summary_says() -> None:
    for simulated, declared in peaks(
        transformer("megatron-1.7b", pp=4, virtual_stages=3, global_batch=8)
    ):
        assert simulated == declared


def test_uneven_eager_stages_hold_what_their_summary_says() -> None:
    uneven = transformer(
        "llama-3-8b",
        pp=4,
        tp=2,
        dp=2,
        sp=True,
        framework_set={"kernels": "eager", "partition": "cost"},
        zero=1,
        global_batch=6,
    )
    assert uneven.summary is not None
    assert all(entry.memory.temporary for entry in uneven.summary.classes)
    for simulated, declared in peaks(uneven):
        assert simulated == declared


def test_images_and_recommendations_hold_what_their_summary_says() -> None:
    for workload in (
        cnn("resnet-50", dp=2, local_batch=8, passes=2),
        moe("mixtral-8x7b", ep=8, dp=8),
    ):
        for simulated, declared in peaks(workload):
            assert simulated == declared
    for simulated, declared in peaks(dlrm("dlrm-hoti", dp=8, passes=2)):
        assert simulated == declared


def test_parameters_outside_leave_activations_and_two_layers() -> None:
    options: dict[str, Any] = {"dp": 4, "zero": 3}
    own, outside = (
        transformer("megatron-1.7b", **options, offload=offload)
        for offload in ("none", "parameters")
    )
    assert own.summary is not None and outside.summary is not None
    here, there = own.summary.classes[0].memory, outside.summary.classes[0].memory
    assert there.activations == here.activations
    assert (there.gradients, there.optimizer) == (0, 0)
    assert 0 < there.weights < here.weights


def test_what_is_offloaded_moves() -> None:
    """In: parameters twice, states and gradients. Out: gradients, states, parameters. Most of it is
    listed."""
    remote = "{sharing: per_npu, latency: 0 ns, bandwidth: 10 GB/s}"
    workload = transformer("megatron-1.7b", dp=4, zero=3, offload="parameters")
    result = arm.simulate(workload, platform(4, remote_memory=remote))
    assert result.report["classes"][0]["exposed_remote_ns"] > 0
    assert workload.summary is not None
    moved = {
        kind: sum(row["bytes"] for row in result.report["operations"] if row["kind"] == kind)
        for kind in ("load", "store")
    }
    parameters = workload.summary.parameters
    for kind, each in (("load", 2 * 2 + 12 + 2), ("store", 2 + 12 + 2)):
        assert 0.5 * parameters * each < moved[kind] <= parameters * each * 1.001


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"offload": "parameters"}, "parameters, which ZeRO 0 keeps on every NPU"),
        ({"offload": "all"}, "unknown offload 'all'"),
        ({"in_switch": True}, "on with offload none"),
    ],
)
def test_impossible_offloading_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        transformer("megatron-1.7b", dp=4, **options)
    assert said in str(error.value)


def test_in_switch_collectives_replace_those_of_ranks() -> None:
    """Without gathers and reductions of ranks, nothing is communicated."""
    options: dict[str, Any] = {"dp": 8, "zero": 3, "offload": "parameters"}
    for in_switch in (False, True):
        workload = transformer("megatron-1.7b", **options, in_switch=in_switch)
        only = arm.simulate(workload, platform(8, remote_memory=POOL)).report["classes"][0]
        assert (only["comm_ns"] == 0) == in_switch


def test_in_switch_collectives_are_those_of_groups() -> None:
    """Ranks of one tensor or pipeline part gather and reduce theirs: only the rest is left to the
    network. A shard is the part of one of the ranks that hold the parameters."""
    options: dict[str, Any] = {"tp": 2, "pp": 2, "dp": 4, "zero": 3, "offload": "parameters"}
    workload = transformer("megatron-1.7b", **options, in_switch=True)
    assert workload.summary is not None
    groups = {volume.group for entry in workload.summary.classes for volume in entry.volumes}
    assert "tp" in groups and "dp" not in groups
    result = arm.simulate(workload, platform(16, remote_memory=POOL))
    stored = sum(row["bytes"] for row in result.report["operations"] if ".store.dp" in row["name"])
    # In each of 8 micro-batches all gradients once, 2 bytes each; the embedding lies on two stages.
    assert 2 <= stored / 8 / workload.summary.parameters < 2.2


def test_only_in_switch_accesses_have_a_group() -> None:
    with pytest.raises(ValueError, match="only in_switch has one"):
        Program().memory("a", [], 8, group="dp")


def test_refused_where_it_happens() -> None:
    program = Program()
    first = program.compute("a", [], duration_ps=1000)
    program.hold(first, allocates=2_000)
    workload = Workload.listed("w", [program], [0, 0], {})
    settings = {"npu.memory.capacity": "1 kB", "npu.memory.on_overflow": "refuse"}
    with pytest.raises(InputError, match="holds 2 kB at 0 ns, more than the 1 kB"):
        arm.simulate(workload, platform(2, **settings))
    with pytest.raises(ValueError, match="unknown node that allocates or frees memory: 7"):
        Program().hold(7, allocates=1)
