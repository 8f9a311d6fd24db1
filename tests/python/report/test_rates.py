from __future__ import annotations

from typing import cast

import pytest

from armillary.report import rates
from armillary.schema import Class
from armillary.workload import Summary


def summary(flops: int = 312 * 10**15, tokens: int = 2048) -> Summary:
    return Summary("m", "transformer", 1000, 1, 1, 4, flops, flops, 0.0, (), (), tokens)


def test_utilisation_is_operations_over_what_the_peak_allows() -> None:
    """312 PFLOP in 2 s on 1000 NPUs of 312 TFLOP/s: half of the peak (arXiv:2204.02311, appendix
    B)."""
    found = rates.of(summary(), 2e9, 312e12)
    assert found is not None
    assert found.utilisation == pytest.approx(0.5)
    assert found.flops == pytest.approx(156e12)
    assert (found.samples, found.tokens) == (2, 1024)
    assert not found.is_optimistic


def ran(count: int, at_peak_ns: float | None) -> Class:
    """A class of ranks whose operations take `at_peak_ns` at their peaks."""
    return cast(Class, {"count": count, "at_peak_ns": at_peak_ns})


def test_hardware_utilisation_is_the_time_of_what_runs_at_its_peak() -> None:
    """A quarter of the ranks could do their part in 1.6 s, the others in 0.8 s: 1 s of 2."""
    least = rates.at_peak_ns([ran(250, 1.6e9), ran(750, 0.8e9)])
    assert least == pytest.approx(1e9)
    found = rates.of(summary(), 2e9, 312e12, least)
    assert found is not None
    assert found.hardware == pytest.approx(0.5)


def test_hardware_utilisation_is_unknown_where_a_class_has_no_peak() -> None:
    assert rates.at_peak_ns([ran(250, 1.6e9), ran(750, None)]) is None
    assert rates.at_peak_ns([]) is None
    found = rates.of(summary(), 2e9, 312e12)
    assert found is not None
    assert found.hardware == 0


def test_without_a_peak_there_is_no_utilisation() -> None:
    found = rates.of(summary(), 2e9, None)
    assert found is not None
    assert found.utilisation == 0


def test_nothing_counted_no_rates() -> None:
    assert rates.of(None, 2e9, 1e12) is None
    assert rates.of(summary(flops=0), 2e9, 1e12) is None
    assert rates.of(summary(), 0, 1e12) is None


def test_more_than_kernels_reach_is_said() -> None:
    found = rates.of(summary(), 1.4e9, 312e12)
    assert found is not None
    assert found.is_optimistic
