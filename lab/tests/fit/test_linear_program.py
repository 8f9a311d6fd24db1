"""Moves of many parameters at once: sums of absolute values by hand."""

from __future__ import annotations

import pytest

from armillary_lab.fit.linear_program import Slopes


def test_the_best_point_of_a_sum_is_its_weighted_median() -> None:
    """One parameter, points that miss by -1, 0 and 2 with weights 1, 1 and 3: |x - 1| + |x| + 3 |x
    + 2| is least at -2."""
    slopes = Slopes()
    slopes.depend(slopes.add([-1.0, 0.0, 2.0], [1.0, 1.0, 3.0]), [1.0, 1.0, 1.0], [0])
    assert slopes.best([0.0], [0.0], 10.0) == pytest.approx([-2.0])
    # No farther than within reach, and not at all if that costs more than it brings: 3 - 1 - 1 + 1.
    assert slopes.best([0.0], [0.0], 0.5) == pytest.approx([-0.5])
    assert slopes.best([0.0], [2.1], 10.0) == pytest.approx([0.0])
    assert slopes.effects(1) == [5.0]


def test_two_parameters_move_where_neither_does_alone() -> None:
    """|10 (x - y)| + |x + y - 2| from (0, 0): x alone costs 10 for each 1 that it brings, both
    together lead to (1, 1)."""
    slopes = Slopes()
    first = slopes.add([0.0, -2.0], [10.0, 1.0])
    slopes.depend(first, [1.0, 1.0], [0])
    slopes.depend(first, [-1.0, 1.0], [1])
    assert slopes.best([0.0, 0.0], [0.1, 0.1], 5.0) == pytest.approx([1.0, 1.0])


def test_a_parameter_that_moves_two_others_counts_for_both() -> None:
    """Columns 0 and 1 change the same points; the cheaper one moves."""
    slopes = Slopes()
    slopes.depend(slopes.add([-1.0], [5.0]), [1.0], [0, 1])
    assert slopes.best([0.0, 0.0], [2.0, 1.0], 5.0) == pytest.approx([0.0, 1.0])
