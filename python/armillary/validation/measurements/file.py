"""Files of published measurements.

A file has up to four lists of rows: `collectives`, `training`, `mlperf` and `compute`. Every row
has an `id` (rows of `compute` may lack it) and a `source`. Here: reading a file and the checks that
hold for all rows. Not here: what rows mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError, Problem

Row = Mapping[str, Any]
"""A measurement as its file has it."""

KINDS = ("collectives", "training", "mlperf", "compute")
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "collectives": ("id", "op", "hardware", "points"),
    "training": ("id", "group", "model", "hardware", "metric"),
    "mlperf": ("id", "benchmark", "accelerator"),
    "compute": ("kind",),
}
_MOST = 20
"""Problems of a file that are listed."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """The rows of a file by kind, in their order."""

    collectives: tuple[Row, ...] = ()
    training: tuple[Row, ...] = ()
    mlperf: tuple[Row, ...] = ()
    compute: tuple[Row, ...] = ()


def read(path: str) -> Measurements:
    """The rows of a file. Raises `InputError` if it can't be read, or a row lacks what all rows of
    its kind have."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError([Problem(path, "", error.strerror or str(error))]) from None
    except ValueError as error:
        raise InputError([Problem(path, "", f"is not JSON: {error}")]) from None
    if not isinstance(found, dict) or not any(kind in found for kind in KINDS):
        allowed = f"an object with one of {', '.join(KINDS)}"
        raise InputError([Problem(path, "", "has no measurements", allowed)])
    problems = [each for kind in KINDS for each in _problems(path, kind, found.get(kind, []))]
    if problems:
        raise InputError(problems[:_MOST])
    return Measurements(**{kind: tuple(found.get(kind, ())) for kind in KINDS})


def _problems(path: str, kind: str, rows: object) -> Iterator[Problem]:
    if not isinstance(rows, list):
        yield Problem(path, kind, f"is {type(rows).__name__}", "a list of objects")
        return
    for index, row in enumerate(rows):
        place = f"{kind}[{index}]"
        if not isinstance(row, dict):
            yield Problem(path, place, f"is {type(row).__name__}", "an object")
            continue
        for key in _REQUIRED[kind]:
            if key not in row:
                yield Problem(path, place, f"has no {key!r}", ", ".join(_REQUIRED[kind]))
        for key in ("hardware", "model", "metric"):
            if key in _REQUIRED[kind] and not isinstance(row.get(key, {}), dict):
                yield Problem(path, f"{place}.{key}", "is not an object", "an object")
        if kind == "collectives":
            yield from _points(path, place, row.get("points", []))


def _points(path: str, place: str, points: object) -> Iterator[Problem]:
    if not isinstance(points, list) or not all(isinstance(each, dict) for each in points):
        yield Problem(path, f"{place}.points", "is not a list of objects", "objects with `bytes`")


def source(row: Row) -> str:
    """Who published a row: a repository, or the number of an indexed page."""
    found = row.get("source") or {}
    if isinstance(found, str):
        return found
    for key in ("repo", "index_id", "url"):
        if found.get(key):
            return str(found[key])
    return "not stated"
