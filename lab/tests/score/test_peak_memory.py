"""Predicted peak memory against measured peaks; bounds are claims about ours, others
measured."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from armillary_lab.measured.training import Training, failures, trainings
from armillary_lab.predict.peak_memory import (
    GIB,
    MEGATRON,
    NANOTRON,
    MemoryPrediction,
    failed,
    measured,
    predict,
)
from armillary_lab.score import peak_memory

# Predictions take seconds, and a process makes them once.
pytestmark = pytest.mark.xdist_group("peak_memory")


def runs(group: str) -> list[MemoryPrediction]:
    return [each for each in measured() if each.run.group == group]


def megatron() -> list[Training]:
    return [run for run in trainings() if run.group == MEGATRON and run.memory_gib is not None]


def test_every_run_is_predicted() -> None:
    assert (len(runs(NANOTRON)), len(runs(MEGATRON)), len(failed())) == (1221, 30, 1534)


@pytest.mark.parametrize("run", megatron(), ids=lambda each: each.name)
def test_megatron_is_within_three_percent(run: Training) -> None:
    (found,) = [each for each in runs(MEGATRON) if each.run == run]
    assert found.ratio == pytest.approx(1, abs=0.03)


def test_nanotron_without_tensor_parallelism() -> None:
    found = [each.ratio for each in runs(NANOTRON) if each.run.tp == 1]
    print(f"median {statistics.median(found):.3f}, from {min(found):.3f} to {max(found):.3f}")
    assert statistics.median(found) == pytest.approx(1, abs=0.02)
    assert sum(abs(ratio - 1) < 0.1 for ratio in found) > 0.9 * len(found)
    zero = [each.ratio for each in runs(NANOTRON) if each.run.tp == 1 and not each.run.zero]
    assert sum(abs(ratio - 1) < 0.05 for ratio in zero) > 0.9 * len(zero)


def test_nanotron_with_tensor_parallelism_lies_between_its_modes() -> None:
    found = [each for each in runs(NANOTRON) if each.run.tp > 1]
    assert sum(each.between for each in found) > 0.97 * len(found)


def test_who_fits() -> None:
    rows = {row.setup: row for row in peak_memory.rows(())}
    assert rows["ran (1221): fits, we say"].verdict == "holds"
    assert (
        rows["ran, llm-foundry, vTrain, Megatron-LM, InternEvo (1300): fits, we say"].verdict
        == "holds"
    )
    said = [row.ours for name, row in rows.items() if name.startswith("failed (1534)")]
    assert sum(said) == pytest.approx(100)
    assert rows["failed (1534): doesn't fit, we say"].ours > 60


def test_a_configuration_that_cannot_start_is_not_predicted() -> None:
    deep = next(run for run in failures() if run.pp == 128)
    assert predict(deep) is None


def test_failures_hold_more_than_runs() -> None:
    """The classifier is not an accident of the limit: peaks of failures lie far above those of
    runs."""
    lost = [each.most for each in failed() if each is not None]
    ran = [each.most for each in runs(NANOTRON)]
    print(
        f"medians: ran {statistics.median(ran) / GIB:.1f} GiB, failed "
        f"{statistics.median(lost) / GIB:.1f} GiB"
    )
    assert statistics.median(lost) > 3 * statistics.median(ran)


def test_figures_show_every_run() -> None:
    scatter, said = peak_memory.charts(())
    shown: list[list[Any]] = [list(chart.rows) for chart in (scatter, said)]
    assert len(shown[0]) == len(measured())
    assert sum(row["count"] for row in shown[1] if row["what"] == "ran") == 1221
