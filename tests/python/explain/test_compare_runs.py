"""Comparisons: a run beside itself is empty, changes sum to the difference, causes are those that
were made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import one, switch, training
from thorough import usually

import armillary as arm
from armillary.model.files import load_model

BASE = {"npu.peak": "100 TFLOPS", "npu.memory.bandwidth": "2 TB/s", "scheduler.chunks": 4}


def platform(
    topology: str = "R(4)", bandwidth: str = "25 GB/s", latency: str = "1 us", **more: object
) -> arm.Platform:
    chosen = {**BASE, **{key.replace("__", "."): value for key, value in more.items()}}
    return arm.Platform(topology, bandwidth=bandwidth, latency=latency, settings=chosen)


def run(
    target: arm.Platform, backend: str = "analytical", layers: int = 3, overlap: bool = True
) -> arm.Result:
    return arm.simulate(
        training(target, layers, overlap=overlap), target, backend=backend, detail=True
    )


def pair(a: arm.Result, b: arm.Result) -> dict[str, object]:
    [found] = a.compare(b).data["pairs"]
    return dict(found)


def test_a_run_beside_itself_is_empty() -> None:
    found = pair(run(platform()), run(platform()))
    assert found["delta_ns"] == 0
    for empty in (
        "reasons",
        "causes",
        "operations",
        "layers",
        "totals",
        "only_a",
        "only_b",
        "config",
    ):
        assert not found[empty], empty


@settings(max_examples=usually(12, 250))
@given(
    bandwidths=st.tuples(st.integers(5, 300), st.integers(5, 300)),
    latencies=st.tuples(st.integers(0, 5000), st.integers(0, 5000)),
    chunks=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    backends=st.tuples(*[st.sampled_from(["analytical", "link"])] * 2),
    layers=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_changes_sum_to_the_difference(
    bandwidths: tuple[int, int],
    latencies: tuple[int, int],
    chunks: tuple[int, int],
    backends: tuple[str, str],
    layers: tuple[int, int],
) -> None:
    results = [
        run(
            platform(
                "R(2)_SW(4)",
                f"{bandwidths[at]} GB/s",
                f"{latencies[at]} ns",
                scheduler__chunks=chunks[at],
            ),
            backends[at],
            layers=layers[at],
        )
        for at in (0, 1)
    ]
    [found] = results[0].compare(results[1]).data["pairs"]
    assert found["delta_ns"] == results[1].step_time_ns - results[0].step_time_ns
    moved = sum(each["delta_ns"] for each in found["operations"])
    assert moved == pytest.approx(found["delta_ns"], abs=1e-6 * results[0].step_time_ns)
    for each in found["operations"]:
        assert sum(each["causes"].values()) == pytest.approx(
            each["delta_ns"], abs=1e-6 * results[0].step_time_ns
        )
    assert sum(found["causes"].values()) == pytest.approx(moved, abs=1e-6 * results[0].step_time_ns)


@pytest.mark.parametrize(
    ("changed", "backend", "cause"),
    [
        ({"bandwidth": "50 GB/s"}, "analytical", "bandwidth"),
        ({"latency": "100 us"}, "analytical", "latency"),
        ({"scheduler__endpoint_delay": "50 us"}, "analytical", "latency"),
        ({"collectives__all_reduce": "direct"}, "analytical", "algorithm"),
        ({"scheduler__chunks": 1}, "analytical", "algorithm"),
        ({"npu__memory__bandwidth": "2 GB/s"}, "analytical", "reduction"),
        ({"npu__peak": "1 TFLOPS"}, "analytical", "compute"),
    ],
    ids=str,
)
def test_the_cause_is_what_was_changed(
    changed: dict[str, object], backend: str, cause: str
) -> None:
    found = pair(run(platform(), overlap=False), run(platform(**changed), backend, overlap=False))  # type: ignore[arg-type]
    causes = found["causes"]
    assert isinstance(causes, dict)
    assert next(iter(causes)) == cause, causes


def model(settings: dict[str, object] | None = None, **parallel: object) -> arm.Result:
    """Four layers of a decoder on a DGX H100, whose collectives are NCCL's."""
    target = arm.Platform.load("dgx-h100", settings or {})
    known = load_model("llama-3-8b")
    small = replace(known, fields={**known.fields, "layers": 4})
    return arm.simulate(
        arm.workload.build(small, seq=4096, sp=True, **parallel), target, detail=True
    )


def test_a_library_is_a_cause_of_its_own() -> None:
    """No collective here reduces more slowly, and an all-gather reduces nothing."""
    found = pair(model(tp=8), model({"library.node.efficiency": 0.5}, tp=8))
    causes = found["causes"]
    assert isinstance(causes, dict)
    assert next(iter(causes)) == "library"
    assert "reduction" not in causes
    operations = found["operations"]
    assert isinstance(operations, list)
    kinds = {each["kind"] for each in operations if "library" in each["causes"]}
    assert "all_gather" in kinds


def test_twice_the_work_is_work() -> None:
    """Half as many ranks share each matrix and each replica has its own sample."""
    found = pair(model(tp=8), model(tp=4, dp=2))
    causes = found["causes"]
    assert isinstance(causes, dict)
    assert next(iter(causes)) == "work"
    assert "compute" not in causes
    operations = found["operations"]
    assert isinstance(operations, list)
    own = [
        each for each in operations if each["kind"] == "compute" and each["a_ns"] and each["b_ns"]
    ]
    assert own
    for each in own:
        assert abs(each["causes"]["work"]) > 0.9 * abs(each["delta_ns"]), each
    assert found["unit"] == "sample"
    assert "faster per sample" in str(found["headline"]), "although the step takes longer"


def test_more_operations_are_work() -> None:
    """Twice as many micro-batches, one after another: each operation as long as before, and twice
    as many."""
    found = pair(model(tp=8, global_batch=1), model(tp=8, global_batch=2))
    causes = found["causes"]
    assert isinstance(causes, dict)
    assert next(iter(causes)) == "work"
    assert abs(causes.get("schedule", 0.0)) < 0.05 * causes["work"]


def test_work_and_speed_are_told_apart() -> None:
    """Twice the operations on an NPU of half the speed: half of it is either."""

    def computing(operations: int, peak: str) -> arm.Result:
        program = arm.workload.Program()
        program.compute("layer0.matmul", [], operations=operations, bytes=1)
        target = platform("R(4)", npu__peak=peak)
        return arm.simulate(
            arm.workload.Workload.listed("one", [program], [0] * 4, {}), target, detail=True
        )

    found = pair(computing(10**12, "100 TFLOPS"), computing(2 * 10**12, "50 TFLOPS"))
    assert found["causes"] == {"compute": pytest.approx(2e7), "work": pytest.approx(1e7)}


def test_computing_beside_communication_is_overlap() -> None:
    def beside(size: int) -> arm.Result:
        program = arm.workload.Program()
        program.compute("layer0.matmul", [], operations=10**12, bytes=1)
        program.collective("grad", [], "all_reduce", size)
        target = platform("R(4)", npu__compute__beside="0.5")
        return arm.simulate(
            arm.workload.Workload.listed("one", [program], [0] * 4, {}), target, detail=True
        )

    found = pair(beside(10**6), beside(10**8))
    causes = found["causes"]
    assert isinstance(causes, dict)
    assert next(iter(causes)) == "overlap", causes


def test_layers_come_in_the_order_of_the_model_and_alike_ones_together() -> None:
    results = [model(tp=8), model({"library.node.efficiency": 0.5}, tp=8)]
    comparison = arm.compare(*results)
    names = [each["layer"] for each in comparison.data["pairs"][0]["layers"]]
    assert names == ["embedding", *(f"layer{at}" for at in range(4)), "head"]
    assert "layer 0 to 3" in str(comparison)


def test_an_operation_that_both_runs_have_is_in_neither_list() -> None:
    """Not even where one of them has it beside the critical path, or far down its list."""
    found = pair(model(tp=8), model(tp=4, dp=2))
    only = {each["name"] for key in ("only_a", "only_b") for each in found[key]}  # type: ignore[attr-defined]
    assert only
    assert all("dp" in name or "gradients" in name for name in only), only


def test_contention_is_waiting_for_others() -> None:
    """The same collectives behind a large one that began before."""
    alone = run(platform("SW(4)", scheduler__active_chunks=1), layers=1)
    target = platform("SW(4)", scheduler__active_chunks=1)
    program = arm.workload.Program()
    program.collective("first", [], "all_to_all", 64_000_000)
    done = program.compute("layer0.matmul", [], operations=10**10, bytes=10**7)
    program.collective("layer0.sum", [done], "all_reduce", 4_000_000)
    program.collective("layer0.grad", [done], "reduce_scatter", 32_000_000)
    crowded = arm.simulate(
        arm.Workload.listed("small", [program], [0] * 4, {}), target, detail=True
    )
    [found] = alone.compare(crowded).data["pairs"]
    causes = {each["name"]: each["causes"] for each in found["operations"]}
    assert {each["name"] for each in found["only_b"]} == {"first"}
    assert "contention" in {cause for each in causes.values() for cause in each}
    [waits] = [each for each in found["reasons"] if each["cause"] == "contention"]
    assert waits["behind"] == ["layer*.sum"], "the sum comes before it in the queue"
    [behind] = crowded.explain("layer0.sum", what_if=False).data["operations"][0]["behind"]
    assert behind["name"] == "first", "and waits itself"


def test_the_network_model_is_a_cause() -> None:
    stores = {"network.link.switching": "store_and_forward"}
    target = arm.Platform("SW(8)", bandwidth="50 GB/s", latency="10 ns", settings=stores)
    found = pair(one("all_reduce", 10**8, target), one("all_reduce", 10**8, target, "link"))
    causes = found["causes"]
    assert isinstance(causes, dict)
    assert list(causes) == ["network model"]
    assert found["config"] == [{"key": "backend", "a": "analytical", "b": "link"}]


def test_ring_and_direct() -> None:
    """ASTRA-sim's issue 296: the headline and the reason."""
    ring, direct = (one("all_reduce", 10**8, switch(name), "link") for name in ("ring", "direct"))
    comparison = arm.compare(ring, direct, names=["ring", "direct"])
    [found] = comparison.data["pairs"]
    assert found["reasons"][0]["cause"] == "algorithm"
    text = " ".join(str(comparison).split())
    assert "direct takes 3.003 ms less than ring: 4.001 ms instead of 7.003 ms (-42.9 %)" in text
    assert "ring on Switch(8), 8 chunks: 112 messages of 1.562 MB follow one another" in text
    assert "direct on Switch(8), 8 chunks: 16 messages of 1.562 MB follow one another" in text
    assert "platform.collectives.all_reduce.algorithms" in text


def test_several_runs_and_too_few() -> None:
    results = [run(platform(bandwidth=f"{rate} GB/s")) for rate in (25, 50, 100)]
    comparison = arm.compare(*results)
    assert [found["name"] for found in comparison.data["pairs"]] == ["B", "C"]
    with pytest.raises(arm.InputError, match="nothing to compare"):
        arm.compare(results[0])
