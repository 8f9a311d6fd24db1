"""Numbers with nouns."""

from __future__ import annotations

import pytest

from armillary.units import counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "rank", "1 rank"),
        (0, "rank", "0 ranks"),
        (1024, "NPU", "1,024 NPUs"),
        (2, "process", "2 processes"),
        (3, "switch", "3 switches"),
        (2, "category", "2 categories"),
        (2, "day", "2 days"),
        (1, "class", "1 class"),
    ],
)
def test_a_noun_has_the_number_of_its_count(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text
