"""Operators that FlexFlow's simulator measured, by the parts that they are divided into.

A split such as `2-1-432` has the number of dimensions, then the parts along each one. The last
dimension is the samples: 55,296 samples in 432 parts are 128 for each. Times are milliseconds, as
those of its task graphs (`flexflow.py`), and memory is in bytes: Dense_2048_2048 with 128 samples
has 4 x 2 x 2048 x 2049 bytes of parameters with gradients and 16 x 128 x 2048 of activations, which
are the 37,765,120 that its file states.

Here: the file, checked. Not here: how it is shown (`explain/flexflow_tables.py`). The table has no
order of operators, so it makes no workload. Its writer's source is not public; keys are those of
the measures in hipersys-team/FlexFlow at b152683."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import documents
from ...errors import InputError, Problem

ALLOWED = "a table of operators that FlexFlow measured: batch_size, ngpus, measurements"
_SPLIT = re.compile(r"[0-9]{1,2}(?:-[0-9]{1,9}){1,16}")
_MOST = 2**20
_LONGEST_MS = 86_400_000.0
_KEYS = ("batch_size", "ngpus", "measurements")
_ROW = ("name", "pc_str", "fw_time", "bw_time", "mem_req")


@dataclass(frozen=True, slots=True)
class MeasuredOperator:
    """An operator in a number of parts: times of one part in ms, its memory in bytes."""

    name: str
    dims: tuple[int, ...]
    forward_ms: float
    backward_ms: float
    memory_bytes: int

    @property
    def parts(self) -> int:
        """Number of parts."""
        return math.prod(self.dims)


@dataclass(frozen=True)
class MeasuredOperators:
    """Rows in the order of the file; `batch` samples on up to `gpus` GPUs."""

    batch: int
    gpus: int
    rows: tuple[MeasuredOperator, ...]

    def splits(self) -> int:
        """The numbers of parts that divide the GPUs."""
        return sum(self.gpus % each == 0 for each in range(1, self.gpus + 1))


def read(name: str, data: bytes) -> MeasuredOperators:
    """The table in a file. Raises `InputError`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(name, f"byte {error.start}", "is not UTF-8 text") from None
    value = documents.parse_json(text, name, ALLOWED)
    if not isinstance(value, dict):
        raise _refused(name, "", "is not a mapping")
    _check_keys(name, "", value, _KEYS)
    rows = value["measurements"]
    if not isinstance(rows, list) or not rows:
        raise _refused(name, "measurements", "is not a list with rows")
    batch, gpus = (_count(name, key, value[key]) for key in _KEYS[:2])
    found = tuple(_row(name, f"measurements[{at}]", row, gpus) for at, row in enumerate(rows))
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for at, row in enumerate(found):
        if (row.name, row.dims) in seen:
            said = f"has {row.name[:60]} in {'-'.join(map(str, row.dims))} parts once more"
            raise _refused(name, f"measurements[{at}]", said)
        seen.add((row.name, row.dims))
    return MeasuredOperators(batch, gpus, found)


def _row(name: str, where: str, row: object, gpus: int) -> MeasuredOperator:
    if not isinstance(row, dict):
        raise _refused(name, where, "is not a mapping")
    _check_keys(name, where, row, _ROW)
    title, split = row["name"], row["pc_str"]
    if not isinstance(title, str) or not 0 < len(title) <= 1000:
        raise _refused(name, f"{where}.name", "is not a name")
    if not isinstance(split, str) or not _SPLIT.fullmatch(split):
        raise _refused(name, f"{where}.pc_str", f"is not a split: {str(split)[:40]!r}")
    count, *dims = map(int, split.split("-"))
    if count != len(dims):
        said = f"{split} says {count} dimensions and has {len(dims)}"
        raise _refused(name, f"{where}.pc_str", said)
    if not all(dims) or math.prod(dims) > gpus:
        raise _refused(name, f"{where}.pc_str", f"{split} has more parts than GPUs, or none")
    forward, backward = (_time(name, f"{where}.{key}", row[key]) for key in _ROW[2:4])
    memory = _count(name, f"{where}.mem_req", row["mem_req"], 0, 2**60)
    return MeasuredOperator(title, tuple(dims), forward, backward, memory)


def _check_keys(name: str, where: str, value: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    wrong = [key for key in keys if key not in value] + [key for key in value if key not in keys]
    if wrong:
        said = "is unknown" if wrong[0] in value else "is missing"
        raise _refused(name, f"{where}.{wrong[0][:60]}".lstrip("."), said)


def _count(name: str, where: str, value: object, least: int = 1, most: int = _MOST) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _refused(name, where, f"invalid number: {str(value)[:40]}")
    return value


def _time(name: str, where: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LONGEST_MS:  # type: ignore[operator]
        raise _refused(name, where, f"invalid time in ms: {str(value)[:40]}")
    return float(value)  # type: ignore[arg-type]


def _refused(name: str, where: str, said: str) -> InputError:
    return InputError([Problem(name, where, said, ALLOWED)])
