"""The order of names that have numbers in them: `node9` comes before `node10`."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"([0-9]+)")


def natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """A key for sorting. Numbers may have any count of digits, and leading zeros do not matter
    unless two names differ in nothing else."""
    text = _DIGITS.split(name)
    numbers = [number.lstrip("0") for number in text[1::2]]
    text[1::2] = numbers
    return [(len(part) if index % 2 else 0, part) for index, part in enumerate(text)], name
