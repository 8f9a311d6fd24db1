"""Patterns of traffic as users name them: a name, `hotspot:NPUS:SHARE`, or a file of flows."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .. import _core, documents
from ..errors import InputError, Problem

NAMED = dict(_core.Traffic.patterns())
"""Patterns without parameters, and what each is."""
_HOT = re.compile(r"hotspot:([0-9,]+):([0-9.]+)(%?)")
_ALLOWED = (
    ", ".join(NAMED) + ", hotspot:NPUS:SHARE such as hotspot:0,7:10%, or a file .csv of "
    "source,destination or source,destination,weight"
)
_MOST_NPU = 2**32 - 1


@dataclass(frozen=True)
class Pattern:
    """Sources and destinations of messages."""

    name: str
    """Name of the pattern as the user gave it."""
    kind: str
    """A pattern of the core: one of `NAMED`, `hotspot` or `flows`."""
    hot: tuple[int, ...] = ()
    """NPUs that get more."""
    share: float = 0.0
    """Share of the messages that they get."""
    flows: tuple[tuple[int, int, float], ...] = ()
    """Source, destination and weight of each flow."""

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """The pattern that `text` names. Raises `InputError` with the known ones."""
        name = text.strip()
        if name.replace("_", "-") in NAMED:
            return cls(name.replace("_", "-"), name.replace("_", "-"))
        if name.startswith("hotspot"):
            return _hotspot(name)
        if name.endswith(".csv"):
            return cls(name, "flows", flows=_flows(name))
        raise InputError([Problem("", "--pattern", f'unknown pattern "{name}"', _ALLOWED)])


def _hotspot(text: str) -> Pattern:
    found = _HOT.fullmatch(text)
    npus = [part for part in (found[1] if found else "").split(",") if part]
    share = float(found[2]) / (100 if found[3] else 1) if found and _is_number(found[2]) else -1.0
    if not npus or not 0 <= share <= 1 or any(int(npu) > _MOST_NPU for npu in npus):
        allowed = "hotspot:NPUS:SHARE, with a share from 0 to 1 or in %, such as hotspot:0,7:10%"
        raise InputError([Problem("", "--pattern", f'invalid hotspot: "{text}"', allowed)])
    return Pattern(text, "hotspot", hot=tuple(int(npu) for npu in npus), share=share)


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text))


def _flows(file: str) -> tuple[tuple[int, int, float], ...]:
    """The flows of a CSV file, with or without a head. Raises `InputError` naming each bad line."""
    allowed = "source,destination or source,destination,weight: two NPUs and a number above 0"
    try:
        text = documents.read_bytes(file, allowed).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError([Problem(file, "", "is not text in UTF-8", allowed)]) from None
    found, problems = [], []
    for number, row in _rows(text, file, allowed):
        cells = [cell.strip() for cell in row]
        is_blank = not any(cells) or cells[0].startswith("#")
        if is_blank or (number == 1 and cells[0].isalpha()):
            continue
        flow = _flow(cells)
        if flow is None:
            shown = ",".join(cells)[:80]
            problems.append(Problem(file, f"line {number}", f'invalid flow: "{shown}"', allowed))
        else:
            found.append(flow)
    if not found and not problems:
        problems.append(Problem(file, "", "holds no flows", allowed))
    if problems:
        raise InputError(problems)
    return tuple(found)


def _rows(text: str, file: str, allowed: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of CSV with their numbers. Raises `InputError` at the first that is not CSV."""
    reader = csv.reader(io.StringIO(text))
    try:
        yield from enumerate(reader, 1)
    except csv.Error as error:
        place = f"line {reader.line_num}"
        raise InputError([Problem(file, place, f"is not CSV: {error}", allowed)]) from None


def _flow(cells: list[str]) -> tuple[int, int, float] | None:
    if len(cells) not in (2, 3) or not all(re.fullmatch(r"\d{1,10}", cell) for cell in cells[:2]):
        return None
    try:
        weight = float(cells[2]) if len(cells) == 3 else 1.0
    except ValueError:
        return None
    src, dst = int(cells[0]), int(cells[1])
    is_right = math.isfinite(weight) and weight > 0 and max(src, dst) <= _MOST_NPU
    return (src, dst, weight) if is_right else None
