"""Tables of measured kernels: CSV, plain or compressed by gzip."""

from __future__ import annotations

import csv
import io
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...documents import read_bytes
from ...errors import InputError, Problem
from ..shapes import Shape

Row = Mapping[str, str]
"""A row as its table has it."""

_ALLOWED = "a table of measured kernels: CSV, plain or as .gz, with a line of column names"
_MOST = 256 * 2**20
"""Bytes of a table without its compression."""
_LEAST_US, _LARGEST_US = 1e-3, 1e9


@dataclass(frozen=True, slots=True)
class Left:
    """Why a row is left out."""

    reason: str


@dataclass(frozen=True, slots=True)
class System:
    """A GPU that tables name: its preset, and its generation."""

    preset: str
    generation: str


SYSTEMS = {
    "a100": System("dgx-a100-80gb", "ampere"),
    "h100": System("dgx-h100-16n", "hopper"),
    "h200": System("hgx-h200-16n", "hopper"),
    "b200": System("dgx-b200-16n", "blackwell"),
    "gb200": System("gb200-nvl72-8r", "blackwell"),
    "b300": System("dgx-b300", "blackwell"),
    "gb300": System("gb300-nvl72", "blackwell"),
    "rtx_pro_6000": System("rtx-pro-6000-8", "ada"),
    "l40s": System("l40s-8", "ada"),
}
"""GPUs by the names of tables."""


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of table: columns by which it is known, the shape that a row states (a `ValueError` is
    a reason to leave the row out), the column of the time, its unit in us, and a column with more
    of the time. A row may have columns of several kinds of table, and is a kernel of each."""

    name: str
    columns: tuple[str, ...]
    shape_of: Callable[[Row], Shape | Left]
    time: str = "latency_us"
    us: float = 1.0
    more: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured kernel. `software` is its engine, or else its library, with the
    version, `us` its time."""

    table: str
    system: str
    software: str
    shape: Shape
    us: float


Named = Callable[[str], str | None]
"""The GPU that the text of a table names; `None` for one whose rows are left out."""


def read(
    path: str | Path, tables: tuple[Table, ...], named: Named | None = None, system: str = ""
) -> Iterator[Measured | Left]:
    """The rows of a table in their order, each a measured kernel or why it is left out. `named`
    says which GPU a text names, by default one of `SYSTEMS`. `system` stands where a table has no
    such column.

    Raises:
        InputError: no such table, or a row without a time.
    """
    return parse(str(path), read_bytes(path, _ALLOWED), tables, named, system)


def parse(
    name: str,
    content: bytes,
    tables: tuple[Table, ...],
    named: Named | None = None,
    system: str = "",
) -> Iterator[Measured | Left]:
    """The rows of the table with this content, as `read` has them; `name` is for problems."""
    lines = csv.DictReader(io.StringIO(_text(name, content)), strict=True)
    try:
        columns = frozenset(lines.fieldnames or ())
        found = [each for each in tables if columns.issuperset(each.columns)]
        if not found:
            raise _problem(name, "", "is no table of measured kernels")
        for row in lines:
            for table in found:
                yield _row(name, lines.line_num, table, {"system": system, **row}, named or known)
    except csv.Error as error:
        raise _problem(name, f"line {lines.line_num}", str(error)) from None


def _row(name: str, line: int, table: Table, row: dict[str, str], named: Named) -> Measured | Left:
    place = f"line {line}"
    if None in row or None in row.values():
        raise _problem(name, place, "has another number of columns than the first line")
    columns = [table.time, table.more] if table.more else [table.time]
    us = table.us * sum(_number(name, place, row, column) for column in columns)
    if not (math.isfinite(us) and _LEAST_US <= us <= _LARGEST_US):
        raise _problem(name, place, f"{table.time} is {row[table.time]}")
    system = named(row["system"])
    if system is None:
        return Left(f"no preset for {row['system'] or 'a GPU that is not stated'}")
    try:
        shape = table.shape_of(row)
    except ValueError as error:
        return Left(str(error))
    if isinstance(shape, Left):
        return shape
    named_by = engine(row) or row.get("kernel_source")
    software = " ".join(filter(None, (named_by, row.get("ver"))))
    return Measured(table.name, system, software, shape, us)


def _number(name: str, place: str, row: Row, column: str) -> float:
    try:
        return float(row[column])
    except (KeyError, ValueError):
        raise _problem(name, place, f"{column} is not a number") from None


def known(text: str) -> str | None:
    """The GPU of `SYSTEMS` that a table names: `h100`, `h100_sxm`, `RTX PRO 6000`."""
    words = plain(text)
    found = [name for name in SYSTEMS if re.match(rf"(nvidia_)?{name}(_|$)", words)]
    return found[0] if found else None


def plain(text: str) -> str:
    """A name in lower case, with one `_` for everything else."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _text(name: str, content: bytes) -> str:
    if content.startswith(b"\x1f\x8b"):
        try:
            unpacked = zlib.decompressobj(wbits=31).decompress(content, _MOST + 1)
        except zlib.error as error:
            raise _problem(name, "", str(error)) from None
        if len(unpacked) > _MOST:
            raise _problem(name, "", f"unpacks to more than {_MOST >> 20} MiB")
        content = unpacked
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _problem(name, "", "is not UTF-8") from None


def _problem(name: str, place: str, message: str) -> InputError:
    return InputError([Problem(name, place, message, _ALLOWED)])


def engine(row: Row) -> str:
    """The engine of a row, in either of the columns that tables have for it."""
    return row.get("backend", row.get("backend_", ""))


def count(row: Row, column: str) -> int:
    """A whole number of a row.

    Raises:
        ValueError: it is none, or negative.
    """
    text = row.get(column, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{column} is {text!r}")
    return int(text)
