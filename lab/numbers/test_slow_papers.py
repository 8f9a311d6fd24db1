"""The slow commands of docs/reference/papers.md. `lab/tests/test_papers.py` runs the others."""

from __future__ import annotations

import papers
import pytest

SLOW = [
    item
    for item in papers.chosen(papers.papers(), [], slow=True)
    if item not in papers.chosen(papers.papers(), [], slow=False)
]


@pytest.mark.parametrize("item", SLOW, ids=lambda item: f"{item.at}, {item.item}")
def test_a_slow_command_prints_what_the_page_says(item: papers.Item) -> None:
    assert not list(papers.failures([item]))
