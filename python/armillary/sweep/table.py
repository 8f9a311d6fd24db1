"""The table of a sweep: one row a point, in the order of points, whatever order they ended in.

Columns: `index`, the parameters by name (texts keep their units), the results (`columns.py`),
`impossible` (the point can't exist), `error`. Bytes and FLOPs are decimals of 38 digits without a
fraction: steps of frontier models exceed 64 bits, and Parquet and Arrow have no wider integers. The
same study gives the same bytes, as Parquet and as CSV."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import documents
from ..errors import InputError, Problem
from .columns import DIGITS, Kind, dimensions, kinds

if TYPE_CHECKING:
    import polars as pl

    from .runner import Finished

_LARGEST = 2**63
_FLOAT = 10**308
NAME = "table.parquet"
ABOUT = "armillary.sweep"
"""Key of the metadata."""


def table(columns: Sequence[str], finished: Collection[Finished]) -> pl.DataFrame:
    """The table of what is finished; what a point has no value for is null."""
    import polars as pl

    rows = sorted(finished, key=lambda each: each.index)
    series = [pl.Series("index", [each.index for each in rows], dtype=pl.Int64)]
    series += [
        _parameter(name, [each.values[place] for each in rows])
        for place, name in enumerate(columns)
    ]
    most = max((dimensions(each.results) for each in rows), default=0)
    types: dict[Kind, pl.DataType | type[pl.DataType]] = {
        "number": pl.Float64,
        "count": pl.Int64,
        "size": pl.Decimal(DIGITS, 0),
        "answer": pl.String,
        "text": pl.String,
    }
    series += [
        pl.Series(name, [each.results.get(name) for each in rows], dtype=types[kind])
        for name, kind in kinds(most).items()
    ]
    series.append(pl.Series("impossible", [each.impossible for each in rows], dtype=pl.Boolean))
    series.append(pl.Series("error", [each.error for each in rows], dtype=pl.String))
    return pl.DataFrame(series)


def _parameter(name: str, values: list[Any]) -> pl.Series:
    """Whole numbers, numbers, flags or texts; anything mixed as JSON text."""
    import polars as pl

    types = {type(value) for value in values}
    if types <= {bool}:
        return pl.Series(name, values, dtype=pl.Boolean)
    if types <= {int} and all(-_LARGEST <= value < _LARGEST for value in values):
        return pl.Series(name, values, dtype=pl.Int64)
    if types <= {int} and all(abs(value) < 10**DIGITS for value in values):
        return pl.Series(name, values, dtype=pl.Decimal(DIGITS, 0))
    if types <= {int, float} and all(abs(value) < _FLOAT for value in values):
        return pl.Series(name, [float(value) for value in values], dtype=pl.Float64)
    if types <= {str}:
        return pl.Series(name, values, dtype=pl.String)
    return pl.Series(
        name,
        [each if isinstance(each, str) else json.dumps(each) for each in values],
        dtype=pl.String,
    )


def parquet(frame: pl.DataFrame, about: Mapping[str, Any]) -> bytes:
    """The table as a Parquet file, with what there is to say about it in its metadata."""
    stream = io.BytesIO()
    frame.write_parquet(stream, compression="zstd", metadata={ABOUT: json.dumps(about)})
    return stream.getvalue()


class _About(msgspec.Struct):
    """Remarks that belong to a table."""

    name: str
    refused: int
    objectives: list[tuple[str, bool]]
    orders: dict[str, list[str]] = msgspec.field(default_factory=dict)
    subject: str = ""


def read(path: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The table in a file and what is said about it. Raises `InputError` for what is not a table of
    a sweep."""
    import polars as pl

    try:
        with documents.open_plain(path) as stream:
            about = json.loads(pl.read_parquet_metadata(stream)[ABOUT])
            msgspec.convert(about, _About)
            stream.seek(0)
            frame = pl.read_parquet(stream)
        if not {"index", "error"} <= set(frame.columns):
            raise KeyError("index")
    except (
        pl.exceptions.PanicException
    ):  # of Polars, whose readers take damage for a fault of their own
        raise _no_table(path, "is damaged") from None
    except (
        OSError,
        KeyError,
        ValueError,
        RecursionError,
        msgspec.MsgspecError,
        pl.exceptions.PolarsError,
    ) as error:
        raise _no_table(
            path, getattr(error, "strerror", None) or "is not a table of a sweep"
        ) from None
    return frame, about


def _no_table(path: Path, said: str) -> InputError:
    allowed = "the directory of a sweep that has ended (-o), or its table.parquet"
    return InputError([Problem(str(path), "", said, allowed)])
