"""Measured speeds and outputs of deployments, which users have, as points next to a frontier.

Here: reading CSV with the columns `tokens/s/user` and `tokens/s/GPU` (output tokens), and `name`
for those who have one. Not here: our own points (`search.py`), the chart
(`report/serving_plan.py`)."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from .. import documents
from ..errors import InputError, Problem

WHAT = "CSV with the columns tokens/s/user and tokens/s/GPU"
NEEDED = ("tokens/s/user", "tokens/s/GPU")
_KNOWN = (*NEEDED, "name")
_MOST_BYTES = 4 * 2**20
_MOST_ROWS = 20_000
_MOST_RATE = 1e9
_SHOWN = 20
"""Faults of a file that are listed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured deployment."""

    user: float
    """Output tokens a second of a user."""
    gpu: float
    """Output tokens a second of a GPU."""
    name: str = ""


def read_points(path: str | os.PathLike[str]) -> tuple[Measured, ...]:
    """The points of a file, in their order.

    Raises:
        InputError: a file that is not such a table, or rows that are not two positive numbers.
    """
    file = os.fspath(path)
    text = documents.read_text(path, WHAT, _MOST_BYTES)
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise InputError([Problem(file, "", f"is not CSV: {error}", WHAT)]) from None
    numbered = [(number, row) for number, row in enumerate(rows, 1) if any(row)]
    if not numbered:
        raise InputError([Problem(file, "", "has no rows", WHAT)])
    heads = [head.strip() for head in numbered[0][1]]
    _check(heads, file)
    body = numbered[1:]
    if not 1 <= len(body) <= _MOST_ROWS:
        said = f"{len(body):,} rows of points"
        raise InputError([Problem(file, "", said, f"1 to {_MOST_ROWS:,}")])
    found, problems = list[Measured](), list[Problem]()
    for number, row in body:
        made = _point(heads, row, f"line {number}", file)
        if isinstance(made, Measured):
            found.append(made)
        else:
            problems.append(made)
    if problems:
        raise InputError(problems[:_SHOWN])
    return tuple(found)


def _check(heads: Sequence[str], file: str) -> None:
    problems = [
        Problem(file, "line 1", f"has no column {name!r}", ", ".join(_KNOWN))
        for name in NEEDED
        if name not in heads
    ]
    problems += [
        Problem(file, "line 1", f"unknown column {head[:80]!r}", ", ".join(_KNOWN))
        for head in heads
        if head not in _KNOWN
    ][:_SHOWN]
    twice = sorted({head for head in heads if heads.count(head) > 1 and head in _KNOWN})
    problems += [Problem(file, "line 1", f"{head} is given twice", "once") for head in twice]
    if problems:
        raise InputError(problems)


def _point(heads: Sequence[str], row: Sequence[str], place: str, file: str) -> Measured | Problem:
    if len(row) != len(heads):
        return Problem(file, place, f"{len(row)} values for {len(heads)} columns", "one for each")
    cells = dict(zip(heads, row, strict=True))
    rates = []
    for name in NEEDED:
        try:
            value = float(cells[name])
        except ValueError:
            value = math.nan
        if not 0 < value <= _MOST_RATE:
            said = f"invalid rate: {cells[name][:80]!r}"
            return Problem(file, f"{place}: {name}", said, f"above 0, up to {_MOST_RATE:g}")
        rates.append(value)
    user, gpu = rates
    return Measured(user, gpu, cells.get("name", "").strip()[:200])
