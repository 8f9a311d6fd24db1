"""Files of published measurements.

A file has up to four lists of rows: `collectives`, `training`, `mlperf` and `compute`. Every row
has an `id` (rows of `compute` may lack it) and a `source`. Here: reading a file, and the fields
that rows of a kind have. Not here: what rows mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from armillary.documents import parse_json, read_text
from armillary.errors import ArmillaryError, InputError, Problem

Row = Mapping[str, Any]
"""A measurement as its file has it."""

KINDS = ("collectives", "training", "mlperf", "compute")
_ALLOWED = f"JSON: an object with lists {', '.join(KINDS)}, one of them with rows"
_MOST = 20
"""Problems of a file that are listed."""

_Kinds = tuple[type, ...]
_TEXT: _Kinds = (str,)
_OBJECT: _Kinds = (dict,)
_NUMBER: _Kinds = (int, float)
_WORDS: Mapping[type, str] = {
    str: "text",
    dict: "an object",
    list: "a list",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}

_REQUIRED: Mapping[str, Mapping[str, _Kinds]] = {
    "collectives": {"id": _TEXT, "op": _TEXT, "hardware": _OBJECT, "points": (list,)},
    "training": {
        "id": _TEXT,
        "group": _TEXT,
        "model": _OBJECT,
        "hardware": _OBJECT,
        "parallel": _OBJECT,
        "batch": _OBJECT,
        "metric": _OBJECT,
    },
    "mlperf": {"id": _TEXT, "benchmark": _TEXT, "accelerator": _TEXT},
    "compute": {"kind": _TEXT},
}
_OPTIONAL: Mapping[str, Mapping[str, _Kinds]] = {
    "collectives": {"software": _OBJECT, "source": (dict, str)},
    "training": {"source": (dict, str)},
    "mlperf": {"config": _OBJECT, "tracked_stats_median": _OBJECT, "source": (dict, str)},
    "compute": {},
}
"""Fields that a row may lack, or have as null."""
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "hardware": ("gpus", "nodes", "gpus_per_node", "nics_per_node", "nic_Gbps"),
    "metric": (
        "iter_time_s",
        "iter_time_s_derived",
        "step_time_s",
        "tokens_per_s",
        "tokens_per_s_per_gpu",
        "aggregate_pflops_digitised",
        "gpu_memory_GB",
        "real_alloc_gib",
    ),
    "tracked_stats_median": ("train_step_time", "train_step_timing", "throughput"),
    "points": ("bytes", "ip_us", "oop_us", "ip_algbw", "oop_algbw", "ip_busbw", "oop_busbw"),
}
"""Numbers in objects, or in lists of objects, that are positive where they are given (0: not
measured)."""
_LEAST, _LARGEST = 1e-12, 1e15
"""Between these are all numbers that a measurement can have: a petabyte, 30 years in us."""
_WORDS_IN: Mapping[str, tuple[str, ...]] = {"hardware": ("gpu",)}
"""Texts in objects."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """The rows of a file by kind, in their order."""

    collectives: tuple[Row, ...] = ()
    training: tuple[Row, ...] = ()
    mlperf: tuple[Row, ...] = ()
    compute: tuple[Row, ...] = ()


def read(path: str) -> Measurements:
    """The rows of a file. Raises `InputError` if it can't be read or has no rows, or if a field of
    a row is missing or not what rows of its kind have there."""
    found = parse_json(read_text(path, _ALLOWED), path, _ALLOWED)
    if not isinstance(found, dict):
        raise InputError([Problem(path, "", "has no measurements", _ALLOWED)])
    problems = [each for kind in KINDS for each in _problems(path, kind, found.get(kind, []))]
    if not problems and not any(found.get(kind) for kind in KINDS):
        problems = [Problem(path, "", "has no measurements", _ALLOWED)]
    if problems:
        raise InputError(problems[:_MOST])
    return Measurements(**{kind: tuple(found.get(kind, ())) for kind in KINDS})


def _problems(path: str, kind: str, rows: object) -> Iterator[Problem]:
    if not isinstance(rows, list):
        yield Problem(path, kind, f"is {_WORDS[type(rows)]}", "a list of objects")
        return
    for index, row in enumerate(rows):
        place = f"{kind}[{index}]"
        if not isinstance(row, dict):
            yield Problem(path, place, f"is {_WORDS[type(row)]}", "an object")
            continue
        for key, kinds in _REQUIRED[kind].items():
            if key not in row:
                yield Problem(path, place, f"has no {key!r}", ", ".join(_REQUIRED[kind]))
            else:
                yield from _field(path, f"{place}.{key}", key, row[key], kinds)
        for key, kinds in _OPTIONAL[kind].items():
            if row.get(key) is not None:
                yield from _field(path, f"{place}.{key}", key, row[key], kinds)


def _field(path: str, place: str, key: str, value: object, kinds: _Kinds) -> Iterator[Problem]:
    """Faults of a field, and of the numbers in it."""
    if type(value) not in kinds:
        allowed = " or ".join(_WORDS[kind] for kind in kinds)
        yield Problem(path, place, f"is {_WORDS[type(value)]}", allowed)
        return
    if not isinstance(value, list):
        yield from _numbers(path, place, key, value)
        return
    for index, each in enumerate(value):
        if isinstance(each, dict):
            yield from _numbers(path, f"{place}[{index}]", key, each)
        else:
            yield Problem(path, f"{place}[{index}]", f"is {_WORDS[type(each)]}", "an object")


def _numbers(path: str, place: str, key: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    for name in _NUMBERS.get(key, ()):
        number = value.get(name)
        if number is None or (type(number) in _NUMBER and _can_be(number)):
            continue
        said = f"is {number:g}" if type(number) in _NUMBER else f"is {_WORDS[type(number)]}"
        allowed = f"0, a number from {_LEAST:g} to {_LARGEST:g}, or null"
        yield Problem(path, f"{place}.{name}", said, allowed)
    for name in _WORDS_IN.get(key, ()):
        word = value.get(name)
        if word is not None and not isinstance(word, str):
            yield Problem(path, f"{place}.{name}", f"is {_WORDS[type(word)]}", "text, or null")


def _can_be(number: float) -> bool:
    """Whether a measurement can have a number. NaN is none."""
    return number == 0 or _LEAST <= number <= _LARGEST


def source(row: Row) -> str:
    """Who published a row, as `sweeps.csv` names it: a repository, a thread of one, or an indexed
    page."""
    found = row.get("source") or {}
    if isinstance(found, str):
        return found
    if found.get("repo"):
        return str(found["repo"])
    if found.get("thread"):
        return str(found["thread"]).removeprefix("https://github.com/")
    if found.get("index_id"):
        return f"indexed file {found['index_id']}"
    return str(found.get("url") or "not stated")


def problem(error: ArmillaryError) -> str:
    """The first problem of an error: what it is about, and what is wrong."""
    first = error.problems[0]
    about = first.place.removeprefix("--set ")
    return f"{about}: {first.message}" if about else first.message
