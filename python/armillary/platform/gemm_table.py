"""Measured matrix multiplications from lists as people publish them, as a table for the compute
model `measured`.

A list is CSV with a header, or JSON: a list of mappings, or a mapping that holds one such list with
`m`, `n` and `k`. Names of columns are taken without regard to case. Per shape, batch x (m x k)(k x
n): `m`, `n`, `k`; `batch` if there is one, else 1; bytes an element from `width` or `dtype`; a time
from a column that names its unit (`us`, `time_ms`, `latency_us_device`) or has it in the value (`18
us`), else a rate from `tflops` or `gflops`, where a multiplication and an addition are two
operations."""

from __future__ import annotations

import csv
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

from .. import documents
from ..errors import InputError, Problem

UNITS = {"s": 10**12, "ms": 10**9, "us": 10**6, "ns": 10**3, "ps": 1}
"""Picoseconds in a unit of time."""
WIDTHS = {
    "fp64": 8, "float64": 8, "double": 8,
    "fp32": 4, "float32": 4, "float": 4, "tf32": 4, "int32": 4,
    "fp16": 2, "float16": 2, "half": 2, "bf16": 2, "bfloat16": 2,
    "fp8": 1, "float8": 1, "int8": 1,
}  # fmt: skip
"""Bytes an element, by its type."""
RATES = {"tflops": 10**12, "gflops": 10**9}
"""Operations a second, by column."""
MOST = 2**32 - 1
_LEAST = 1e-30
_DIGITS = 64
_LONGEST = 10**18
"""Picoseconds of a multiplication at most: 11 days."""

_TIME = re.compile(
    r"(?:.*_)?(?P<unit>s|ms|us|ns|ps|seconds)(?:_(?:derived|device|wallclock|median|mean|avg|min))?"
)
_QUANTITY = re.compile(r"\s*(?P<value>[0-9.eE+-]+)\s*(?P<unit>[a-z]+)\s*")

Shape = tuple[int, int, int, int, int]
"""Batch, m, n, k, bytes an element."""


@dataclass(frozen=True, slots=True)
class GemmTable:
    """Measured shapes, each once, in ascending order."""

    source: str
    """File the list was read from."""
    times: tuple[tuple[Shape, int], ...]
    """Shape and picoseconds; the lower median where a shape was measured several times."""
    measurements: int
    """Rows that went into it."""
    skipped: int
    """Rows that were left out: of another kind, or by `where`."""

    def to_csv(self) -> str:
        """The table as the simulator reads it."""
        head = (
            f"# {self.measurements} measurements of {len(self.times)} shapes from "
            f"{Path(self.source).name}\n"
        )
        rows = (f"{','.join(map(str, shape))},{_microseconds(ps)} us\n" for shape, ps in self.times)
        return head + "batch,m,n,k,width,time\n" + "".join(rows)


def read_gemm_table(
    path: str | os.PathLike[str],
    *,
    where: Mapping[str, str] | None = None,
    width: int | None = None,
    time: str | None = None,
) -> GemmTable:
    """Reads a list of measured matrix multiplications.

    `where` keeps the rows whose columns have these texts, `{"gpu": "A100"}`; `width` is bytes an
    element where the list does not say; `time` names the column of the time where there are
    several. Raises `InputError` naming every row that can't be used."""
    name = os.fspath(path)
    rows = _rows(name)
    kept = [(place, row) for place, row in rows if _wanted(row, where or {})]
    problems = _mixed(name, kept) if kept else [_nothing_left(name, rows, where or {})]
    times: dict[Shape, list[int]] = defaultdict(list)
    for place, row in kept if not problems else []:
        try:
            shape = _shape(row, width)
            times[shape].append(_picoseconds(row, shape, time))
        except _Unusable as fault:
            problems.append(Problem(name, place, fault.message, fault.help))
    if problems:
        raise InputError(problems)
    medians = tuple(
        (shape, sorted(found)[(len(found) - 1) // 2]) for shape, found in sorted(times.items())
    )
    return GemmTable(name, medians, len(kept), len(rows) - len(kept))


class _Unusable(Exception):
    def __init__(self, message: str, help_: str) -> None:
        super().__init__(message)
        self.message, self.help = message, help_


_Rows = list[tuple[str, dict[str, Any]]]
_COLUMNS = "rows with m, n, k, a time or tflops, and width or dtype"


def _rows(name: str) -> _Rows:
    """Every row with its place; names of columns in lower case."""
    text = documents.read_text(name, "a CSV or JSON file")
    rows = _json_rows(name, text) if text.lstrip()[:1] in ("[", "{") else _csv_rows(name, text)
    lower = [
        (place, {str(key).strip().lower(): value for key, value in row.items()})
        for place, row in rows
    ]
    if not any({"m", "n", "k"} <= row.keys() for _, row in lower):
        raise InputError([Problem(name, "", "no row has m, n and k", _COLUMNS)])
    return lower


def _csv_rows(name: str, text: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and line[0] != "#"
    ]
    reader = csv.DictReader(StringIO("\n".join(line for _, line in lines)), skipinitialspace=True)
    try:
        return [
            (f"line {number}", row) for (number, _), row in zip(lines[1:], reader, strict=False)
        ]
    except csv.Error as error:
        raise InputError([Problem(name, "", f"is not CSV: {error}", _COLUMNS)]) from None


def _json_rows(name: str, text: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    data = documents.parse_json(text, name, "valid JSON")
    lists = (
        {"": data} if isinstance(data, list) else {str(key): value for key, value in data.items()}
    )
    for key, value in lists.items():
        rows = (
            [(f"{key}[{i}]", row) for i, row in enumerate(value)] if isinstance(value, list) else []
        )
        if any(
            isinstance(row, dict) and {"m", "n", "k"} <= {str(k).lower() for k in row}
            for _, row in rows
        ):
            return [(place, row) for place, row in rows if isinstance(row, dict)]
    raise InputError([Problem(name, "", "it has no list of rows with m, n and k", _COLUMNS)])


def _wanted(row: Mapping[str, Any], where: Mapping[str, str]) -> bool:
    """A matrix multiplication that `where` keeps. A row without a shape is of another kind when its
    list says kinds."""
    kind = row.get("kind")
    if kind is not None and kind != "gemm":
        return False
    return all(str(row.get(key.lower())) == text for key, text in where.items())


def _mixed(name: str, rows: _Rows) -> list[Problem]:
    """A table is of one NPU."""
    gpus = sorted({str(row["gpu"]) for _, row in rows if "gpu" in row})
    if len(gpus) < 2:
        return []
    return [
        Problem(
            name,
            "",
            f"rows of {len(gpus)} NPUs: {', '.join(gpus)}",
            f'one of them, --where gpu="{gpus[0]}"',
        )
    ]


def _nothing_left(name: str, rows: _Rows, where: Mapping[str, str]) -> Problem:
    texts = ", ".join(f"{key}={text}" for key, text in where.items())
    values = {
        key: sorted({str(row[key.lower()]) for _, row in rows if key.lower() in row})
        for key in where
    }
    help_ = "; ".join(
        f"{key} is {', '.join(found) or 'no column'}" for key, found in values.items()
    )
    return Problem(
        name,
        "",
        f"no matrix multiplication has {texts}" if where else "no row is a matrix multiplication",
        help_,
    )


def _whole(row: Mapping[str, Any], key: str) -> int:
    text = str(row.get(key, "")).strip()
    if not re.fullmatch("[0-9]{1,12}", text) or not 1 <= int(text) <= MOST:
        raise _Unusable(f'{key} "{text[:80]}" is not allowed', f"a whole number from 1 to {MOST}")
    return int(text)


def _shape(row: Mapping[str, Any], width: int | None) -> Shape:
    batch = _whole(row, "batch") if row.get("batch") not in (None, "") else 1
    return batch, _whole(row, "m"), _whole(row, "n"), _whole(row, "k"), _width(row, width)


def _width(row: Mapping[str, Any], width: int | None) -> int:
    if row.get("width") not in (None, ""):
        return _whole(row, "width")
    dtype = row.get("dtype")
    if dtype is None and width is not None:
        return width
    if dtype is None:
        raise _Unusable(
            "neither width nor dtype", "a column width (bytes an element) or dtype, or --width"
        )
    if str(dtype).lower() not in WIDTHS:
        raise _Unusable(f'dtype "{dtype}" is unknown', ", ".join(WIDTHS))
    return WIDTHS[str(dtype).lower()]


def _picoseconds(row: Mapping[str, Any], shape: Shape, time: str | None) -> int:
    """Time of a row, rounded up to the picosecond."""
    column = _time_column(row, time)
    exact = _from_rate(row, shape) if column is None else _span(column, str(row[column]).strip())
    if exact <= 0:
        raise _Unusable("the time is not above zero", "a time or rate above zero")
    if exact > _LONGEST:
        raise _Unusable("the time is longer than 11 days", "the time of one multiplication")
    return -(-exact.numerator // exact.denominator)


def _time_column(row: Mapping[str, Any], time: str | None) -> str | None:
    if time is not None:
        if row.get(time.lower()) in (None, ""):
            raise _Unusable(f'no value in column "{time}"', ", ".join(row))
        return time.lower()
    filled = [key for key, value in row.items() if value not in (None, "")]
    found = [
        key for key in filled if key in ("time", "latency", "duration") or _TIME.fullmatch(key)
    ]
    if len(found) > 1:
        raise _Unusable(
            f"several columns hold times: {', '.join(found)}", f"one of them, --time {found[0]}"
        )
    return found[0] if found else None


def _span(column: str, text: str) -> Fraction:
    """`18 us`, or a number in the unit that the column names; picoseconds."""
    named = _TIME.fullmatch(column)
    if named:
        return _number(text) * UNITS[named["unit"] if named["unit"] in UNITS else "s"]
    split = _QUANTITY.fullmatch(text)
    if not split or split["unit"] not in UNITS:
        raise _Unusable(
            f'{column} "{text}" has no unit',
            f'a number with {", ".join(UNITS)}, or a column such as "time_us"',
        )
    return _number(split["value"]) * UNITS[split["unit"]]


def _from_rate(row: Mapping[str, Any], shape: Shape) -> Fraction:
    batch, m, n, k, _ = shape
    for column, unit in RATES.items():
        if row.get(column) not in (None, ""):
            rate = _number(str(row[column])) * unit
            return Fraction(2 * batch * m * n * k * UNITS["s"]) / rate if rate > 0 else Fraction(0)
    raise _Unusable("neither a time nor a rate", "a column such as us, time_ms or tflops")


def _number(text: str) -> Fraction:
    try:
        if abs(float(text)) < _LEAST:
            return Fraction(0)
        # An exponent of a million would be written out, digit by digit.
        return (
            Fraction(text)
            if len(text) <= _DIGITS and abs(float(text)) <= 1 / _LEAST
            else _refuse(text)
        )
    except (ValueError, ZeroDivisionError, OverflowError):
        return _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise _Unusable(
        f'"{text[:80]}" is not a number',
        f"a number of at most {_DIGITS} digits, up to {1 / _LEAST:g}",
    )


def _microseconds(ps: int) -> str:
    whole, rest = divmod(ps, 10**6)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".")
