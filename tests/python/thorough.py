"""How many cases tests draw, and how large the largest are.

`make test` runs every test with the fewest that still meet each branch and each range. `make
thorough` draws more cases, others each time, and takes the full sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

_Amount = TypeVar("_Amount")

THOROUGH = bool(os.environ.get("THOROUGH"))


def usually(usual: _Amount, thorough: _Amount) -> _Amount:
    """A number of cases, a size, or a list of settings: the one for this run."""
    return thorough if THOROUGH else usual


def some(cases: Iterable[_Amount], step: int = 2) -> list[_Amount]:
    """Each `step`-th of some cases that are much alike, or all of them."""
    return [*cases][:: usually(step, 1)]
