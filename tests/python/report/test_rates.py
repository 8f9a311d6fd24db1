from __future__ import annotations

import pytest

from armillary.report import rates
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


def test_recomputation_counts_for_the_hardware_only() -> None:
    """A third more operations than the model's: four thirds of its utilisation (GPT-3 of Megatron:
    52 % to 39 %)."""
    again = Summary(
        "m", "transformer", 1000, 1, 1, 4, 312 * 10**15, 416 * 10**15, 0.0, (), (), 2048
    )
    found = rates.of(again, 2e9, 312e12)
    assert found is not None
    assert found.utilisation == pytest.approx(0.5)
    assert found.hardware == pytest.approx(2 / 3)


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
