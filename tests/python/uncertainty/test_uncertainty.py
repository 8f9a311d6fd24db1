"""Intervals from residuals: quantiles by hand, widening, and coverage of sources that are left out.

Expected values are those of normal and uniform distributions, or follow from the formulas in
`armillary.uncertainty.interval`."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from armillary.uncertainty import Intervals, Residual, calibrated, of, write
from armillary.uncertainty.interval import FURTHER, indistinct, quantile


def drawn(
    seed: int, sources: int, *, between: float, within: float, labels: dict[str, str]
) -> list[Residual]:
    """Sources whose measurements miss by a common amount and each by some of its own."""
    random_ = random.Random(seed)
    found = []
    for at in range(sources):
        common = random_.gauss(0, between)
        logs = tuple(common + random_.gauss(0, within) for _ in range(10))
        found.append(Residual(f"run{at}", f"source{at}", labels, logs))
    return found


def test_quantiles_lie_between_values_in_proportion_to_weights() -> None:
    # Each value stands at the middle of its weight: 1 at 1/8, 2 at 1/2, 3 at 7/8.
    weighted = [(1.0, 1.0), (2.0, 2.0), (3.0, 1.0)]
    assert quantile(weighted, 0.5) == 2.0
    assert quantile(weighted, 0.3125) == pytest.approx(1.5)
    assert quantile(weighted, 0.0) == 1.0
    assert quantile(weighted, 1.0) == 3.0


def test_an_interval_has_the_quantiles_of_many_sources() -> None:
    found = drawn(1, 2000, between=0.2, within=0.0, labels={"operation": "all_reduce"})
    interval = Intervals(tuple(found), {}).interval({"operation": "all_reduce"})
    # 10 % and 90 % of a normal distribution: 1.2816 standard deviations
    assert math.log(interval.high) == pytest.approx(0.2 * 1.2816, rel=0.08)
    assert math.log(interval.low) == pytest.approx(-0.2 * 1.2816, rel=0.08)
    assert interval.sources == pytest.approx(2000)
    assert interval.holds(1.0)
    assert not interval.holds(2.0)


def test_like_residuals_count_more_and_few_sources_widen() -> None:
    sharp = drawn(2, 50, between=0.02, within=0.0, labels={"band": "large"})
    loose = drawn(3, 50, between=0.5, within=0.0, labels={"band": "small"})
    both = Intervals((*sharp, *loose), {"band": 0.01})
    assert both.interval({"band": "large"}).width < 0.2 < both.interval({"band": "small"}).width
    few = Intervals(tuple(loose[:4]), {})
    many = Intervals(tuple(loose[:4] * 25), {})
    assert few.interval({"band": "small"}).sources == pytest.approx(4)
    # repeated measurements of the same sources are not new sources
    assert many.interval({"band": "small"}).sources == pytest.approx(4)


def test_what_nobody_measured_is_named_and_widens() -> None:
    found = tuple(drawn(4, 30, between=0.1, within=0.05, labels={"format": "bf16", "gpu": "H100"}))
    table = Intervals(found, {"format": 0.5, "gpu": 0.5})
    known = table.interval({"format": "bf16", "gpu": "H100"})
    one = table.interval({"format": "fp4", "gpu": "H100"})
    two = table.interval({"format": "fp4", "gpu": "B200"})
    assert known.outside == ()
    assert one.outside == ("format fp4",)
    assert two.outside == ("format fp4", "gpu B200")
    # all residuals are equally unlike the query, so that only the stated factor widens
    assert one.width == pytest.approx(known.width * FURTHER)
    assert two.width == pytest.approx(known.width * FURTHER**2)
    assert "extrapolated: format fp4, gpu B200" in two.origin


def test_predictions_are_alike_if_one_is_within_the_interval_of_the_other() -> None:
    narrow, wide, above = (0.9, 1.1), (0.5, 2.0), (1.2, 1.6)
    assert indistinct(1.1, narrow, narrow) and not indistinct(1.12, narrow, narrow)
    assert indistinct(2.0, narrow, wide) and not indistinct(2.01, narrow, wide)
    assert indistinct(0.5, wide, narrow) and not indistinct(0.49, wide, narrow)
    # Measurements lie above these predictions: one in between is not separate either.
    assert indistinct(1.0, above, above) and indistinct(1.1, above, above)
    assert indistinct(1 / 1.5, above, above) and not indistinct(1.7, above, above)


def test_without_residuals_nothing_is_known() -> None:
    interval = Intervals((), {}).interval({"operation": "all_reduce"})
    assert (interval.low, interval.high) == (0.0, math.inf)
    assert interval.outside == ("operation all_reduce",)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_calibrated_intervals_hold_the_level_of_new_sources(seed: int) -> None:
    labels = {"operation": "all_reduce"}
    known = calibrated(drawn(seed, 60, between=0.3, within=0.1, labels=labels), {})
    [coverage] = known.coverage()
    assert coverage.part == pytest.approx(0.8, abs=0.01)
    interval = known.interval(labels)
    new = drawn(seed + 100, 400, between=0.3, within=0.1, labels=labels)
    logs = [log for each in new for log in each.logs]
    within = sum(interval.holds(math.exp(log)) for log in logs) / len(logs)
    assert within == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(("sources", "within"), [(9, 8), (10, 9), (14, 12), (35, 29)])
def test_calibration_takes_the_conformal_quantile(sources: int, within: int) -> None:
    """Of n measurements, `ceil(0.8 (n + 1))` lie within, so that one more does so in 80 % of all
    cases."""
    labels = {"operation": "all_reduce"}
    drawn_ = random.Random(9)
    found = [
        Residual(f"run{at}", f"source{at}", labels, (drawn_.gauss(0, 0.3),))
        for at in range(sources)
    ]
    known = calibrated(found, {})
    nearly = replace(known, stretch=known.stretch * (1 + 1e-9))
    assert [each.within for each in nearly.coverage()] == [within]


def test_each_group_gets_intervals_of_its_own_width() -> None:
    """Residuals that differ in scatter, and labels that the weights take for equal."""
    sharp = drawn(11, 40, between=0.05, within=0.02, labels={"gpu": "H100"})
    loose = drawn(12, 40, between=0.4, within=0.1, labels={"gpu": "MI300X"})
    loose = [replace(each, source=f"other {each.source}") for each in loose]
    known = calibrated([*sharp, *loose], {"gpu": 1.0})
    parts = {each.name: each.part for each in known.coverage(lambda each: each.labels["gpu"])}
    assert parts["H100"] == pytest.approx(0.8, abs=0.02)
    assert parts["MI300X"] == pytest.approx(0.8, abs=0.02)
    without = replace(known, factors={})
    uneven = {each.name: each.part for each in without.coverage(lambda each: each.labels["gpu"])}
    assert uneven["H100"] > 0.9
    assert uneven["MI300X"] < 0.75


def test_a_group_of_one_source_has_no_factor() -> None:
    many = drawn(13, 10, between=0.1, within=0.05, labels={"gpu": "H100"})
    alone = Residual("a", "alone", {"gpu": "TPU"}, (2.0, -2.0))
    known = calibrated([*many, alone], {"gpu": 0.5})
    assert set(known.factors["gpu"]) == {"H100"}


def test_a_source_that_is_left_out_does_not_vouch_for_itself() -> None:
    labels = {"operation": "all_reduce"}
    near = [Residual(f"a{at}", f"a{at}", labels, (0.01 * at,)) for at in range(-5, 6)]
    far = Residual("far", "far", labels, (3.0,))
    table = Intervals((*near, far), {})
    by_source = {each.name: each for each in table.coverage(lambda each: each.source)}
    assert by_source["far"].within == 0


def test_a_table_is_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = calibrated(drawn(8, 12, between=0.2, within=0.1, labels={"gpu": "H100"}), {"gpu": 0.5})
    write(found, tmp_path / "data" / "drawn.json")
    monkeypatch.setattr(resources, "files", lambda _package: tmp_path)
    again = of("drawn")
    of.cache_clear()
    assert [each.name for each in again.residuals] == [each.name for each in found.residuals]
    ours, theirs = (each.interval({"gpu": "H100"}) for each in (found, again))
    assert theirs.low == pytest.approx(ours.low, abs=2e-3)
    assert theirs.high == pytest.approx(ours.high, abs=2e-3)


def test_a_kind_without_a_table_is_unbounded() -> None:
    assert of("no such kind").residuals == ()
