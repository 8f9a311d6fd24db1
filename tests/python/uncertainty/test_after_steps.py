"""Intervals after measured steps, against draws of the model of errors and by hand."""

from __future__ import annotations

import math
import random

import pytest

from armillary.uncertainty.after_steps import STRETCH, after, middle, plain


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shared", [0.3, 0.7, 0.9])
def test_the_model_holds_80_percent_of_its_own_draws(count: int, shared: float) -> None:
    """Errors with a shared and a single part, whose variance is known (freedom without end).
    Without a stretch 80 % of other layouts lie within, and a middle further away misses more."""
    chance = random.Random(count)
    half = 0.2
    before = math.exp(-half), math.exp(half)
    deviation = half / 1.2816
    inside, missed, shifted = 0, 0.0, 0.0
    draws = 20_000
    for _ in range(draws):
        common = chance.gauss(0, deviation * math.sqrt(shared))
        known, (other,) = (
            [common + chance.gauss(0, deviation * math.sqrt(1 - shared)) for _ in range(n)]
            for n in (count, 1)
        )
        at, wide = plain(before, known, shared, 1e12)
        inside += abs(other - at) <= wide
        missed += (other - at) ** 2
        shifted += (other - 1.1 * at) ** 2
    assert inside / draws == pytest.approx(0.8, abs=0.012)
    assert missed < shifted


def test_by_hand() -> None:
    """Half width 0.128155 is a deviation of 0.1; one step that is 0.1 slower. By hand with a shared
    part of 0.7 and two degrees of freedom."""
    before = math.exp(-0.12816), math.exp(0.12816)
    at, half = plain(before, [0.1], 0.7, 2.0)
    assert at == pytest.approx(0.07)
    assert half == pytest.approx(0.12816 * math.sqrt(1 - 0.49) * math.sqrt((2 + 1) / 3))
    low, high = after(before, [0.1])
    assert middle(before, [0.1]) == pytest.approx(math.sqrt(low * high))
    assert math.log(high / low) == pytest.approx(2 * STRETCH * plain(before, [0.1])[1])


def test_more_steps_are_closer_and_surprises_wider() -> None:
    """Steps that agree narrow the interval; one far outside of it widens it."""
    before = 0.9, 1.1
    at = math.log(0.9 * 1.1) / 2
    widths = [high / low for low, high in (after(before, [at] * n) for n in (1, 2, 3, 16))]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] < 1.1 / 0.9
    low, high = after(before, [1.0])
    assert high / low > 1.1 / 0.9
    assert middle(before, [1.0]) > 1.5
