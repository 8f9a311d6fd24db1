"""Predicted peak memory against measured peaks; bounds are claims about ours, others measured.
The study of all runs is in `lab/numbers/test_slow_studies.py`."""

from __future__ import annotations

import statistics
from functools import cache

import pytest

from armillary_lab.measured.training import Training, failures, trainings
from armillary_lab.predict.peak_memory import (
    GIB,
    MEGATRON,
    NANOTRON,
    MemoryPrediction,
    predict,
)

EACH = 6
"""One run of nanotron of this many is predicted here; all of them for the page of accuracy."""


@cache
def drawn(group: str, each: int) -> tuple[MemoryPrediction, ...]:
    """Predictions of the runs of a group whose memory was measured, evenly drawn from its list."""
    chosen = [run for run in trainings() if run.group == group and run.memory_gib is not None]
    found = [predict(run) for run in chosen[::each]]
    assert None not in found, "every run can be laid out"
    return tuple(one for one in found if one is not None)


def runs(group: str) -> tuple[MemoryPrediction, ...]:
    return drawn(group, EACH if group == NANOTRON else 1)


def megatron() -> list[Training]:
    return [run for run in trainings() if run.group == MEGATRON and run.memory_gib is not None]


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


def test_a_configuration_that_cannot_start_is_not_predicted() -> None:
    deep = next(run for run in failures() if run.pp == 128)
    assert predict(deep) is None


def test_failures_hold_more_than_runs() -> None:
    """The classifier is not an accident of the limit: peaks of failures lie far above those of
    runs."""
    lost = [each.most for each in map(predict, failures()[::EACH]) if each is not None]
    ran = [each.most for each in runs(NANOTRON)]
    print(
        f"medians: ran {statistics.median(ran) / GIB:.1f} GiB, failed "
        f"{statistics.median(lost) / GIB:.1f} GiB"
    )
    assert statistics.median(lost) > 3 * statistics.median(ran)
