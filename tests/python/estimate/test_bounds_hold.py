"""Every lower bound of `estimate` against simulations of drawn collectives and steps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

import armillary as arm
from armillary.design import overlap
from armillary.estimate import bounds, topology
from armillary.estimate.floor import Floor
from armillary.workload import Program, Workload

KINDS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
)
BLOCKS = st.sampled_from(["R(3)", "R(4)", "FC(3)", "FC(4)", "SW(2)", "SW(3)", "SW(4)"])
STACK = st.lists(BLOCKS, min_size=1, max_size=3)
ROUNDING = 1 + 1e-6
"""Times are whole picoseconds, and parts of bytes are rounded up."""


def run(workload: Workload, platform: arm.Platform, backend: str) -> arm.Result:
    return arm.simulate(workload, platform, backend=backend, detail=True)


@settings(max_examples=usually(20, 400), deadline=None)
@given(stack=STACK, data=st.data())
def test_no_collective_is_below_its_bound(stack: list[str], data: st.DataObject) -> None:
    """Any kind, on dimensions of unequal bandwidth, with any hierarchy and rings."""
    dims = len(stack)
    bandwidth = data.draw(st.lists(st.integers(1, 500), min_size=dims, max_size=dims))
    changes = {
        "collectives.hierarchy": data.draw(st.sampled_from(["enhanced", "baseline"])),
        "collectives.rings": data.draw(st.sampled_from(["one_way", "both_ways"])),
        "scheduler.chunks": data.draw(st.integers(1, 8)),
        "scheduler.endpoint_delay": "0 ns",
    }
    platform = arm.Platform(
        "_".join(stack),
        bandwidth=[f"{each} GB/s" for each in bandwidth],
        per=data.draw(st.sampled_from(["link", "npu"])),
        latency=f"{data.draw(st.integers(0, 500))} ns",
        settings=changes,
    )
    kind, size = data.draw(st.sampled_from(KINDS)), data.draw(st.integers(1, 10**7))
    program = Program()
    program.collective("one", [], kind, size)
    workload = Workload.listed("one", [program], [0] * platform.npus, {})
    found = run(workload, platform, data.draw(st.sampled_from(["analytical", "link", "flow"])))
    bound = bounds.of_all(found.report, kind, size)
    assert bound is not None
    assert bound.ns <= found.step_time_ns * ROUNDING
    for row in found.report["detail"]["collectives"]:  # type: ignore[index]
        by_row = bounds.collective(found.report, row)
        assert by_row is None or by_row.ns <= row["max_ns"] * ROUNDING


GROUPS = {"inner": ["inner"], "outer": ["outer"], "all": ["inner", "outer"]}
OPERATION = st.tuples(
    st.sampled_from(KINDS), st.sampled_from(tuple(GROUPS)), st.integers(1, 4 * 10**6), st.booleans()
)


def step(drawn: list[tuple[str, str, int, bool]], inner: int, outer: int) -> Workload:
    """Operations on groups of a mesh, some after the one before, each after a computation."""
    program, last = Program(), list[int]()
    for at, (kind, group, size, waits) in enumerate(drawn):
        done = program.compute(f"c{at}", last if waits else [], duration_ps=10**6)
        last = [program.collective(f"o{at}", [done], kind, 0 if kind == "barrier" else size, group)]
    program.compute("end", last, duration_ps=10**6)
    used = {group: GROUPS[group] for _, group, _, _ in drawn}
    return Workload.mesh("drawn", [("inner", inner), ("outer", outer)], used, [], [program])


@settings(max_examples=usually(20, 400), deadline=None)
@given(
    drawn=st.lists(OPERATION, min_size=1, max_size=5),
    stack=st.tuples(BLOCKS, BLOCKS),
    data=st.data(),
)
def test_no_drawn_collective_is_below_the_floor(
    drawn: list[tuple[str, str, int, bool]], stack: tuple[str, str], data: st.DataObject
) -> None:
    """Collectives with roots, too: a rank that is done need not wait for the root."""
    net = topology.parse("_".join(stack))
    assert net is not None
    workload = step(drawn, *net.sizes)
    chosen: dict[str, object] = {"scheduler.chunks": data.draw(st.integers(1, 16))}
    bandwidth = [float(data.draw(st.integers(1, 400))) * 1e9 for _ in net.sizes]
    floor = Floor(overlap.job("drawn", workload, chosen, measured=False), chosen)
    floor.show(net, bandwidth)
    under = floor.model(net)
    assert under is not None
    per = ["link" if each == "Ring" else "npu" for each in net.blocks]
    given_ = [f"{int(each)} B/s" for each in bandwidth]
    changes = {**chosen, "collectives.rings": "one_way", "scheduler.endpoint_delay": "0 ns"}
    platform = arm.Platform(str(net), bandwidth=given_, latency="0 ns", per=per, settings=changes)
    assert under.time(bandwidth) <= run(workload, platform, "analytical").step_time_ns / 1e9


@settings(max_examples=usually(12, 250), deadline=None)
@given(
    drawn=st.lists(OPERATION, min_size=1, max_size=5),
    stack=st.tuples(BLOCKS, BLOCKS),
    data=st.data(),
)
def test_no_step_is_below_its_bounds(
    drawn: list[tuple[str, str, int, bool]], stack: tuple[str, str], data: st.DataObject
) -> None:
    net = topology.parse("_".join(stack))
    assert net is not None
    platform = arm.Platform(
        str(net),
        bandwidth=[f"{data.draw(st.integers(1, 400))} GB/s" for _ in net.sizes],
        per="npu",
        latency=f"{data.draw(st.integers(0, 300))} ns",
        settings={"npu": {"peak": "100 TFLOPS"}, "scheduler.chunks": data.draw(st.integers(1, 8))},
    )
    found = run(
        step(drawn, *net.sizes), platform, data.draw(st.sampled_from(["analytical", "link"]))
    )
    for what, least in bounds.step(found.report):
        assert least <= found.step_time_ns * ROUNDING, what


def test_a_scatter_of_many_keeps_the_inner_dimension_free() -> None:
    """4 MiB from each of 32 on R(4)_SW(8): the outer dimension carries 7 of 8 parts, the inner 3 of
    32. So with a slow inner dimension it takes 3 / 32 of its bytes over 1 GB/s."""
    size = 2**22 * 32
    platform = arm.Platform(
        "R(4)_SW(8)",
        bandwidth=["1 GB/s", "10 TB/s"],
        latency="0 ns",
        per=["link", "npu"],
        settings={"collectives.rings": "one_way"},
    )
    program = Program()
    program.collective("out", [], "scatter", size)
    workload = Workload.listed("out", [program], [0] * 32, {})
    expected = size * 3 / 32 / 1e9
    assert arm.simulate(workload, platform).step_time_ns / 1e9 == pytest.approx(expected, rel=0.01)
    net = topology.parse("R(4)_SW(8)")
    assert net is not None
    floor = Floor(overlap.job("out", workload, {}, measured=False), {})
    floor.show(net, [1e9, 1e13])
    under = floor.model(net)
    assert under is not None and under.time([1e9, 1e13]) <= expected * 1.01
