"""The descent of all fits: where it ends, and when."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armillary.calibrate.descent import Point, descend, factors, offsets

value = st.floats(-2, 2).map(math.exp)


def off(target: Mapping[str, float], values: Mapping[str, float]) -> float:
    """How far values are from others, in logarithms: a sum with kinks."""
    return sum(abs(math.log(values[key] / target[key])) for key in target)


@given(target=st.fixed_dictionaries(dict.fromkeys("abc", value)))
def test_it_ends_within_half_a_step_of_the_least_loss(target: dict[str, float]) -> None:
    point = Point(lambda values: off(target, values), dict.fromkeys(target, 1.0), 1e-9)
    before = point.least
    gained = descend(target, factors(1.7, 1.1, 1.01), point.attempt, rounds=None)
    assert gained == pytest.approx(before - point.least)
    for key, wanted in target.items():
        assert abs(math.log(point.values[key] / wanted)) <= math.log(1.01) / 2 + 1e-9


def test_values_that_are_not_allowed_are_not_tried() -> None:
    def loss(values: Mapping[str, float]) -> float:
        assert values["a"] <= 2
        return -values["a"]

    point = Point(loss, {"a": 1.0}, 0.0, lambda _, value: value <= 2)
    descend(["a"], factors(1.5, 1.2), point.attempt, rounds=None)
    assert point.values["a"] == pytest.approx(1.5 * 1.2)


def test_a_size_ends_with_a_round_that_gains_little() -> None:
    """Two coordinates that follow each other by one step a round: 0.5, 0.25, 0.125, 0.0625."""
    rounds: list[float] = []
    left = [1.0]

    def attempt(_key: str, move: float) -> float:
        if move < 0 or len(rounds) == len(tried):
            return 0.0
        tried.append(left[0] / 2)
        left[0] /= 2
        return tried[-1]

    def after(size: tuple[float, ...]) -> float:
        rounds.append(size[0])
        return 0.0

    tried: list[float] = []
    rounds.append(0.0)
    total = descend(["a"], offsets(1.0), attempt, enough=0.1, rounds=None, after=after)
    assert tried == [0.5, 0.25, 0.125, 0.0625]
    assert total == pytest.approx(sum(tried))
    assert len(rounds) - 1 == 4


def test_rounds_are_limited() -> None:
    called: list[float] = []

    def after(size: tuple[float, ...]) -> float:
        called.append(size[0])
        return 1.0

    descend(["a"], factors(2.0, 1.5), lambda _key, _by: 0.0, rounds=3, after=after)
    assert called == [2.0] * 3 + [1.5] * 3
