"""Embedding tables, parts of tables, and the features that look them up. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from armillary.model.sharding_plan import Tier

DType = Literal["float32", "float16", "bfloat16", "int8"]
"""Type of a table's elements. Rows of `int8` have a scale and an offset each, and are read only."""

WIDTHS: dict[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
"""Bytes of an element."""

Pooling = Literal["sum", "mean", "none"]
"""Result for the rows of a bag: their sum, their mean (zeros if there are none), or the rows
themselves."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a whole table a table is, if it is a shard."""

    table: str
    """Name of the whole table. Initial weights are drawn by it."""
    rows: int
    """Rows of the whole table."""
    first_row: int = 0
    """The first row of the part in the whole table."""
    first_column: int = 0
    """The first column of the part in the whole table."""


@dataclass(frozen=True, slots=True)
class Table:
    """An embedding table of `rows` x `dim` elements, or a shard of one."""

    name: str
    rows: int
    dim: int
    dtype: DType = "float32"
    stochastic_rounding: bool = False
    """Whether updates of 16-bit elements round by chance, so that small steps count on average."""
    part: Part | None = None
    """Which part of a table this is; `None` if it is whole."""
    tier: Tier = "device"
    """Where the rows are: in memory, in memory behind a cache (`host`), or on a disk behind one."""

    @property
    def whole(self) -> Part:
        """`part`, or the whole of this table."""
        return self.part or Part(self.name, self.rows)


@dataclass(frozen=True, slots=True)
class Feature:
    """A sparse input of the model. Each sample has a bag of rows of `table`."""

    name: str
    table: str
    """Name of the table. Several features may share one."""
    pooling: Pooling = "sum"
