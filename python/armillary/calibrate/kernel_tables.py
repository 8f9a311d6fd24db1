"""Measured kernels: tables of matrix multiplications and of memory bandwidth, recognized by
content.

Matrix multiplications are what `armillary platform import-gemm` reads (`platform/gemm_table.py`).
Memory bandwidth is a CSV or JSON list with a column `op` (or `function`) and a rate (`GBps`,
`GB/s`, `TBps`, `max_mbytes_per_sec`, ...) or a time (`us`, `ms`), and the `bytes` that the kernel
moves if they are known; or what BabelStream prints. Without sizes, arrays are BabelStream's own
2^25 numbers of 8 bytes, copy, mul and dot move two of them, add and triad three. Source:
UoB-HPC/BabelStream, README.md and src/main.cpp (operations, columns, MBytes of 10^6 bytes)."""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from .. import documents
from ..errors import InputError, Problem
from ..platform.gemm_table import Shape, read_gemm_table
from ..units import GB, MB, PS_PER_US, TB, US_PER_MS, US_PER_NS, US_PER_S

ARRAYS = {
    "read": 1,
    "write": 1,
    "copy": 2,
    "mul": 2,
    "scale": 2,
    "dot": 2,
    "add": 3,
    "triad": 3,
    "nstream": 4,
}
"""Arrays that an operation reads and writes."""
ARRAY = 8 * 2**25
"""Bytes of an array of BabelStream (its default)."""
_SHORTEST, _LONGEST = 1e-3, 1e12
"""A kernel takes longer than a clock cycle, and less than eleven days, us."""
RATES = {"tb": TB, "gb": GB, "mb": MB, "tib": 2**40, "gib": 2**30, "mib": 2**20}
TIMES = {"us": 1.0, "ms": US_PER_MS, "ns": US_PER_NS, "s": US_PER_S}
"""Microseconds."""

_RATE = re.compile(r"(?:max_|avg_)?(?P<unit>[tgm]i?b)(?:ytes)?(?:_per_sec|ps|/s|/sec|_s)")
_TIME = re.compile(r"(?:time_|min_|avg_)?(?P<unit>us|ms|ns|s)")
_PRINTED = re.compile(r"^\s*Function\s+(?P<unit>[MG]i?)Bytes/sec", re.MULTILINE)
_LINE = re.compile(r"^\s*(?P<op>[A-Za-z]\w*)\s+(?P<rate>\d[\d.]*(?:e[+-]?\d+)?)\s+\d", re.MULTILINE)
_ARRAY = re.compile(r"^\s*Array size:\s*(?P<size>[\d.]+)\s*(?P<unit>[KMG]i?)B", re.MULTILINE)
_SIZES = {"K": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One measured kernel: a matrix multiplication by its shape, or a stream over memory by its
    bytes."""

    file: str
    what: str
    shape: Shape | None
    bytes: int
    """Moved by a stream; 0 for a multiplication, where they follow from the shape."""
    measured_us: float
    kind: str = "elementwise"
    """Kind of kernel whose efficiency a stream determines."""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Content of a file."""

    file: str
    kernels: tuple[Kernel, ...]
    skipped: int
    """Rows of another kind."""


def read_kernels(path: str) -> KernelTable | None:
    """The kernels of a file; `None` where it holds no table of kernels. Raises `InputError` naming
    every bad row."""
    text = documents.read_bytes(path, "a log or a table").decode("utf-8-sig", "replace")
    if printed := _PRINTED.search(text):
        return KernelTable(path, tuple(_printed(path, text, printed)), 0)
    rows = list(_rows(text))
    multiplied = [row for _, row in rows if all(row.get(side) for side in ("m", "n", "k"))]
    streamed = [(place, row) for place, row in rows if _operation(row) and not row.get("m")]
    if not multiplied and not streamed:
        return None
    shapes = _multiplications(path) if multiplied else ()
    streams = _streams(path, streamed)
    return KernelTable(path, (*shapes, *streams), len(rows) - len(multiplied) - len(streams))


def _rows(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a JSON list or a CSV table with their places, columns in lower case; none where it is
    neither."""
    if text.lstrip()[:1] in ("[", "{"):
        yield from _json_rows(text)
        return
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and line[0] != "#"
    ]
    if not lines or "," not in lines[0][1]:
        return
    reader = csv.DictReader(StringIO("\n".join(line for _, line in lines)), skipinitialspace=True)
    with contextlib.suppress(csv.Error):  # from there on it is none
        for (number, _), row in zip(lines[1:], reader, strict=False):
            yield f"line {number}", {str(key).strip().lower(): value for key, value in row.items()}


def _json_rows(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        data = documents.parse_json(text, "", "", finite=False)
    except InputError:
        return
    lists = {"": data} if isinstance(data, list) else data
    for key, value in lists.items():
        for at, row in enumerate(value) if isinstance(value, list) else ():
            if isinstance(row, dict):
                yield (
                    f"{key}[{at}]",
                    {str(name).strip().lower(): each for name, each in row.items()},
                )


def _multiplications(path: str) -> Iterator[Kernel]:
    for shape, ps in read_gemm_table(path).times:
        batch, m, n, k, width = shape
        what = f"{m} x {n} x {k}{f', {batch} times' if batch > 1 else ''}, {8 * width} bits"
        yield Kernel(path, what, shape, 0, ps / PS_PER_US)


def _operation(row: Mapping[str, Any]) -> str:
    """The operation of a row about memory; empty for rows of another kind."""
    name = str(row.get("op") or row.get("function") or "").strip().lower()
    return name if name in ARRAYS or (row.get("bytes") and _column(row)) else ""


def _column(row: Mapping[str, Any]) -> tuple[str, re.Match[str]] | None:
    """The column with the rate or the time."""
    filled = [key for key, value in row.items() if value not in (None, "")]
    found = [
        (key, match)
        for pattern in (_RATE, _TIME)
        for key in filled
        if (match := pattern.fullmatch(key))
    ]
    return found[0] if found else None


def _streams(path: str, rows: list[tuple[str, dict[str, Any]]]) -> list[Kernel]:
    found: list[Kernel] = []
    problems: list[Problem] = []
    for place, row in rows:
        try:
            found.append(_stream(path, row))
        except ValueError as error:
            problems.append(
                Problem(
                    path,
                    place,
                    str(error),
                    "op, GBps or us above zero, and bytes if they are known",
                )
            )
    if problems:
        raise InputError(problems)
    return found


def _stream(path: str, row: Mapping[str, Any]) -> Kernel:
    op, column = _operation(row), _column(row)
    if column is None:
        raise ValueError(f"{op} has neither a rate nor a time")
    value = _number(row[column[0]], column[0])
    moved = _moved(op, row)
    unit = column[1]["unit"]
    time = moved / (value * RATES[unit]) * US_PER_S if unit in RATES else value * TIMES[unit]
    if not _SHORTEST < time < _LONGEST:
        raise ValueError(
            f'{column[0]} "{row[column[0]]}" makes {op} of {moved:.3g} bytes take {time:.3g} us'
        )
    return Kernel(path, op, None, round(moved), time)


def _moved(op: str, row: Mapping[str, Any]) -> float:
    """Bytes that an operation moves: as the row says, by its arrays, or by BabelStream's."""
    if row.get("bytes"):
        return _number(row["bytes"], "bytes")
    if row.get("n_elements") and row.get("sizeof"):
        return (
            ARRAYS[op] * _number(row["n_elements"], "n_elements") * _number(row["sizeof"], "sizeof")
        )
    return ARRAYS[op] * ARRAY


def _number(value: object, column: str) -> float:
    try:
        number = float(str(value))
    except (TypeError, ValueError):
        raise ValueError(f'{column} "{value}" is not a number') from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f'{column} "{value}" is not above zero')
    return number


def _printed(path: str, text: str, head: re.Match[str]) -> Iterator[Kernel]:
    """The table that BabelStream prints; its rate is that of the fastest run."""
    size = _ARRAY.search(text)
    array = float(size["size"]) * _SIZES[size["unit"]] if size else ARRAY
    for line in _LINE.finditer(text, head.end()):
        op, rate = line["op"].lower(), float(line["rate"]) * _SIZES[head["unit"]]
        moved = ARRAYS.get(op, 0) * array
        if rate > 0 and _SHORTEST < (time := moved / rate * US_PER_S) < _LONGEST:
            yield Kernel(path, op, None, round(moved), time)
