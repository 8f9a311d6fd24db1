"""Parts of tables by name, so that tables that were sharded one way can be loaded in another.

A part's key is that of the whole with the part's rows and columns: `t0.weight[0:500,0:64]`; that of
a whole table is `t0.weight`, as `EmbeddingCollection` has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from armillary.errors import InputError, Problem

_KEY = re.compile(r"(.+)\.([^.\[\]]+)(?:\[(\d+):(\d+),(\d+):(\d+)\])?", re.S)


class Rectangle(NamedTuple):
    """Rows and columns of a table's weights, or of its optimizer's state."""

    table: str
    name: str
    """`weight`, or the name of the state."""
    rows: range
    columns: range
    values: Tensor
    """[rows, columns], or [rows] of state that is kept for each row."""

    def key(self, rows: int, columns: int) -> str:
        """The key in a table of `rows` x `columns`."""
        key = f"{self.table}.{self.name}"
        if (len(self.rows), len(self.columns)) == (rows, columns):
            return key
        part = f"{self.rows.start}:{self.rows.stop},{self.columns.start}:{self.columns.stop}"
        return f"{key}[{part}]"


def parse(key: str, values: Tensor, sizes: Mapping[str, tuple[int, int]]) -> Rectangle | None:
    """The rectangle with a key; `None` if it is not one of tables of these `sizes` (rows and
    columns)."""
    found = _KEY.fullmatch(key)
    if found is None or found[1] not in sizes:
        return None
    rows, columns = sizes[found[1]]
    bounds = [int(bound or 0) for bound in found.groups()[2:]]
    if found[3] is None:
        bounds = [0, rows, 0, columns]
    across, down = range(bounds[0], bounds[1]), range(bounds[2], bounds[3])
    shape = (len(across), len(down))[: values.dim()]
    if not across or not down or across.stop > rows or down.stop > columns:
        return None
    return Rectangle(found[1], found[2], across, down, values) if values.shape == shape else None


def fill(target: Rectangle, sources: Iterable[Rectangle]) -> None:
    """Copies what `sources` have of `target`. Where column shards each have a state of a row, it
    becomes their mean by columns.

    Raises:
        InputError: a part of `target` is missing, or is there twice.
    """
    found = [
        (source, rows, columns)
        for source in sources
        if (source.table, source.name) == (target.table, target.name)
        and (rows := _common(source.rows, target.rows))
        and (columns := _common(source.columns, target.columns))
    ]
    cells = sum(len(rows) * len(columns) for _, rows, columns in found)
    wanted = len(target.rows) * len(target.columns)
    if cells != wanted:
        said = f"{cells} of {wanted} elements of {target.name!r} were found"
        raise InputError([Problem("", f"table {target.table!r}", said, "each element once")])
    by_row = target.values.dim() == 1
    if by_row and len(found) > 1:
        target.values.zero_()
    for source, rows, columns in found:
        to = target.values[_within(rows, target.rows)]
        of = source.values[_within(rows, source.rows)]
        if not by_row:
            to[:, _within(columns, target.columns)] = of[:, _within(columns, source.columns)]
        elif len(columns) == len(target.columns):
            to.copy_(of)
        else:
            to.add_(of.to(to.device), alpha=len(columns) / len(target.columns))


def whole_tables(
    states: Sequence[Mapping[str, Tensor]], sizes: Mapping[str, tuple[int, int]]
) -> dict[str, Tensor]:
    """The state of `EmbeddingCollection` from those of all ranks of a
    `ShardedEmbeddingCollection`. `sizes` are rows and columns of each table.

    Raises:
        InputError: a part of a table is missing, or is there twice.
    """
    parts: dict[str, Tensor] = {}
    for state in states:
        parts.update(state)
    sources = [
        each for key, values in parts.items() if (each := parse(key, values, sizes)) is not None
    ]
    for table in sizes.keys() - {source.table for source in sources}:
        raise InputError([Problem("", f"table {table!r}", "is not in the state")])
    merged = {"step": states[0]["step"]}
    for source in sources:
        rows, columns = sizes[source.table]
        key = f"{source.table}.{source.name}"
        if key in merged:
            continue
        shape = (rows, columns)[: source.values.dim()]
        values = torch.empty(shape, dtype=source.values.dtype)
        fill(Rectangle(source.table, source.name, range(rows), range(columns), values), sources)
        merged[key] = values
    return merged


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _within(part: range, whole: range) -> slice:
    return slice(part.start - whole.start, part.stop - whole.start)
