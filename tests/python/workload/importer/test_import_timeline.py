"""What waits for what: traces whose answer is known by arithmetic."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded import Recording, nccl, step_us
from thorough import usually

import armillary as arm
from armillary.workload.importer import (
    Imported,
    import_traces,
    kineto,
    linking,
    ranks,
    reading,
    steps,
    timeline,
    waits,
)


def imported(recording: Recording, tmp_path: Path, **options: object) -> Imported:
    return import_traces([recording.write(tmp_path / "rank0.json")], **options)  # type: ignore[arg-type]


def lines(recording: Recording, tmp_path: Path, step: int = 1) -> timeline.Timeline:
    run = ranks.match(reading.read(recording.write(tmp_path / "rank0.json")))
    trace = run.ranks[0].trace
    assert trace is not None
    links = linking.launches(trace)
    window = steps.window(trace, links, steps.choose([trace], [links], step)[0])
    return timeline.build(trace, links, waits.find(trace, links), window)


def awaited(line: timeline.Timeline, name: str) -> set[str]:
    """Names of the device operations that `name` depends on."""
    item = next(item for item in line.items if item.name == name)
    return {line.items[dep].name for dep in item.deps if line.items[dep].op >= 0}


def test_a_launch_bound_step_lasts_as_long_as_its_host(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 1000)
    for k in range(10):
        trace.kernel(f"k{k}", 50 + 90 * k, 60 + 90 * k, 70 + 90 * k)
    result = imported(trace, tmp_path)
    assert result.ranks[0].recorded_ps == 1_000_000_000
    assert step_us(result) == 1000
    assert result.ranks[0].host_ps == 1_000_000_000


def test_host_waiting_for_the_device_is_no_host_work(tmp_path: Path) -> None:
    """Host: 120 us, then a wait for a kernel of 800 us until 910, then 90 us."""
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("long", 100, 110, 910)
    trace.call("cudaStreamSynchronize", 120, 920)
    result = imported(trace, tmp_path)
    row = result.ranks[0]
    assert row.waited_ps == 790_000_000  # from the call, 120, to 910
    assert row.host_ps == 120_000_000 + 10_000_000 + 80_000_000
    assert step_us(result) == 1000


@pytest.mark.parametrize("seed", range(3))
def test_host_work_before_a_wait_stays_without_communication(seed: int, tmp_path: Path) -> None:
    """The host launches an all-reduce, works, waits for it, and works again. Where communication
    takes no time, the step is the host's own work."""
    draw = random.Random(seed)
    launched, work, wait, after = (draw.randint(20, 400) for _ in range(4))
    called = launched + 5 + work
    end = called + wait + after
    for rank in range(2):
        trace = Recording(rank, 2)
        trace.step(1, 0, end)
        meta = nccl("allreduce", 1000, [0, 1])
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
        trace.kernel(name, launched, launched + 10, called + wait - 2, 20, **meta)
        trace.call("cudaStreamSynchronize", called, called + wait)
        trace.write(tmp_path / f"rank{rank}.json")
    result = import_traces([tmp_path])
    assert step_us(result) == pytest.approx(end)
    free = arm.Platform("Switch(2)", bandwidth="1000000 TB/s", latency="0 ns")
    found = arm.simulate(result.workload, free).step_time_ns / 1e3
    assert found == pytest.approx(called + 2 + after, abs=0.1)


def test_a_blocking_copy_is_a_wait(tmp_path: Path) -> None:
    """A copy to pageable memory keeps the host from 200 to 705; only 20 us of that are the host's
    own."""
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("long", 100, 110, 690)
    trace.device(
        trace.call("cudaMemcpyAsync", 200, 705), "Memcpy DtoH (Device -> Pageable)", 691, 700
    )
    row = imported(trace, tmp_path).ranks[0]
    assert row.host_ps == (210 + 5 + 295) * 1_000_000


def test_an_event_stands_for_its_stream_and_not_for_the_last_launch(tmp_path: Path) -> None:
    """Recorded on stream 20 while the latest launch went to 28: stream 24 waits for the kernel on
    20."""
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("on 20", 10, 20, 300, stream=20)
    trace.kernel("on 28", 30, 40, 600, stream=28)
    record = trace.call("cudaEventRecord", 50, 52)
    wait = trace.call("cudaStreamWaitEvent", 60, 62)
    trace.sync_record(
        "Stream Wait Event",
        wait,
        stream=24,
        wait_on_stream=20,
        wait_on_cuda_event_record_corr_id=record,
    )
    trace.kernel("on 24", 70, 310, 400, stream=24)
    line = lines(trace, tmp_path)
    assert awaited(line, "on 24") == {"on 20"}


def test_an_unnamed_wait_is_inferred_and_counted(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("first", 10, 20, 300, stream=7)
    trace.call("cudaStreamWaitEvent", 60, 62)
    trace.kernel("second", 70, 301, 400, stream=20)
    line = lines(trace, tmp_path)
    assert awaited(line, "second") == {"first"}
    assert line.inferred == 1


def test_two_host_threads_take_turns(tmp_path: Path) -> None:
    """Thread 1 hands over to thread 2 (backward) and goes on when it is done: one chain, the step
    as recorded."""
    trace = Recording()
    trace.step(1, 0, 600)
    trace.kernel("forward", 90, 100, 120, tid=1)
    trace.kernel("backward", 290, 300, 320, tid=2)
    trace.kernel("optimizer", 490, 500, 520, tid=1)
    line = lines(trace, tmp_path)
    host = [item for item in line.items if item.op == -1]
    assert [item.duration for item in host] == [100_000_000, 200_000_000, 200_000_000, 100_000_000]
    assert all(host[k].end == host[k + 1].start for k in range(3))


def test_kernels_side_by_side_keep_the_busy_time(tmp_path: Path) -> None:
    """100..500 and 300..600 on two streams: one at a time is busy for 500, not for 700; again from
    700 on."""
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("a", 90, 100, 500, stream=7)
    trace.kernel("b", 290, 300, 600, stream=20)
    trace.kernel("c", 690, 700, 800, stream=7)
    trace.kernel("d", 740, 750, 800, stream=20)
    result = imported(trace, tmp_path)
    assert result.ranks[0].overlapped_ps == 250_000_000
    found = {entry.what: entry.count for entry in result.ranks[0].omissions}
    assert found["kernels that overlap with other kernels"] == 2
    assert step_us(result) == 1000


def test_a_lagging_device_bounds_the_step(tmp_path: Path) -> None:
    """Steps of 100 us on the host, 300 us on the device, which falls behind by 200 us a step: the
    step takes 300 us."""
    trace = Recording()
    for step in range(4):
        trace.step(step, 100 * step, 100 * (step + 1))
        trace.kernel(f"k{step}", 100 * step + 5, 10 + 300 * step, 310 + 300 * step)
    result = imported(trace, tmp_path, step=2)
    row = result.ranks[0]
    assert (row.span_ps, row.recorded_ps) == (100_000_000, 300_000_000)
    assert step_us(result) == pytest.approx(300, rel=0.05)


def test_work_of_the_step_before_is_no_idling(tmp_path: Path) -> None:
    """A copy on another stream waits, for a reason nobody recorded, until the device has done the
    step before."""
    trace = Recording()
    for step in range(3):
        trace.step(step, 100 * step, 100 * (step + 1))
        trace.kernel(f"k{step}", 100 * step + 5, 90 + 100 * step, 185 + 100 * step)
        trace.kernel(f"side{step}", 100 * step + 12, 86 + 100 * step, 88 + 100 * step, stream=20)
    row = imported(trace, tmp_path, step=1).ranks[0]
    assert row.late_ps <= 5_000_000
    assert row.deviation == pytest.approx(0, abs=0.05)


def test_a_steady_step_is_chosen(tmp_path: Path) -> None:
    """Of steps of 100 us, one that leaves the lag it found: the device falls behind in 2 and
    catches up in 4."""
    trace = Recording()
    ends = {0: 90, 1: 190, 2: 350, 3: 450, 4: 490}
    for step, end in ends.items():
        trace.step(step, 100 * step, 100 * (step + 1))
        trace.kernel(f"k{step}", 100 * step + 5, max(100 * step + 10, ends.get(step - 1, 0)), end)
    assert imported(trace, tmp_path).ranks[0].step in (1, 3)
    assert any("not a steady step" in note for note in imported(trace, tmp_path, step=4).notes)


def test_the_median_and_the_slowest_step_are_named(tmp_path: Path) -> None:
    """Drawn lengths, in a drawn order."""
    chance = random.Random(7)
    for count in range(1, 9):
        spans = [chance.randrange(100, 5000) for _ in range(count)]
        recording, begin = Recording(), 0
        for number, span in enumerate(spans):
            recording.step(number, begin, begin + span)
            recording.kernel(f"k{number}", begin + 10, begin + 30, begin + 50)
            begin += span + 50
        found = [each for each in imported(recording, tmp_path).notes if "were recorded" in each]
        if count == 1:
            assert found == []
            continue
        median = statistics.median_low(spans) / 1e3
        [note] = found
        assert note.startswith(f"{count} steps were recorded: the median is step ")
        assert f", {median:.3f} ms, the slowest step {spans.index(max(spans))}, " in note
        assert f"{max(spans) / 1e3:.3f} ms; step " in note


def test_graph_launches_hang_on_one_call(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 1000)
    graph = trace.call("cudaGraphLaunch", 10, 30)
    for k in range(5):
        trace.device(graph, f"node {k}", 40 + 100 * k, 130 + 100 * k)
    row = imported(trace, tmp_path).ranks[0]
    assert (row.step_ops, row.launched_ops) == (5, 5)


def test_missing_correlation_ids_are_counted(tmp_path: Path) -> None:
    """One kernel with id 0 (as ROCm wrote for communication) and one whose call was not recorded
    stay, unlaunched."""
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("first", 10, 20, 100)
    trace.device(0, "no id", 101, 200)
    trace.device(4711, "no call", 201, 300)
    trace.kernel("last", 290, 301, 400)
    result = imported(trace, tmp_path)
    row = result.ranks[0]
    assert (row.step_ops, row.launched_ops) == (4, 2)
    assert row.device_share == pytest.approx(
        179 / 377
    )  # 20..100 and 301..400 of those and 101..200, 201..300
    assert "device operations without a known launch" in {entry.what for entry in row.omissions}


def test_a_trace_without_any_call(tmp_path: Path) -> None:
    """Kernels alone, with gaps: order and gaps are kept, the first hangs on the host; nothing
    counts as launched."""
    trace = Recording()
    trace.step(1, 0, 500)
    for k in range(4):
        trace.device(0, f"k{k}", 100 + 100 * k, 170 + 100 * k)
    result = imported(trace, tmp_path)
    assert result.ranks[0].launched_ops == 0
    assert result.ranks[0].late_ps == 3 * 30_000_000
    assert step_us(result) == 500


def test_contradictory_dependencies_are_dropped_and_named(tmp_path: Path) -> None:
    """An event of a kernel that starts after the one said to wait for it: a circle, if it were
    kept."""
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("late", 10, 500, 600, stream=20)
    record = trace.call("cudaEventRecord", 20, 22)
    wait = trace.call("cudaStreamWaitEvent", 30, 32)
    trace.sync_record(
        "Stream Wait Event",
        wait,
        stream=7,
        wait_on_stream=20,
        wait_on_cuda_event_record_corr_id=record,
    )
    trace.kernel("early", 40, 50, 60, stream=7)
    result = imported(trace, tmp_path)
    assert result.ranks[0].dropped == 1
    assert any("early <- late" in note for note in result.notes)


def test_communication_overlaps_and_its_wait_comes_from_the_simulation(tmp_path: Path) -> None:
    """Replayed the all-reduce takes its recorded 400 us; simulated, 2 ranks at 100 GB/s with 4 MB
    take about 42 us."""
    paths = []
    for rank in range(2):
        trace = Recording(rank, 2)
        trace.step(1, 0, 700)
        trace.kernel(
            "ncclDevKernel_AllReduce",
            90,
            100,
            500,
            stream=20,
            **nccl("allreduce", 1_000_000, [0, 1]),
        )
        trace.call("cudaStreamSynchronize", 110, 505)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    result = import_traces(paths)
    assert step_us(result) == 700
    network = step_us(result, replay=False)
    assert network == pytest.approx(100 + 42 + 200, abs=5)


gaps = st.lists(
    st.tuples(st.integers(1, 200), st.integers(1, 400), st.sampled_from([7, 20]), st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(
    max_examples=usually(30, 600),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(gaps)
def test_random_runs_replay_as_recorded(
    tmp_path: Path, work: list[tuple[int, int, int, bool]]
) -> None:
    """A host and a device with two streams that take turns, as a CUDA run would record them; waits
    now and then."""
    trace, host, device = Recording(), 0.0, 0.0
    for k, (gap, length, stream, wait) in enumerate(work):
        launch = host + gap
        start = max(launch + 10, device)
        device = start + length
        if stream != work[k - 1][2]:
            trace.call("cudaStreamWaitEvent", launch - 0.5, launch - 0.25)
        trace.kernel(f"k{k}", launch, start, device, stream)
        host = launch + 6
        if wait:
            end = max(device, host) + 3
            trace.call("cudaDeviceSynchronize", host, end)
            host = end
    trace.call("cudaDeviceSynchronize", host, max(host, device) + 2)
    trace.step(1, 0, max(host, device) + 5)
    result = imported(trace, tmp_path)
    assert not result.ranks[0].dropped
    assert result.ranks[0].deviation == pytest.approx(0, abs=0.01)


def test_times_are_exact(tmp_path: Path) -> None:
    """A double holds microseconds since 1970 to a quarter; the trace's digits are kept instead."""
    path = tmp_path / "t.json"
    event = (
        '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,'
        '"ts":1712195495502094.123,"dur":0.001,"args":{}}'
    )
    path.write_text(f'{{"traceEvents":[{event}]}}', encoding="utf-8")
    trace = kineto.trace(reading.read(path)[0])
    assert trace.ops[0].start == 1712195495502094_123_000
    assert trace.ops[0].end - trace.ops[0].start == 1_000
