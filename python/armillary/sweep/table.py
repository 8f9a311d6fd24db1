"""The table of a sweep: one row a point, in the order of points, whatever order they ended in.

Columns: `index`, the parameters by name (texts keep their units), the results (`columns.py`),
`impossible` (the point can't exist), `error`. Bytes and FLOPs are decimals of 38 digits without a
fraction: steps of frontier models exceed 64 bits, and Parquet and Arrow have no wider integers. The
same study gives the same bytes, as Parquet and as CSV."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import documents
from ..errors import InputError, Problem
from . import parquet
from .columns import DIGITS, Kind, dimensions, kinds
from .frame import Column, Frame
from .frame import Kind as Stored

if TYPE_CHECKING:
    from .runner import Finished

_LARGEST = 2**63
_MOST = 2**32
"""Bytes of a file."""
_KINDS: dict[Kind, Stored] = {
    "number": "number",
    "count": "whole",
    "size": "size",
    "answer": "text",
    "text": "text",
}
_FLOAT = 10**308
NAME = "table.parquet"
ABOUT = "armillary.sweep"
"""Key of the metadata."""


def table(columns: Sequence[str], finished: Collection[Finished]) -> Frame:
    """The table of what is finished; what a point has no value for is `None`."""
    rows = sorted(finished, key=lambda each: each.index)
    found = {"index": Column("whole", [each.index for each in rows])}
    for place, name in enumerate(columns):
        found[name] = _parameter([each.values[place] for each in rows])
    most = max((dimensions(each.results) for each in rows), default=0)
    for name, kind in kinds(most).items():
        found[name] = Column(_KINDS[kind], [each.results.get(name) for each in rows])
    found["impossible"] = Column("flag", [each.impossible for each in rows])
    found["error"] = Column("text", [each.error for each in rows])
    return Frame(found)


def _parameter(values: list[Any]) -> Column:
    """Whole numbers, numbers, flags or texts; anything mixed as JSON text."""
    types = {type(value) for value in values}
    if types <= {bool}:
        return Column("flag", values)
    if types <= {int} and all(-_LARGEST <= value < _LARGEST for value in values):
        return Column("whole", values)
    if types <= {int} and all(abs(value) < 10**DIGITS for value in values):
        return Column("size", values)
    if types <= {int, float} and all(abs(value) < _FLOAT for value in values):
        return Column("number", [float(value) for value in values])
    if types <= {str}:
        return Column("text", values)
    return Column("text", [each if isinstance(each, str) else json.dumps(each) for each in values])


def content(frame: Frame, about: Mapping[str, Any]) -> bytes:
    """The table as a Parquet file, with what there is to say about it in its metadata."""
    return parquet.content(frame, {ABOUT: json.dumps(about)})


class _About(msgspec.Struct):
    """Remarks that belong to a table."""

    name: str
    refused: int
    objectives: list[tuple[str, bool]]
    orders: dict[str, list[str]] = msgspec.field(default_factory=dict)
    subject: str = ""


def read(path: Path) -> tuple[Frame, dict[str, Any]]:
    """The table in a file and what is said about it. Raises `InputError` for what is not a table of
    a sweep."""
    try:
        with documents.open_plain(path) as stream:
            frame, texts = parquet.read(documents.read_stream(stream, _MOST))
        about = json.loads(texts[ABOUT])
        msgspec.convert(about, _About)
        if not {"index", "error"} <= set(frame.columns):
            raise KeyError("index")
    except (OSError, KeyError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise _no_table(
            path, getattr(error, "strerror", None) or "is not a table of a sweep"
        ) from None
    return frame, about


def _no_table(path: Path, said: str) -> InputError:
    allowed = "the directory of a sweep that has ended (-o), or its table.parquet; one of an older "
    allowed += "release is written anew by armillary sweep --resume"
    return InputError([Problem(str(path), "", said, allowed)])
