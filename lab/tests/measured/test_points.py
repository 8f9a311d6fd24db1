"""Measured deployments in the examples are the rows of their source."""

from __future__ import annotations

import pytest
from conftest import ROOT

from armillary.serve.measured_points import read_points
from armillary_lab.measured.points import FILES, output, text
from armillary_lab.measured.serving import runs

FOLDER = ROOT / "examples/measured"


@pytest.mark.parametrize("name", FILES)
def test_files_are_as_written(name: str) -> None:
    path = FOLDER / name
    assert path.read_text(encoding="utf-8") == text(name)
    wanted = [run for run in runs() if run.tpot and FILES[name](run)]
    found = read_points(path)
    assert len(found) == len(wanted) >= 10
    speeds = sorted(1 / (run.tpot or 1) for run in wanted)
    assert [each.user for each in found] == pytest.approx(speeds, rel=1e-3)


def test_output_by_hand() -> None:
    """64 requests of 921.6 tokens on 2 GPUs."""
    run = next(
        each
        for each in runs()
        if FILES["llama-3.3-70b-h100.csv"](each)
        and each.pools[0].tp == 2
        and each.concurrency == 64
    )
    assert run.ttft is not None and run.tpot is not None
    seconds = run.ttft + run.tpot * 920.6
    assert output(run) == pytest.approx(64 * 921.6 / seconds / 2)
