"""Recorded times that cannot all be true: what is cut, what is counted, what stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import Recording, step_us

from armillary.workload.importer import Imported, import_traces


def imported(recording: Recording, tmp_path: Path) -> Imported:
    return import_traces([recording.write(tmp_path / "rank0.json")])


def omitted(result: Imported, what: str) -> tuple[int, float]:
    """Count and microseconds of an entry of the coverage."""
    found = [entry for entry in result.ranks[0].omissions if what in entry.what]
    return (found[0].count, found[0].time_ps / 1e6) if found else (0, 0.0)


def test_a_kernel_that_runs_into_the_next_is_cut_there(tmp_path: Path) -> None:
    """TraceLens issue 669: the step is 2 ms, and Perfetto ends the second kernel at 400 us."""
    trace = Recording()
    trace.step(1, 0, 2000)
    trace.kernel("a", 10, 100, 200)
    trace.kernel("b", 15, 250, 1_000_250)
    trace.kernel("c", 20, 400, 500)
    result = imported(trace, tmp_path)
    assert result.ranks[0].recorded_ps == 2_000_000_000
    assert step_us(result) == 2000
    assert result.ranks[0].step_ps == (100 + 150 + 100) * 1_000_000
    assert omitted(result, "impossible end") == (1, 999_850.0)
    assert any("1 device operation of 3 lasted beyond the next" in note for note in result.notes)


@pytest.mark.parametrize("later", ["kernel", "Memcpy HtoD"])
def test_what_ends_late_is_cut_for_copies_too(tmp_path: Path, later: str) -> None:
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("Memcpy DtoD", 10, 100, 900_000)
    trace.kernel(later, 20, 300, 400)
    assert imported(trace, tmp_path).ranks[0].step_ps == 300_000_000


def test_streams_and_kernels_of_one_graph_run_side_by_side(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("a", 10, 100, 600, stream=7)
    trace.kernel("b", 20, 200, 300, stream=8)
    graph = trace.call("cudaGraphLaunch", 30, 40)
    trace.device(graph, "c", 650, 900, stream=9)
    trace.device(graph, "d", 700, 750, stream=9)
    result = imported(trace, tmp_path)
    assert omitted(result, "impossible end") == (0, 0.0)
    assert result.ranks[0].step_ps == (500 + 100 + 250 + 50) * 1_000_000
    later = trace.call("cudaGraphLaunch", 50, 60)
    trace.device(later, "e", 800, 850, stream=9)
    assert omitted(imported(trace, tmp_path), "impossible end") == (1, 100.0)


def test_a_wait_for_the_device_ends_what_it_waited_for(tmp_path: Path) -> None:
    """The last kernel of its stream lasts 1 s, but the host had waited for it after 1,500 us."""
    trace = Recording()
    trace.step(1, 0, 2000)
    trace.kernel("a", 10, 100, 1_000_100)
    trace.call("hipDeviceSynchronize", 50, 1500)
    result = imported(trace, tmp_path)
    assert result.ranks[0].recorded_ps == 2_000_000_000
    assert result.ranks[0].step_ps == 1_400_000_000
    assert any("a call that had waited for them" in note for note in result.notes)


def test_nothing_lasts_far_beyond_the_recording(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 2000)
    trace.kernel("a", 10, 100, 1_000_100)
    assert imported(trace, tmp_path).ranks[0].recorded_ps == 2_000_000_000
    lag = Recording()
    lag.step(1, 0, 2000)
    lag.kernel("a", 10, 100, 90_000)
    assert imported(lag, tmp_path).ranks[0].recorded_ps == 90_000_000_000


def test_kernels_before_their_launch_are_counted(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 2000)
    trace.kernel("a", 500, 100, 200)
    trace.kernel("b", 600, 700, 800)
    result = imported(trace, tmp_path)
    assert omitted(result, "before their launch") == (1, 0.0)
    assert any("1 of 2 device operations begin before the call" in note for note in result.notes)


def test_host_operators_that_cross_are_counted(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 2000)
    trace.op("aten::a", 100, 500)
    trace.op("aten::b", 300, 700)
    trace.op("aten::c", 800, 900)
    trace.kernel("k", 850, 860, 870)
    result = imported(trace, tmp_path)
    assert omitted(result, "cross another") == (1, 0.0)
    assert any("1 of 4 host operators cross" in note for note in result.notes)


def test_durations_below_zero_are_counted(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 2000)
    trace.kernel("a", 100, 200, 199)
    trace.kernel("b", 110, 300, 400)
    assert omitted(imported(trace, tmp_path), "without a time") == (1, 0.0)
