"""Corrections by size: what the model leaves of measured times."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import armillary as arm
from armillary.calibrate import corrections

FACTORS = st.lists(st.floats(0.3, 3), min_size=3, max_size=12)


def test_corrections_are_interpolated_as_the_simulator_does() -> None:
    found = corrections.Correction(
        "all_reduce", 8, 1, ((2**10, 2.0), (2**12, 0.5), (2**20, 1.5), (2**26, 1.1))
    )
    settings = {"library.corrections": f"[{found.setting()}]"}
    sizes = [8, 2**10, 1500, 2**12, 10**5, 2**20, 3 * 10**6, 10**7, 2**26, 2**30]
    with_, without = (arm.Platform.load("dgx-a100", each)._core for each in (settings, {}))
    after = with_.library_times([], "all_reduce", sizes)
    before = without.library_times([], "all_reduce", sizes)
    at = without.library_times([], "all_reduce", [size for size, _ in found.points])
    assert after is not None and before is not None and at is not None
    known = corrections.known(found.points, at)
    expected = [
        corrections.corrected(known, size, time) for time, size in zip(before, sizes, strict=True)
    ]
    assert after == pytest.approx(expected, rel=1e-6)
    assert after[1] > after[2] > after[3] < after[4] < after[5] < after[6] < after[7] < after[8]


@given(FACTORS, st.lists(st.floats(1.0, 4.0), min_size=40, max_size=40))
def test_more_bytes_take_less_only_where_measured(
    factors: list[float], growth: list[float]
) -> None:
    """Of a model that grows, whatever the factors: between two known sizes times go from the one to
    the other."""
    model = [float(value) for value in itertools.accumulate(growth, operator.mul)]
    points = [(4**at, factor) for at, factor in enumerate(factors)]
    known = corrections.known(points, model[: 3 * len(points) : 3])
    for low, high, first in zip(known, known[1:], range(0, 99, 3), strict=False):
        between = [
            corrections.corrected(known, low.size * 2 + at, model[first + 1 + at]) for at in (0, 1)
        ]
        path = [low.us, *between, high.us] if low.size > 1 else [low.us, between[0], high.us]
        assert path == pytest.approx(sorted(path, reverse=high.us < low.us), rel=1e-9)


def test_single_outliers_make_no_correction() -> None:
    ratios = [(2**k, 5.0 if k == 12 else 1.0) for k in range(8, 20)]
    assert dict(corrections.factors(ratios))[2**12] == pytest.approx(math.exp(0.15))
    assert corrections.factors(ratios[:2]) == ()
