"""A study that is interrupted goes on from its finished runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import armillary as arm
from armillary import _core, api
from armillary.kept_runs import KeptRuns, keeping
from armillary.workload import Program, Workload


def platform(latency: str = "1 us") -> arm.Platform:
    return arm.Platform("Ring(4)", bandwidth="1 GB/s", latency=latency)


def workload(size: int) -> Workload:
    program = Program()
    program.collective("sum", [], "all_reduce", size)
    return Workload.listed("sum", [program], [0] * 4, {})


def times() -> list[float]:
    found = [api.simulate(workload(size), platform()).step_time_ns for size in (2**20, 2**21)]
    return [*found, api.collective_us("all_gather", 2**20, platform())]


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("it runs again")


def test_finished_runs_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = times()
    kept = KeptRuns(tmp_path / "study.runs", resume=False)
    with pytest.raises(KeyboardInterrupt), keeping(kept):
        assert times() == wanted
        raise KeyboardInterrupt
    assert len(kept.known) == 3
    monkeypatch.setattr(_core, "simulate", refuse)
    monkeypatch.setattr(_core, "collective", refuse)
    again = KeptRuns(tmp_path / "study.runs", resume=True)
    with keeping(again):
        assert times() == wanted
    assert not (tmp_path / "study.runs").exists()


def test_other_runs_are_run(tmp_path: Path) -> None:
    kept = KeptRuns(tmp_path / "study.runs", resume=False)
    with keeping(kept):
        one = api.simulate(workload(2**20), platform()).step_time_ns
        assert api.simulate(workload(2**20), platform("2 us")).step_time_ns > one
        assert api.simulate(workload(2**22), platform()).step_time_ns > one


def test_a_cut_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "study.runs"
    kept = KeptRuns(path, resume=False)
    with pytest.raises(KeyboardInterrupt), keeping(kept):
        times()
        raise KeyboardInterrupt
    path.write_bytes(path.read_bytes()[:-100])
    again = KeptRuns(path, resume=True)
    again.close()
    assert len(again.known) == 2


def test_without_resume_all_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "study.runs"
    kept = KeptRuns(path, resume=False)
    with pytest.raises(KeyboardInterrupt), keeping(kept):
        times()
        raise KeyboardInterrupt
    again = KeptRuns(path, resume=False)
    again.close()
    assert not again.known
