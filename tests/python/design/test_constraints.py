"""Constraints as text, and irreducible sets of those that contradict one another."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from armillary.design import constraints, infeasible
from armillary.design.optimal import Constraint
from armillary.estimate.step_model import serial

STACK = ("chiplet", "package", "node", "nic")
PRICE = (1.0, 2.0, 3.0, 4.0)
TESTS = [
    ("bw[0] >= bw[1]", (-1, 1, 0, 0), 0, False),
    ("bw[2] + bw[3] == 200 GB/s", (0, 0, 1, 1), 2e11, True),
    ("bw[-1] <= 400 Gb/s", (0, 0, 0, 1), 5e10, False),
    ("bw[nic] <= 50 GB/s", (0, 0, 0, 1), 5e10, False),
    ("cost <= 15 M$", PRICE, 15e6, False),
    ("total == 1 TB/s", (1, 1, 1, 1), 1e12, True),
    ("2*bw[0] - (bw[1] + bw[2]) / 4 >= -1 GB/s", (-2, 0.25, 0.25, 0), 1e9, False),
    ("300 GiB/s >= bw[0]", (1, 0, 0, 0), 300 * 2**30, False),
]


@pytest.mark.parametrize(("text", "row", "limit", "equal"), TESTS)
def test_meaning(text: str, row: tuple[float, ...], limit: float, equal: bool) -> None:
    (written,) = constraints.read(text)
    assert written.bind(STACK, PRICE) == Constraint(
        text, tuple(map(float, row)), float(limit), equal
    )


def test_chains_and_missing_dimensions() -> None:
    low, high = constraints.read("10 GB/s <= bw[1] <= 20 GB/s")
    assert low.bind(STACK, PRICE) == Constraint(low.name, (0, -1, 0, 0), -1e10)
    assert high.bind(STACK, PRICE) == Constraint(low.name, (0, 1, 0, 0), 2e10)
    assert constraints.read("bw[3] >= bw[1]")[0].bind(STACK[:3], PRICE[:3]) is None


WRONG = [
    ("bw[0]", "it has no comparison"),
    ("bw[0] >= 3", "don't add up or compare"),
    ("bw[0] * bw[1] <= 3 GB/s", "linear"),
    ("bw[0] / 0 <= 1 GB/s", "division by 0"),
    ("bw[0] <= 5 GB", "neither a bandwidth"),
    ("bw[0] <= 5 M$", "don't add up"),
    ("(bw[0] <= 1 GB/s", "not closed"),
    ("3 <= 4", "nothing about a bandwidth"),
    ("bw[0] <= 1 GB/s 3", "operator is missing"),
    ("bw[0] <= ", "before the end"),
    ("bw[0] < 1 GB/s", "not understood"),
    ("(" * 60 + "bw[0]", "levels deep"),
    ("bw[0] <= " + "1 GB/s + " * 99, "characters"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_what_is_no_constraint(text: str, reason: str) -> None:
    with pytest.raises(constraints.ConstraintError, match=reason):
        constraints.read(text)


def bound(*texts: str) -> list[Constraint]:
    found = [written.bind(STACK, PRICE) for text in texts for written in constraints.read(text)]
    return [each for each in found if each is not None]


def test_conflict_by_name() -> None:
    some = bound(
        "total == 300 GB/s",
        "bw[0] >= 200 GB/s",
        "bw[1] >= 1 GB/s",
        "bw[3] >= 150 GB/s",
        "bw[2] <= 9 GB/s",
    )
    assert infeasible.conflict(some, 4) == [
        "total == 300 GB/s",
        "bw[0] >= 200 GB/s",
        "bw[3] >= 150 GB/s",
    ]
    assert infeasible.conflict(some[1:], 4) == []


def test_a_time_limit_in_a_conflict() -> None:
    """4 GB over at most 2 GB/s take 2 s at least."""
    model = serial("slow", 1.0, [("a", [4e9, 0, 0, 0])], 4)
    some = bound("bw[0] <= 2 GB/s", "bw[1] <= 9 GB/s", "bw[1] >= 1 GB/s")
    assert infeasible.conflict(some, 4, [infeasible.Limit("slow", model, 2.9)]) == [
        "bw[0] <= 2 GB/s",
        "slow",
    ]
    assert infeasible.conflict(some, 4, [infeasible.Limit("slow", model, 3.1)]) == []
    assert infeasible.conflict([], 4, [infeasible.Limit("slow", model, 0.9)]) == ["slow"]


def test_conflicts_are_irreducible() -> None:
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(100):
        some = [
            Constraint(
                f"c{i}", tuple(rng.integers(-2, 3, 3).astype(float)), float(rng.integers(-5, 6))
            )
            for i in range(int(rng.integers(2, 8)))
        ]
        names = infeasible.conflict(some, 3)
        if not names:
            assert infeasible.feasible(some, 3)
            continue
        seen += 1
        members = [each for each in some if each.name in names]
        assert not infeasible.feasible(members, 3)
        for rest in itertools.combinations(members, len(members) - 1):
            assert infeasible.feasible(list(rest), 3)
    assert seen > 10


def drawn(random: Random) -> tuple[list[Constraint], int]:
    """Totals, caps, ratios and costs in any unit, some of which contradict one another."""
    dims, scale = random.randint(1, 5), 10 ** random.uniform(0, 12)
    some = []
    for number in range(random.randint(1, 6)):
        weights = random.choice(
            [
                [1.0] * dims,
                [float(d == number % dims) for d in range(dims)],
                [random.choice([0.0, 1e-6, 3e-6, 1.0]) for _ in range(dims)],
                [1.0, *[0.0] * (dims - 2), -random.choice([0.5, 1.0, 2.0])][:dims],
            ]
        )
        sign = random.choice([1, 1, -1])
        limit = random.choice([0.0, 1.0, 2.0, 4.0, random.uniform(0.1, 10)]) * scale
        limit *= max(map(abs, weights))
        coefficients = tuple(sign * weight for weight in weights)
        equal = random.random() < 0.25
        some.append(Constraint(str(number), coefficients, sign * limit, equal))
    return some, dims


def test_what_can_be_fulfilled_is_what_another_solver_says() -> None:
    """HiGHS, on the same constraints in units of the largest limit."""
    random, impossible = Random(1), 0
    for _ in range(300):
        some, dims = drawn(random)
        scale = max(abs(each.limit) for each in some) or 1.0
        parts = {equal: [each for each in some if each.equal is equal] for equal in (False, True)}
        found = linprog(
            [0.0] * dims,
            A_ub=[each.coefficients for each in parts[False]] or None,
            b_ub=[each.limit / scale for each in parts[False]] or None,
            A_eq=[each.coefficients for each in parts[True]] or None,
            b_eq=[each.limit / scale for each in parts[True]] or None,
        )
        assert infeasible.feasible(some, dims) is (found.status != 2), some
        impossible += found.status == 2
    assert 60 < impossible < 240
