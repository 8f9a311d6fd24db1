"""EqualBW, MessageBW, SmartBW: the paper's equations, and SmartBW against the numerical optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import overlapping, random_model, total

from armillary.design.optimal import Question, optimise
from armillary.design.schemes import equal, message, plain, smart, smart_of, split
from armillary.estimate.step_model import serial


def test_equations_1_and_2() -> None:
    assert equal(300.0, 4).tolist() == [75.0] * 4
    assert message(100.0, np.array([3.0, 1.0])).tolist() == [75.0, 25.0]
    assert message(100.0, np.zeros(2)).tolist() == [50.0, 50.0]


def test_equations_5_and_6() -> None:
    """MP on dimensions 1 and 2, DP on 3: roots of their bytes, and within MP in proportion."""
    model = serial("m", 0.0, [("mp", [6.0, 3.0, 0.0]), ("dp", [0.0, 0.0, 4.0])], 3)
    got = smart(10.0, model)
    assert got is not None
    assert got == pytest.approx([3 / 5 * 10 * 6 / 9, 3 / 5 * 10 * 3 / 9, 2 / 5 * 10])


def test_smart_equals_the_optimum_on_random_splits() -> None:
    """MP on the inner dimensions, DP on the outer ones, with and without a dimension that both use,
    to 1e-6."""
    rng = np.random.default_rng(1)
    seen = {False: 0, True: 0}
    worst = 0.0
    for _ in range(500):
        dims, shares = int(rng.integers(2, 6)), bool(rng.integers(2))
        edge = int(rng.integers(0, dims)) if shares else int(rng.integers(1, dims))
        loads = np.exp(rng.normal(0, 2, (2, dims))) * 1e9
        loads[0, edge + 1 if shares else edge :] = 0
        loads[1, :edge] = 0
        model = serial("m", float(rng.random()), [("mp", loads[0]), ("dp", loads[1])], dims)
        got = smart(1e11, model)
        assert got is not None
        assert np.sum(got) == pytest.approx(1e11, rel=1e-12)
        best = optimise(Question((model,), (1.0,), (total(1e11, dims),)))
        worst = max(
            worst, abs(model.time(got) / best.value - 1), abs(model.time(got) / best.bound - 1)
        )
        seen[shares] += 1
    print(f"SmartBW against the optimum: {worst:.1e} over {seen}")
    assert worst < 1e-6
    assert min(seen.values()) > 200


@given(
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
    st.floats(0.001, 1.0),
    st.floats(0.001, 1.0),
    st.floats(0.01, 0.99),
)
def test_split_is_the_minimum_along_the_budget(
    mp: float, dp: float, r: float, s: float, where: float
) -> None:
    """Equation (7) holds, and no other x and y that fulfil it have a shorter time."""
    x, y = split(1.0, mp, dp, r, s)
    assert (1 - r) * x + (1 - s) * y + max(r * x, s * y) == pytest.approx(1.0)
    angle = where * math.pi / 2
    a, b = math.cos(angle), math.sin(angle)
    scale = 1 / ((1 - r) * a + (1 - s) * b + max(r * a, s * b))
    assert mp / x + dp / y <= (mp / a + dp / b) / scale * (1 + 1e-9)


def test_smart_is_for_one_shared_dimension() -> None:
    two = serial("m", 0.0, [("mp", [1.0, 1.0]), ("dp", [1.0, 1.0])], 2)
    assert smart(1.0, two) is None
    one = serial("m", 0.0, [("dp", [3.0, 1.0])], 2)
    got = smart(4.0, one)
    assert got is not None
    assert got.tolist() == [3.0, 1.0]


def test_smart_of_a_set_sums_equation_3_over_its_workloads() -> None:
    """MP on dimension 1 and DP on 2 in both: sums of bytes by weight under the roots of equations
    (5) and (6)."""
    one = serial("one", 1.0, [("mp", [6.0, 0.0]), ("dp", [0.0, 1.0])], 2)
    two = serial("two", 2.0, [("mp", [1.0, 0.0]), ("dp", [0.0, 1.0])], 2)
    step = plain((one, two), (1.0, 3.0))
    assert step.compute == 7.0
    assert step.volume.tolist() == [9.0, 4.0]
    assert smart_of(10.0, step) == pytest.approx([6.0, 4.0], rel=1e-6)  # 3 : 2


def test_smart_of_a_set_by_hand_with_two_shared_dimensions() -> None:
    """Collectives of bytes a : b and b : a over the same two dimensions: by symmetry both get the
    half, which no closed form of the paper says."""
    step = plain(
        (serial("one", 0.0, [("x", [3.0, 1.0])], 2), serial("two", 0.0, [("y", [1.0, 3.0])], 2)),
        (1.0, 1.0),
    )
    assert smart(8.0, step) is None
    assert smart_of(8.0, step) == pytest.approx([4.0, 4.0], rel=1e-6)


def test_smart_of_a_random_set_is_never_slower_than_other_shares() -> None:
    """By equation (3), for sets of up to four workloads with weights, which share any
    dimensions."""
    rng = np.random.default_rng(57)
    for _ in range(100):
        dims, count = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        kind = overlapping if rng.integers(2) else random_model
        models = [kind(rng, dims, int(rng.integers(1, 5))) for _ in range(count)]
        step = plain(models, np.exp(rng.normal(0, 1, count)).tolist())
        got = smart_of(1e11, step)
        assert np.sum(got) == pytest.approx(1e11, rel=1e-12)
        others = [equal(1e11, dims), message(1e11, step.volume)]
        others += list(rng.dirichlet(np.ones(dims), 200) * 1e11)
        best = min(map(step.time, others))
        assert step.time(got) <= best * (1 + 1e-6)
