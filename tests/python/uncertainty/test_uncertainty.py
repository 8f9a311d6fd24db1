"""Intervals from residuals: quantiles by hand, widening, and coverage of sources that are left out.

Expected values are those of normal and uniform distributions, or follow from the formulas in
`armillary.uncertainty.interval`."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from armillary.uncertainty import (
    Coverage,
    Intervals,
    Residual,
    calibrated,
    counted,
    coverage,
    of,
    tables,
    write,
)
from armillary.uncertainty.interval import FURTHER, alike, indistinct, quantile


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


def gpu(residual: Residual) -> str:
    return residual.labels["gpu"]


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
    assert alike([(1.0, narrow), (1.1, narrow), (1.12, narrow), (2.0, wide)]) == 2
    assert alike([(1.0, narrow)]) == 0
    assert alike([(1.0, narrow), (1.1, None)]) is None
    assert alike([]) is None
    assert indistinct(1 / 1.5, above, above) and not indistinct(1.7, above, above)


def test_without_residuals_nothing_is_known() -> None:
    interval = Intervals((), {}).interval({"operation": "all_reduce"})
    assert (interval.low, interval.high) == (0.0, math.inf)
    assert interval.outside == ("operation all_reduce",)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_calibrated_intervals_hold_the_level_of_new_sources(seed: int) -> None:
    labels = {"operation": "all_reduce"}
    known = calibrated(drawn(seed, 60, between=0.3, within=0.1, labels=labels), {})
    [every] = coverage(known.left_out())
    assert every.part == pytest.approx(0.8, abs=0.01)
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
    assert [each.within for each in coverage(nearly.left_out())] == [within]


def test_each_group_gets_intervals_of_its_own_width() -> None:
    """Residuals that differ in scatter, and labels that the weights take for equal."""
    sharp = drawn(11, 80, between=0.05, within=0.02, labels={"gpu": "H100"})
    loose = drawn(12, 80, between=0.4, within=0.1, labels={"gpu": "MI300X"})
    loose = [replace(each, source=f"other {each.source}") for each in loose]
    known = calibrated([*sharp, *loose], {"gpu": 1.0})
    parts = {each.name: each.part for each in coverage(known.left_out(), gpu)}
    assert parts["H100"] == pytest.approx(0.8, abs=0.02)
    assert parts["MI300X"] == pytest.approx(0.8, abs=0.02)
    without = replace(known, factors={})
    uneven = {each.name: each.part for each in coverage(without.left_out(), gpu)}
    assert uneven["H100"] > 0.9
    assert uneven["MI300X"] < 0.75


@pytest.mark.parametrize(("scatter", "sources", "counts"), [(4.0, 2, 1.0), (0.2, 2, 0.5)])
def test_only_narrower_intervals_need_many_sources(
    scatter: float, sources: int, counts: float
) -> None:
    """A group of two sources gets all of what widens it, and the root of what narrows it."""
    many = drawn(21, 60, between=0.1, within=0.0, labels={"gpu": "H100"})
    few = [
        Residual(f"few{at}", f"few{at}", {"gpu": "new"}, tuple(scatter * log for log in logs))
        for at, logs in enumerate(((-0.1, 0.05, 0.1, 0.02), (0.1, -0.05, -0.1, 0.02))[:sources])
    ]
    known = calibrated([*many, *few], {"gpu": 1.0})
    plain = Intervals(known.residuals, {"gpu": 1.0})
    stretches = sorted(
        abs(log - math.log(each.low * each.high) / 2) / (each.width / 2)
        for residual, each in plain.left_out()
        for log in residual.logs
        if gpu(residual) == "new"
    )
    # Of eight, the conformal quantile is the largest: 0.8 * 9 is rounded up.
    wanted = stretches[-1] / known.stretch
    assert known.factors["gpu"]["new"] == pytest.approx(wanted**counts, rel=1e-3)


def test_every_group_of_several_sources_holds_the_level() -> None:
    """Whatever its labels: factors of overlapping groups are found until none lacks anything."""
    draw = random.Random(31)
    found = []
    for source in range(24):
        labels = {"gpu": draw.choice("abc"), "format": draw.choice("xyz")}
        scatter = {"a": 0.05, "b": 0.1, "c": 0.3}[labels["gpu"]]
        scatter *= {"x": 1, "y": 2, "z": 0.5}[labels["format"]]
        logs = tuple(draw.gauss(0, scatter) for _ in range(5))
        found.append(Residual(f"run{source}", f"source{source}", labels, logs))
    known = calibrated(found, {"gpu": 0.5, "format": 0.5})
    nearly = replace(known, stretch=known.stretch * 1.01)
    for label in ("gpu", "format"):
        for each in coverage(nearly.left_out(), lambda one, label=label: one.labels[label]):  # type: ignore[misc]
            assert each.part >= 0.8, each


def test_predictions_that_are_all_too_short_are_calibrated_where_they_are() -> None:
    """Intervals then lie above the prediction, and what is between both needs no stretch."""
    draw = random.Random(41)
    found = [
        Residual(f"run{at}", f"source{at}", {}, (abs(draw.gauss(1.0, 0.1)),)) for at in range(40)
    ]
    found += [Residual("near", "near", {}, (0.0,)), Residual("below", "below", {}, (0.3,))]
    known = calibrated(found, {})
    nearly = replace(known, stretch=known.stretch * (1 + 1e-9))
    [every] = coverage(nearly.left_out())
    assert every.within == math.ceil(0.8 * 43)


def test_a_new_source_may_need_more_than_its_own_factors_gave_it() -> None:
    """Only one of three sources of a GPU scatters: within with its own factor, outside without."""
    many = drawn(51, 30, between=0.1, within=0.02, labels={"gpu": "H100"})
    calm = [Residual(f"calm{at}", f"calm{at}", {"gpu": "new"}, (0.02, 0.0)) for at in range(2)]
    wild = Residual("wild", "wild", {"gpu": "new"}, (0.3, -0.3))
    known = calibrated([*many, *calm, wild], {"gpu": 1.0})
    nearly = replace(known, stretch=known.stretch * (1 + 1e-9))
    seen = {each.name: each for each in coverage(nearly.left_out(), lambda each: each.source)}
    new = {each.name: each for each in coverage(known.new_sources(), lambda each: each.source)}
    assert seen["wild"].within == 2
    assert new["wild"].within == 0
    assert [each.measurements for each in new.values()] == [
        each.measurements for each in seen.values()
    ]


def group(name: str, *sources: tuple[int, int]) -> dict[str, list[tuple[str, bool]]]:
    """A group of sources, each with (measurements, how many of them are within)."""
    return {
        name: [
            (f"{name} {at}", one < within)
            for at, (count, within) in enumerate(sources)
            for one in range(count)
        ]
    }


def test_the_range_of_independent_measurements_is_that_of_wilson() -> None:
    [found] = counted(group("fp4", *([(1, 1)] * 6 + [(1, 0)] * 3)))
    # By hand: (2/3 + 0.2134 +- 1.96 sqrt((0.2222 + 0.1067)/9)) / 1.4268
    assert found.low == pytest.approx(0.3542, abs=1e-4)
    assert found.high == pytest.approx(0.8794, abs=1e-4)
    assert (found.measurements, found.within, found.sources) == (9, 6, 9)
    assert not found.met
    assert not found.apart


def test_measurements_of_a_source_that_miss_together_count_once() -> None:
    together = group("a", (10, 10), (10, 10), (10, 10), (10, 0))
    [found] = counted(together)
    # Each source is wholly within or wholly not: as 3 of 4 single measurements
    [single] = counted(group("a", (1, 1), (1, 1), (1, 1), (1, 0)))
    assert found.low == pytest.approx(single.low)
    assert found.high == pytest.approx(single.high)
    # Sources that all have the same part within: as 40 single measurements
    [apart] = counted(group("a", *[(10, 8)] * 4))
    [each] = counted(group("a", *([(1, 1)] * 32 + [(1, 0)] * 8)))
    assert apart.low == pytest.approx(each.low)
    assert apart.high == pytest.approx(each.high)


def test_groups_of_one_source_borrow_the_correlation_of_the_others() -> None:
    together = group("a", (10, 10), (10, 0), (10, 10), (10, 10))
    alone = counted({**together, **group("b", (20, 20))})[1]
    assert alone.low < 0.4
    assert not alone.apart
    spread = group("a", *[(10, 8)] * 4)
    sure = counted({**spread, **group("b", *[(10, 10)] * 4)})[1]
    assert sure.low > 0.85
    assert sure.apart


@pytest.mark.parametrize(("within", "met"), [(74, False), (75, True), (85, True), (86, False)])
def test_what_should_lie_within(within: int, met: bool) -> None:
    found = Coverage("all", 100, within, 10, 0.0, 1.0)
    assert found.met is met
    assert not found.apart


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
    by_source = {each.name: each for each in coverage(table.left_out(), lambda each: each.source)}
    assert by_source["far"].within == 0


def test_a_table_is_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = calibrated(drawn(8, 12, between=0.2, within=0.1, labels={"gpu": "H100"}), {"gpu": 0.5})
    write(found, tmp_path / "data" / "drawn.json")
    monkeypatch.setattr(tables, "DATA", tmp_path / "data")
    again = of("drawn")
    of.cache_clear()
    assert [each.name for each in again.residuals] == [each.name for each in found.residuals]
    ours, theirs = (each.interval({"gpu": "H100"}) for each in (found, again))
    assert theirs.low == pytest.approx(ours.low, abs=2e-3)
    assert theirs.high == pytest.approx(ours.high, abs=2e-3)


def test_a_written_interval_still_holds_the_measurement_it_ends_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(60, 70):
        rounded = [
            replace(each, logs=tuple(round(log, 3) for log in each.logs))
            for each in drawn(seed, 12, between=0.2, within=0.1, labels={"gpu": "H100"})
        ]
        found = calibrated(rounded, {"gpu": 0.5})
        write(found, tmp_path / "data" / "drawn.json")
        monkeypatch.setattr(tables, "DATA", tmp_path / "data")
        [every] = coverage(of("drawn").left_out())
        of.cache_clear()
        assert every.within >= math.ceil(0.8 * 121)


def test_a_kind_without_a_table_is_unbounded() -> None:
    assert of("no such kind").residuals == ()
