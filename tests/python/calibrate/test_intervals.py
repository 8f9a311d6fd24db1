"""The search for parameters: intervals, and ways out of valleys."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_logs import library, log

from armillary.calibrate import read
from armillary.calibrate.case import cases
from armillary.calibrate.search import ParameterSearch, standard_deviations


def test_a_combination_is_certain_where_each_parameter_is_not(tmp_path: Path) -> None:
    """One number of ranks: efficiency and fill make one bandwidth; of the two together it is as
    sharp as ever."""
    path = tmp_path / "all_reduce.log"
    path.write_text(log(library({"library.call_overhead": "12 us"})))
    (measured,) = cases("dgx-a100", read(str(path)).tables, {})
    given = {
        "library.node.efficiency": 0.8,
        "library.node.ramp_up": 0.44,
        "library.call_overhead": 12.0,
    }
    search = ParameterSearch([measured], given)
    together = search.intervals(list(given), given)
    alone = {key: search.interval(key, given) for key in given}
    assert together["library.node.ramp_up"] == pytest.approx((0.44 / 3, 0.44 * 3), rel=0.05)
    assert alone["library.node.ramp_up"][1] < 0.44 * 2
    assert together["library.call_overhead"][1] < 13


@given(st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=4, max_size=4))
def test_variances_are_the_diagonal_of_an_inverse(rows: list[list[float]]) -> None:
    """Its diagonal times the determinant are the determinants of the minors (Cramer's rule)."""
    matrix = [[sum(map(operator.mul, a, b)) + (0.5 if a is b else 0.0) for b in rows] for a in rows]
    error = math.sqrt(0.5)

    def determinant(of: list[list[float]]) -> float:
        minors = ([row[:at] + row[at + 1 :] for row in of[1:]] for at in range(len(of)))
        return (
            sum((-1) ** at * of[0][at] * determinant(minor) for at, minor in enumerate(minors))
            if of
            else 1.0
        )

    for at, deviation in enumerate(standard_deviations(np.array(rows), error)):
        value = (deviation / error) ** 2
        minor = [row[:at] + row[at + 1 :] for row in matrix[:at] + matrix[at + 1 :]]
        assert value * determinant(matrix) == pytest.approx(determinant(minor), rel=1e-6)


class Valleys:
    """Three all-reduces of rings or trees, whichever are faster, and one of rings: rings reach
    0.73, trees less."""

    measured = (1 / 0.73,) * 4

    def times(self, values: Mapping[str, float]) -> list[float]:
        ring, tree = values["ring"], 2 * values["ring"] * values["tree"]
        return [1 / max(ring, tree)] * 3 + [1 / ring]


def test_a_better_valley_is_found_behind_a_ridge() -> None:
    """From slow rings single steps lead to fast trees, and the last measurement is missed by a
    third."""
    search = ParameterSearch([Valleys()], {"ring": 0.5, "tree": 0.9})
    assert search.error(search.descend(["ring", "tree"])) > 0.05
    found = search.explore(["ring", "tree"])
    assert found["ring"] == pytest.approx(0.73, rel=0.02) and found["tree"] < 0.52
