"""The rank of each shard of each embedding table.

Here: the plan as data, and whether it is one of a model's tables. Not here: its file
(`sharding_plan_file.py`), how a plan is chosen and what it costs (`sharding.py`).

A table is cut along one side. Shard `i` of a table is on the rank `ranks[i]`:

    table      one shard, the whole table
    column     columns are cut; a rank may hold several shards
    row        rows are cut over ranks
    table_row  rows are cut over the ranks of one node
    data       not cut: every rank holds a copy"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol, get_args

from ..errors import Problem
from ..units import counted
from .dlrm import EmbeddingTable

ShardScheme = Literal["table", "column", "row", "table_row", "data"]

SHARD_SCHEMES: tuple[ShardScheme, ...] = get_args(ShardScheme)
"""Ways to cut one table."""

PLACES: dict[ShardScheme, Literal["rank", "node", "all"]] = {
    "table": "rank",
    "column": "rank",
    "table_row": "node",
    "row": "all",
    "data": "all",
}
"""Where the shards of a scheme go: each to a rank, to the ranks of a node, or to all ranks."""

NARROWEST = 16
"""Columns of the narrowest shard that a plan of ours cuts."""

Tier = Literal["device", "host", "disk"]

TIERS: tuple[Tier, ...] = get_args(Tier)
"""Memory that holds a shard: of the NPU, of its host, or a file."""


class Shard(NamedTuple):
    """A rectangle of a table on a rank."""

    rank: int
    rows: range
    columns: range


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The shards of one table."""

    name: str
    rows: int
    columns: int
    scheme: ShardScheme
    ranks: tuple[int, ...]
    """The rank of each shard."""
    sizes: tuple[int, ...] | None = None
    """Rows (`row`, `table_row`) or columns (`column`) of each shard; when not given, shares that
    differ by one at most, the larger ones first."""
    tier: Tier = "device"

    @property
    def extent(self) -> int:
        """Length of the side that is cut."""
        return self.columns if self.scheme == "column" else self.rows

    @property
    def shares(self) -> tuple[int, ...]:
        """Length of each shard along the side that is cut."""
        return self.sizes or even(self.extent, len(self.ranks))

    @property
    def shards(self) -> Iterator[Shard]:
        """Every shard, in the order of `ranks`."""
        rows, columns = range(self.rows), range(self.columns)
        if self.scheme in ("table", "data"):
            yield from (Shard(rank, rows, columns) for rank in self.ranks)
            return
        for rank, stop, size in zip(self.ranks, accumulate(self.shares), self.shares, strict=True):
            part = range(stop - size, stop)
            yield Shard(rank, *((rows, part) if self.scheme == "column" else (part, columns)))


@dataclass(frozen=True, slots=True)
class ShardingPlan:
    """The shards of all tables of a model, in the model's order."""

    model: str
    ranks: int
    ranks_per_node: int
    tables: tuple[TablePlan, ...]

    def ordered(self, tables: Sequence[EmbeddingTable]) -> ShardingPlan:
        """The same plan in the order of `tables`; it must contain all of them."""
        known = {each.name: each for each in self.tables}
        return replace(self, tables=tuple(known[table.name] for table in tables))

    def shifted(self, by: int) -> ShardingPlan:
        """The same plan `by` ranks further on: the first ranks hold nothing."""
        moved = (
            replace(each, ranks=tuple(rank + by for rank in each.ranks)) for each in self.tables
        )
        return replace(self, ranks=self.ranks + by, tables=tuple(moved))


class TableShape(Protocol):
    """A table as a plan names it."""

    @property
    def name(self) -> str:
        """Name in the model."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def dim(self) -> int:
        """Number of columns."""


def plan_problems(
    plan: ShardingPlan, tables: Sequence[TableShape], ranks: int, file: str
) -> list[Problem]:
    """Why a plan, from `file` if given, is not one of these tables on `ranks` ranks: for another
    number of ranks, of other tables, of other shapes."""
    problems = []
    if plan.ranks != ranks:
        plans = counted(plan.ranks, "rank")
        message = f"the sharding plan is for {plans}; the run has {ranks}"
        problems.append(Problem(file, "ranks", message, f"{plans}, or a plan for {ranks}"))
    names = {table.name for table in tables}
    planned = {each.name: each for each in plan.tables}
    extra = [name for name in planned if name not in names]
    missing = [table.name for table in tables if table.name not in planned]
    for message, wrong in (
        ("is in the sharding plan, but not in the model", extra),
        ("is not in the sharding plan", missing),
    ):
        if wrong:
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            problems.append(Problem(file, f"table {wrong[0]!r}", message + more))
    for table in tables:
        found = planned.get(table.name)
        if found and (found.rows, found.columns) != (table.rows, table.dim):
            message = f"is {found.rows} x {found.columns} in the sharding plan"
            allowed = f"{table.rows} x {table.dim}, as in the model"
            problems.append(Problem(file, f"table {table.name!r}", message, allowed))
    return problems


def ranks_at(
    scheme: ShardScheme, places: Sequence[int], ranks: int, ranks_per_node: int
) -> tuple[int, ...]:
    """The rank of each shard, from the places of a table: the rank of each shard, the node, or
    nothing where it is on all ranks (`PLACES`)."""
    everywhere = range(ranks)
    if PLACES[scheme] == "rank":
        return tuple(places)
    if PLACES[scheme] == "all":
        return tuple(everywhere)
    first = places[0] * ranks_per_node
    return tuple(everywhere[first : first + ranks_per_node])


def even(extent: int, ways: int) -> tuple[int, ...]:
    """`extent` cut into `ways` that differ by one at most, the larger ones first."""
    share, rest = divmod(extent, ways)
    return (share + 1,) * rest + (share,) * (ways - rest)
