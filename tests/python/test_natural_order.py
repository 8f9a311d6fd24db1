"""Names with numbers in their order: any digits, any text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from armillary.natural_order import natural_order


@given(st.text("ab-.", max_size=4), st.lists(st.integers(0, 10**30), unique=True), st.text("xyz"))
def test_numbers_sort_by_value(stem: str, numbers: list[int], end: str) -> None:
    names = [f"{stem}{number}{end}" for number in numbers]
    assert sorted(names, key=natural_order) == [f"{stem}{each}{end}" for each in sorted(numbers)]


@given(st.lists(st.text("a0129\u00b2\u0663\u00e9 ", max_size=6), unique=True))
def test_every_name_has_one_place(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(names, key=natural_order) == sorted(backwards, key=natural_order)


def test_more_digits_than_python_turns_into_a_number() -> None:
    long = "node" + "9" * 5000
    assert sorted([long, "node10", "node9"], key=natural_order) == ["node9", "node10", long]


def test_leading_zeros_do_not_matter() -> None:
    names = ["day_010", "day_9", "day_0011"]
    assert sorted(names, key=natural_order) == ["day_9", "day_010", "day_0011"]
