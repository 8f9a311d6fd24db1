"""Distributions of the sizes of flows: published ones by name, or a file of your own."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from .. import documents
from ..errors import InputError, Problem

Points = tuple[tuple[int, float], ...]
"""Bytes, and the share of flows that are not larger."""


@dataclass(frozen=True)
class FlowSizes:
    """Sizes of flows."""

    name: str
    """Name as the user gave it."""
    points: Points
    """Between two points the share rises in proportion to the bytes."""
    source: str
    """Where the points are from."""

    @property
    def mean(self) -> float:
        """Mean size, bytes."""
        first, share = self.points[0]
        pairs = zip(self.points, self.points[1:], strict=False)
        return first * share + sum((d - b) * (a + c) / 2 for (a, b), (c, d) in pairs)

    @classmethod
    def parse(cls, text: str) -> FlowSizes:
        """The distribution that `text` names: one of `NAMED`, or a file `.csv`. Raises
        `InputError`."""
        name = text.strip()
        if name in NAMED:
            return NAMED[name]
        if name.endswith(".csv"):
            return cls(PurePath(name).name, _points(name), "a file")
        raise InputError([Problem("", "--sizes", f'unknown distribution "{name}"', _ALLOWED)])


def _named(name: str, source: str, *points: tuple[int, float]) -> FlowSizes:
    return FlowSizes(name, tuple((size, percent / 100) for size, percent in points), source)


NAMED = {
    each.name: each
    for each in (
        _named(
            "web-search",
            "Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010, figure 4, at the points that "
            "the authors of HPCC (SIGCOMM 2019) tabulate",
            *((0, 0), (10_000, 15), (20_000, 20), (30_000, 30), (50_000, 40), (80_000, 53)),
            *((200_000, 60), (1_000_000, 70), (2_000_000, 80), (5_000_000, 90)),
            *((10_000_000, 97), (30_000_000, 100)),
        ),
        _named(
            "hadoop",
            "Roy et al., Inside the Social Network's (Datacenter) Network, SIGCOMM 2015, figure 6, "
            "at the points that the authors of HPCC (SIGCOMM 2019) tabulate",
            *((0, 0), (100, 1), (200, 2), (300, 5), (350, 15), (400, 20), (500, 30), (600, 40)),
            *((700, 50), (1_000, 60), (2_000, 67), (7_000, 70), (30_000, 72), (50_000, 82)),
            *((80_000, 87), (120_000, 90), (300_000, 95), (1_000_000, 97.5), (2_000_000, 99)),
            (10_000_000, 100),
        ),
        _named(
            "storage",
            "production storage of Alibaba in 2019, at the points that the authors of HPCC "
            "(SIGCOMM 2019) tabulate",
            *((0, 0), (4_000, 22.93), (8_000, 69.21), (16_000, 80.61), (32_000, 90.47)),
            *((64_000, 93.53), (128_000, 96.77), (256_000, 97.53), (2_000_000, 100)),
        ),
    )
}
"""Published distributions by name."""
_ALLOWED = ", ".join(NAMED) + ", or a file .csv of bytes,share with shares that rise to 1 or 100%"
_LINE = "bytes,share: a whole number of bytes, and the share of flows that are not larger"
_LARGEST = 2**40


def _points(file: str | os.PathLike[str]) -> Points:
    """The points of a CSV file, with or without a head. Raises `InputError` naming each bad line,
    or what makes the points no distribution."""
    try:
        text = documents.read_bytes(file, _LINE).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError([Problem(str(file), "", "is not text in UTF-8", _LINE)]) from None
    found: list[tuple[int, float]] = []
    problems: list[Problem] = []
    for number, cells in _rows(text, str(file)):
        point = _point(cells)
        place = f"line {number}"
        if point is None:
            shown = ",".join(cells)[:80]
            problems.append(Problem(str(file), place, f'invalid point: "{shown}"', _LINE))
        elif found and (point[0] < found[-1][0] or point[1] < found[-1][1]):
            said = "bytes and shares must not fall from line to line"
            problems.append(Problem(str(file), place, said, _LINE))
        else:
            found.append(point)
    if not problems and (not found or found[-1][1] != 1 or not 0 < found[-1][0] <= _LARGEST):
        said = "the last line has no share of 1" if found else "has no points"
        if found and found[-1][1] == 1:
            said = f"the largest flow has {found[-1][0]:,} bytes"
        problems.append(Problem(str(file), "", said, f"{_LINE}; at most {_LARGEST:,} bytes"))
    if problems:
        raise InputError(problems[:20])
    return tuple(found)


def _rows(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """The rows with points. Raises `InputError` at the first that is not CSV."""
    reader = csv.reader(io.StringIO(text))
    try:
        for number, row in enumerate(reader, 1):
            cells = [cell.strip() for cell in row]
            is_head = number == 1 and bool(cells) and cells[0].isalpha()
            if any(cells) and not cells[0].startswith("#") and not is_head:
                yield number, cells
    except csv.Error as error:
        place = f"line {reader.line_num}"
        raise InputError([Problem(file, place, f"is not CSV: {error}", _LINE)]) from None


def _point(cells: list[str]) -> tuple[int, float] | None:
    if len(cells) != 2 or not re.fullmatch(r"[0-9]{1,13}", cells[0]):
        return None
    number = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)\s*(%?)", cells[1])
    if number is None:
        return None
    share = float(number[1]) / (100 if number[2] else 1)
    return (int(cells[0]), share) if math.isfinite(share) and 0 <= share <= 1 else None
