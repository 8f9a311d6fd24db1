"""Tables by columns: what sweeps count, rank and write. Not here: the table of a sweep
(`table.py`), files (`parquet.py`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from .. import polars_extra
from .columns import DIGITS

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["flag", "whole", "size", "number", "text"]
"""Values of a column: `bool`; `int` of 64 bits; `int` of `DIGITS` digits; `float`; `str`."""
_SHOWN = 10
"""Rows of the table in a notebook."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one kind; `None` where a row has none."""

    kind: Kind
    values: Sequence[Any]


@dataclass(frozen=True)
class Frame:
    """A table: columns by name, all of one length."""

    data: Mapping[str, Column]

    def __getitem__(self, name: str) -> Sequence[Any]:
        """The values of a column."""
        return self.data[name].values

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.data)

    @cached_property
    def height(self) -> int:
        """Number of rows."""
        return len(next(iter(self.data.values())).values) if self.data else 0

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers."""
        return self.data[name].kind in ("whole", "size", "number")

    def is_whole(self, name: str) -> bool:
        """Whether every row has a value in a column."""
        return None not in self[name]

    def varies(self, name: str) -> bool:
        """Whether a column has several values."""
        return len(set(self[name])) > 1

    def row(self, at: int) -> Row:
        """One row by the names of its columns."""
        return {name: column.values[at] for name, column in self.data.items()}

    def rows(self, names: Iterable[str] | None = None) -> list[Row]:
        """The rows with the columns `names`, or with all."""
        kept = self.columns if names is None else list(names)
        columns = [self[name] for name in kept]
        return [dict(zip(kept, row, strict=True)) for row in zip(*columns, strict=True)]

    def where(self, wanted: Iterable[bool]) -> Frame:
        """The rows that are wanted."""
        return self.take([at for at, each in enumerate(wanted) if each])

    def take(self, rows: Sequence[int] | range) -> Frame:
        """The rows of these numbers, in this order."""
        return Frame(
            {
                name: Column(column.kind, [column.values[row] for row in rows])
                for name, column in self.data.items()
            }
        )

    def ordered(self, name: str, more: bool) -> Frame:
        """The rows by a column of numbers, the largest first if `more`; equals by `index`."""
        sign = -1 if more else 1
        keys = [
            (sign * value, index) for value, index in zip(self[name], self["index"], strict=True)
        ]
        return self.take(sorted(range(self.height), key=keys.__getitem__))

    def to_csv(self) -> str:
        """The table as CSV with a head line; nothing where a row has no value."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        columns = [_cells(column) for column in self.data.values()]
        writer.writerows(zip(*columns, strict=True))
        return text.getvalue()

    def to_polars(self) -> pl.DataFrame:
        """The table as a DataFrame. Raises `InputError` without polars."""
        polars_extra.require()
        import polars as pl

        types: dict[Kind, pl.DataType | type[pl.DataType]] = {
            "flag": pl.Boolean,
            "whole": pl.Int64,
            "size": pl.Decimal(DIGITS, 0),
            "number": pl.Float64,
            "text": pl.String,
        }
        return pl.DataFrame(
            [
                pl.Series(name, each.values, dtype=types[each.kind])
                for name, each in self.data.items()
            ]
        )

    def _repr_html_(self) -> str:
        """The first rows in a notebook."""
        rows = [self.columns, *([row[name] for name in self.columns] for row in self._first())]
        lines = ["".join(f"<td>{escape(_shown(cell))}</td>" for cell in row) for row in rows]
        left = self.height - _SHOWN
        more = f"<p>and {left:,} more</p>" if left > 0 else ""
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{more}"

    def _first(self) -> list[Row]:
        return self.take(range(min(self.height, _SHOWN))).rows()


def _cells(column: Column) -> Sequence[Any]:
    """Values as CSV has them: flags in lower case."""
    if column.kind != "flag":
        return column.values
    return [None if each is None else str(each).lower() for each in column.values]


def _shown(value: object) -> str:
    return "" if value is None else str(value)
