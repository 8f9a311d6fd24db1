"""Eq. 1 of Neo and ZionEX, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from armillary.estimate.roofline import StepParts

PARTS = StepParts(
    bottom_forward=3,
    lookup=2,
    all_to_all_forward=5,
    interaction_forward=1,
    top_forward=4,
    top_backward=8,
    interaction_backward=2,
    all_to_all_backward=5,
    update=4,
    bottom_backward=6,
    top_all_reduce=7,
    bottom_all_reduce=3,
)


def test_parts_add_up_as_in_equation_1() -> None:
    """max(3, 2 + 5) + 1 + 4 = 12; max(8 + 2 + max(5 + 4, 6), 7 + 3) = 19."""
    assert (PARTS.forward, PARTS.backward, PARTS.total) == (12, 19, 31)


@pytest.mark.parametrize(
    ("part", "forward", "backward"),
    [
        ("bottom_forward", 30 + 1 + 4, 19),  # longer than lookup and exchange: it counts alone
        ("bottom_backward", 12, 8 + 2 + 30),  # longer than exchange and update
        ("top_all_reduce", 12, 30 + 3),  # longer than the whole backward pass
    ],
)
def test_the_longer_of_what_runs_side_by_side_counts(
    part: str, forward: float, backward: float
) -> None:
    parts = replace(PARTS, **{part: 30})
    assert (parts.forward, parts.backward) == (forward, backward)
