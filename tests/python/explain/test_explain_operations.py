"""What is told of a collective: terms that sum to its time, bounds that hold, formulas with the
right numbers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import one, switch, training
from thorough import usually

import armillary as arm
from armillary.estimate import bounds
from armillary.explain import explain
from armillary.schema import Collective

KINDS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"]
BLOCKS = st.sampled_from(["R(3)", "R(4)", "FC(3)", "SW(2)", "SW(4)"])


@settings(max_examples=usually(20, 400))
@given(
    kind=st.sampled_from(KINDS),
    blocks=st.lists(BLOCKS, min_size=1, max_size=3),
    size=st.integers(1, 10**8),
    bandwidth=st.integers(1, 500),
    latency=st.integers(0, 5000),
    chunks=st.integers(1, 6),
)
def test_terms_sum_and_nothing_beats_the_bound(
    kind: str, blocks: list[str], size: int, bandwidth: int, latency: int, chunks: int
) -> None:
    platform = arm.Platform(
        "_".join(blocks),
        bandwidth=f"{bandwidth} GB/s",
        per="link",
        latency=f"{latency} ns",
        settings={"scheduler.chunks": chunks},
    )
    result = one(kind, size, platform, "link")
    [told] = result.explain(kind, what_if=False).data["operations"]
    assert sum(line["ns"] for line in told["lines"]) == pytest.approx(told["mean_ns"], rel=1e-9)
    assert told["max_ns"] == pytest.approx(result.step_time_ns)
    assert told["bound"] is not None
    assert told["max_ns"] >= told["bound"]["ns"] * (1 - 1e-9)


@pytest.mark.parametrize(
    ("kind", "machines", "inner", "expected"),
    [
        # Patarasuk and Yuan: 2 (n-1) / n of the buffer leaves each NPU in an all-reduce.
        ("all_reduce", 4, 1, 1.5),
        ("all_reduce", 4, 8, 1.5 / 8),
        ("reduce_scatter", 4, 1, 0.75),
        ("all_gather", 4, 1, 3.0),
        ("all_to_all", 4, 8, 0.75),
        ("broadcast", 4, 1, 1.0),
        ("barrier", 4, 1, 0.0),
    ],
)
def test_bytes_that_must_leave(kind: str, machines: int, inner: int, expected: float) -> None:
    assert bounds.bytes_out(kind, 1, machines, inner) == expected


def test_bandwidth_optimal_algorithms_reach_the_bound() -> None:
    """Direct on a full connection sends exactly the bytes of the bound, over all links at once."""
    platform = arm.Platform(
        "FC(5)",
        bandwidth="10 GB/s",
        per="link",
        latency="0 ns",
        settings={"scheduler.endpoint_delay": "0 ns"},
    )
    [told] = (
        one("all_reduce", 5_000_000, platform, "link")
        .explain("all_reduce", what_if=False)
        .data["operations"]
    )
    assert told["mean_ns"] == pytest.approx(told["bound"]["ns"])


def test_ring_is_twice_as_slow_as_direct_on_a_switch() -> None:
    """ASTRA-sim's issue 296: on a switch every message of a ring crosses two links before the next
    one can go."""
    size, bandwidth = 100_000_000, 50.0
    found = {name: one("all_reduce", size, switch(name), "link") for name in ("ring", "direct")}
    message = size / 8 / 8 / bandwidth
    [ring] = found["ring"].explain("grad7", what_if=False).data["operations"]
    [direct] = found["direct"].explain("grad7", what_if=False).data["operations"]
    [ring_terms], [direct_terms] = ring["terms"], direct["terms"]
    assert (ring_terms["messages"], direct_terms["messages"]) == (8 * 14, 8 * 2)
    assert ring_terms["transfer_ns"] == pytest.approx(8 * 14 * 2 * message)
    assert direct_terms["transfer_ns"] == pytest.approx(8 * 2 * 2 * message)
    assert (ring_terms["port_ns"], direct_terms["port_ns"]) == (
        0,
        pytest.approx(8 * 2 * 6 * message),
    )
    text = str(found["ring"].explain("grad7", what_if=False))
    assert "112 messages, 175.0 MB in all, at 50 GB/s x 2 links" in " ".join(text.split())


def test_the_bottleneck_of_two_dimensions() -> None:
    platform = arm.Platform(
        "R(4)_SW(8)", bandwidth=["200 GB/s", "25 GB/s"], latency=["500 ns", "1 us"]
    )
    explanation = one("all_reduce", 100_000_000, platform).explain("all_reduce", what_if=False)
    [told] = explanation.data["operations"]
    assert told["bottleneck"] == "Switch(8)"
    assert "Switch(8) is the bottleneck" in str(explanation)


def test_the_step() -> None:
    platform = arm.Platform(
        "R(4)", bandwidth="25 GB/s", latency="1 us", settings={"npu.peak": "100 TFLOPS"}
    )
    result = arm.simulate(training(platform), platform, detail=True)
    explanation = result.explain(seconds=5)
    step = explanation.data["step"]
    assert sum(part["ns"] for part in step["critical_path"]["by_operation"]) == pytest.approx(
        result.step_time_ns
    )
    assert all(bound["ns"] <= result.step_time_ns * (1 + 1e-9) for bound in step["bounds"])
    for parts in step["parts"]:
        assert sum(value for key, value in parts.items() if key != "ranks") == pytest.approx(
            result.step_time_ns
        )
    assert explanation.data["what_if"], "it was run again"
    assert json.loads(explanation.to_json()) == json.loads(json.dumps(explanation.data))
    assert explanation._repr_html_().count("<section ") == 4


def _collectives(platform: arm.Platform, kinds: list[str], size: int, after: bool) -> arm.Workload:
    """One collective of each kind, at once or one after another."""
    program = arm.workload.Program()
    last: list[int] = []
    for kind in kinds:
        done = program.collective(kind, last, kind, size)
        last = [done] if after else []
    return arm.Workload.listed("some", [program], [0] * platform.npus, {})


@settings(max_examples=usually(15, 300))
@given(
    kinds=st.lists(st.sampled_from([*KINDS, "gather", "scatter"]), min_size=1, max_size=3),
    blocks=st.lists(BLOCKS, min_size=1, max_size=3),
    size=st.integers(1000, 10**8),
    bandwidths=st.lists(st.integers(5, 500), min_size=3, max_size=3),
    after=st.booleans(),
    order=st.sampled_from(["baseline", "themis"]),
)
def test_no_order_of_dimensions_beats_the_bounds_of_a_step(
    kinds: list[str], blocks: list[str], size: int, bandwidths: list[int], after: bool, order: str
) -> None:
    platform = arm.Platform(
        "_".join(blocks),
        bandwidth=[f"{rate} GB/s" for rate in bandwidths[: len(blocks)]],
        per="link",
        latency="100 ns",
        settings={"scheduler.chunks": 4, "scheduler.dimension_order": order},
    )
    workload = _collectives(platform, kinds, size, after)
    result = arm.simulate(workload, platform, backend="link", detail=True)
    found = result.explain(what_if=False).data["step"]["bounds"]
    assert found
    assert max(bound["ns"] for bound in found) <= result.step_time_ns * (1 + 1e-9)


def test_a_load_is_no_bound() -> None:
    """Themis moves bytes away from the dimension that the other order keeps busiest, and is faster
    than its load."""
    taken = {}
    for order, policy in (("baseline", "fifo"), ("themis", "smallest_first")):
        settings = {"scheduler.dimension_order": order, "scheduler.policy": policy}
        result = one("all_reduce", 2**30, arm.Platform.load("paper-conv-4d", settings))
        taken[order] = (result.step_time_ns, result.explain(what_if=False))
    step, explanation = taken["baseline"]
    data = explanation.data["step"]
    assert taken["themis"][0] < data["loads"][0]["ns"] < step
    assert data["bounds"][0]["ns"] < taken["themis"][0]
    text = " ".join(str(explanation).split())
    assert "No schedule" not in text
    assert (
        "This work takes at least 3.062 ms on this platform, whatever its schedule and algorithms"
        in text
    )
    assert "That bounds this order of dimensions and these algorithms only" in text


def test_what_slows_computing_down_is_no_bound() -> None:
    """Kernels at half their speed beside communication: without it the same work takes half as
    long."""
    chosen = {"npu.peak": "100 TFLOPS", "npu.compute.comm_overlap_slowdown": 0.5}
    platform = arm.Platform("R(4)", bandwidth="1 GB/s", latency="1 us", settings=chosen)
    program = arm.workload.Program()
    program.compute("work", [], operations=10**12, bytes=10**6)
    program.collective("grad", [], "all_reduce", 10**9)
    workload = arm.Workload.listed("beside", [program], [0] * 4, {})
    result = arm.simulate(workload, platform, detail=True)
    bounds = {
        each["what"]: each["ns"] for each in result.explain(what_if=False).data["step"]["bounds"]
    }
    assert result.report["classes"][0]["compute_ns"] == pytest.approx(2e7)
    assert bounds["computing of the busiest rank"] == pytest.approx(1e7)


def test_what_is_meant() -> None:
    platform = arm.Platform(
        "R(4)", bandwidth="25 GB/s", latency="1 us", settings={"npu.peak": "100 TFLOPS"}
    )
    result = arm.simulate(training(platform), platform, detail=True)

    def meant(node: str) -> list[str]:
        rows: list[Collective] = result.explain(node, what_if=False).data["operations"]
        return [row["name"] for row in rows]

    assert (
        meant("layer*.sum") == meant("layer1.sum") == meant("1") == meant("2:1") == ["layer*.sum"]
    )
    assert meant("reduce_scatter") == meant("2") == meant("*grad") == ["layer*.grad"]
    assert sorted(meant("layer*")) == ["layer*.grad", "layer*.sum"]
    assert meant("layer0.matmul") == meant("layer2.matmul") == ["layer*.matmul"]
    assert meant("*mul") == meant("layer?.matmul") == meant("compute") == meant("layer0.matmul")
    for wrong, said in (("nothing", "layer*.sum"), ("9:1", "0 to 3"), ("77", "layer")):
        with pytest.raises(arm.InputError, match=r"not an operation|no rank") as error:
            result.explain(wrong, what_if=False)
        assert said in error.value.problems[0].help


def test_an_unknown_node_is_answered_with_the_names_nearest_to_it() -> None:
    platform = arm.Platform(
        "R(4)", bandwidth="25 GB/s", latency="1 us", settings={"npu.peak": "100 TFLOPS"}
    )
    result = arm.simulate(training(platform), platform, detail=True)
    for wrong, nearest in (
        ("matmull", "layer*.matmul"),
        ("grad.sum", "layer*.sum"),
        ("layer1", "layer*.matmul"),
    ):
        with pytest.raises(arm.InputError, match="not an operation") as error:
            result.explain(wrong, what_if=False)
        near = error.value.problems[0].help.split(", ")
        assert nearest in near
        assert len(near) == 3, "more than one is suggested, each once"


def test_a_report_that_does_not_say_what_its_platform_chose_is_refused() -> None:
    platform = arm.Platform(
        "R(4)", bandwidth="25 GB/s", latency="1 us", settings={"npu.peak": "100 TFLOPS"}
    )
    report = arm.simulate(training(platform), platform, detail=True).report
    del report["config"]["platform"]["scheduler"]
    with pytest.raises(arm.InputError, match="does not say which scheduler"):
        explain(report)


def test_a_run_without_detail_is_refused() -> None:
    platform = arm.Platform("R(4)", bandwidth="25 GB/s", latency="1 us")
    with pytest.raises(arm.InputError, match="no detail"):
        explain(arm.simulate(training(platform), platform).report)
