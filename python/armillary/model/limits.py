"""Largest values of fields and options of models, and the check of counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from ..declared import Within
from ..errors import Problem

NPUS = 2**24
"""NPUs of the largest machine."""

LARGEST = 2**31
"""Side of the largest matrix."""

Size = Annotated[int, Within(1, LARGEST)]
"""A side of a matrix."""
Zero = Annotated[int, Within(0, LARGEST)]
"""A number that may be 0."""

LIMITS = {"dp": NPUS, "mp": NPUS, "passes": 10_000}
"""Largest value of an option; what is called a width has 16 bytes at most."""


def check_counts(counts: Mapping[str, int], **limits: int) -> list[Problem]:
    """Options that are not whole numbers from 1 up to their limit, which `limits` may lower."""
    problems = []
    for key, value in counts.items():
        most = limits.get(key, LIMITS.get(key, 16 if key.endswith("width") else LARGEST))
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 1 <= value <= most:
            said = f"{value!r} is not a count" if not whole or value < 1 else f"{value} is too much"
            problems.append(Problem("", key, said, f"a whole number from 1 to {most}"))
    return problems
