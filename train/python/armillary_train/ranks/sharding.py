"""Lookups and pooled columns of every rank, from the placement of the tables' shards:
docs/models/sharding-plans.md.

Here: streams of lookups and blocks of columns, as data; every rank computes the same. Needs no
torch. Not here: who holds which shard (`armillary.model.table_placement`, whose paths are used
here), what is sent (`exchange.py`, `sharded.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from armillary.errors import InputError, Problem
from armillary.model.sharding_plan import Shard, ShardingPlan, TablePlan, Tier, plan_problems
from armillary.model.sharding_plan_file import checked
from armillary.model.table_placement import Path, Placement

from ..tables.table import Feature, Part, Pooling, Table


class Stream(NamedTuple):
    """Lookups of one feature in one shard, and the columns that they give."""

    feature: int
    """Index of the feature."""
    shard: int
    """Index of the shard in its table."""
    columns: range
    """Columns of the table that the shard has."""


class Run(NamedTuple):
    """Columns of a block of pooled rows, and where they belong in the batch's row."""

    block: int
    """The block's index."""
    start: int
    """First column in the block."""
    to: int
    """First column in the batch's row."""
    width: int
    """Number of columns."""
    add: bool
    """Whether they are added to what earlier runs put there."""


@dataclass(frozen=True)
class Streams:
    """Lookups and columns of all ranks."""

    placement: Placement
    """The shards of `tables`, in their order."""
    tables: tuple[Table, ...]
    features: tuple[Feature, ...]

    @classmethod
    def of(
        cls, plan: ShardingPlan, tables: Sequence[Table], features: Sequence[Feature], ranks: int
    ) -> Streams:
        """The streams of `tables` on `ranks` ranks by `plan`.

        Raises:
            InputError: the plan contradicts itself, is for other tables or another number of
                ranks, or can't be trained with; features with and without pooling.
        """
        plan = checked(plan)
        problems = [*training_problems(plan, tables, ranks), *_mixed(tables, features)]
        if problems:
            raise InputError(problems)
        known = {each.name: each for each in plan.tables}
        ordered = tuple(known[table.name] for table in tables)
        sorted_plan = ShardingPlan(plan.model, plan.ranks, plan.ranks_per_node, ordered)
        return cls(Placement(sorted_plan), tuple(tables), tuple(features))

    @property
    def plan(self) -> ShardingPlan:
        """The plan, in the order of `tables`."""
        return self.placement.plan

    @property
    def ranks(self) -> int:
        """Ranks of the plan."""
        return self.placement.ranks

    @property
    def nodes(self) -> int:
        """Nodes of the plan."""
        return self.placement.nodes

    def node_of(self, rank: int) -> int:
        """The node of a rank."""
        return self.placement.node_of(rank)

    @property
    def unpooled(self) -> bool:
        """Whether results are rows of lookups instead of bags."""
        return any(feature.pooling == "none" for feature in self.features)

    @cached_property
    def table_of(self) -> tuple[int, ...]:
        """The table of each feature."""
        places = {table.name: place for place, table in enumerate(self.tables)}
        return tuple(places[feature.table] for feature in self.features)

    def planned(self, feature: int) -> TablePlan:
        """The plan of a feature's table."""
        return self.placement.table(self.table_of[feature])

    def path(self, feature: int) -> Path:
        """The path of a feature's pooled rows."""
        return self.placement.path(self.table_of[feature])

    def shards(self, feature: int) -> tuple[Shard, ...]:
        """The shards of a feature's table."""
        return self.placement.shards(self.table_of[feature])

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first column of each feature in the batch's row, and the row's width."""
        dims = (self.tables[table].dim for table in self.table_of)
        return (0, *accumulate(dims))

    @cached_property
    def _streams(self) -> tuple[tuple[tuple[Stream, ...], ...], ...]:
        """Direct and node streams of each rank, features in their order."""
        direct: list[list[Stream]] = [[] for _ in range(self.ranks)]
        node: list[list[Stream]] = [[] for _ in range(self.ranks)]
        for feature in range(len(self.features)):
            path = self.path(feature)
            if path == "data":
                continue
            into = node if path == "node" else direct
            for index, shard in enumerate(self.shards(feature)):
                into[shard.rank].append(Stream(feature, index, shard.columns))
        return tuple((tuple(a), tuple(b)) for a, b in zip(direct, node, strict=True))

    def direct(self, rank: int) -> tuple[Stream, ...]:
        """Streams of a rank whose results go straight to the samples' ranks."""
        return self._streams[rank][0]

    def node(self, rank: int) -> tuple[Stream, ...]:
        """Streams of a rank whose results are added up within its node first."""
        return self._streams[rank][1]

    def streams(self, rank: int) -> tuple[Stream, ...]:
        """All streams of a rank: `direct`, then `node`."""
        return sum(self._streams[rank], ())

    @cached_property
    def data(self) -> tuple[int, ...]:
        """Features whose tables have a copy on every rank."""
        features = range(len(self.features))
        return tuple(each for each in features if self.path(each) == "data")

    def shard(self, stream: Stream) -> Shard:
        """The rectangle of a stream's table."""
        return self.shards(stream.feature)[stream.shard]

    def cut(self, feature: int) -> list[int]:
        """Where each shard of a feature's table ends, if its rows are cut."""
        planned = self.planned(feature)
        return list(accumulate(planned.shares)) if planned.scheme in ("row", "table_row") else []

    def groups(self, rank: int) -> list[list[int]]:
        """The streams of a rank that are looked up together: all; those of one width without
        pooling. None if the rank has no streams."""
        found: dict[int, list[int]] = {}
        for index, stream in enumerate(self.streams(rank)):
            found.setdefault(len(stream.columns) if self.unpooled else 0, []).append(index)
        return list(found.values())

    def held(self, rank: int, group: Sequence[int]) -> tuple[list[Table], list[Feature]]:
        """The shards of a group of a rank's streams, as tables, and the features of the streams.
        A mean over rows that are cut is left to the samples' rank: its shards add up."""
        tables: dict[str, Table] = {}
        features = []
        streams = self.streams(rank)
        for stream in (streams[index] for index in group):
            feature, whole = self.features[stream.feature], self._whole(stream.feature)
            planned = self.planned(stream.feature)
            shard = self.shard(stream)
            name = shard_name(whole, shard)
            part = Part(whole.name, whole.rows, shard.rows.start, shard.columns.start)
            tables[name] = Table(
                name,
                len(shard.rows),
                len(shard.columns),
                whole.dtype,
                whole.stochastic_rounding,
                part,
                _tier(planned, whole),
            )
            cut_mean = feature.pooling == "mean" and self.cut(stream.feature)
            pooling: Pooling = "sum" if cut_mean else feature.pooling
            features.append(Feature(f"{feature.name} in {name}", name, pooling))
        return list(tables.values()), features

    def copied(self) -> tuple[list[Table], list[Feature]]:
        """The tables that every rank holds, and their features."""
        features = [self.features[each] for each in self.data]
        names = {feature.table for feature in features}
        tables = [
            replace(table, tier=_tier(planned, table))
            for planned, table in zip(self.plan.tables, self.tables, strict=True)
            if table.name in names
        ]
        return tables, features

    def _whole(self, feature: int) -> Table:
        return self.tables[self.table_of[feature]]

    @cached_property
    def widths(self) -> list[int]:
        """Columns of the blocks that a rank receives: one from each rank with its direct streams,
        one from each node, and its own of the features of copied tables."""
        direct = [_width(self.direct(rank)) for rank in range(self.ranks)]
        nodes = [self.node_width(node) for node in range(self.nodes)]
        return [*direct, *nodes, sum(self._dim(feature) for feature in self.data)]

    @cached_property
    def runs(self) -> list[Run]:
        """Columns of these blocks in the order in which they are added up: features in their order,
        the shards of each in theirs."""
        places = [_starts(self.direct(rank)) for rank in range(self.ranks)]
        nodes = [self._node_starts(node) for node in range(self.nodes)]
        found, data = [], 0
        for feature, first in enumerate(self.firsts[:-1]):
            path, dim = self.path(feature), self._dim(feature)
            if path == "data":
                found.append(Run(self.ranks + self.nodes, data, first, dim, False))
                data += dim
            elif path == "node":
                node = self._node_of(feature)
                found.append(Run(self.ranks + node, nodes[node][feature], first, dim, False))
            else:
                for index, shard in enumerate(self.shards(feature)):
                    start = places[shard.rank][feature, index]
                    to, width = first + shard.columns.start, len(shard.columns)
                    add = bool(self.cut(feature)) and index > 0
                    found.append(Run(shard.rank, start, to, width, add))
        return found

    def node_stream_width(self, rank: int) -> int:
        """Columns of a rank's node streams."""
        return _width(self.node(rank))

    def node_width(self, node: int) -> int:
        """Columns of the features that are added up in a node."""
        return sum(self.node_widths(node))

    def node_widths(self, node: int) -> list[int]:
        """Columns of each of these features."""
        return [self._dim(feature) for feature in self._node_starts(node)]

    def node_runs(self, node: int) -> list[Run]:
        """Columns of the node streams of a node's ranks, added up to the node's columns."""
        first = node * self.plan.ranks_per_node
        found = []
        for feature, to in self._node_starts(node).items():
            for index, shard in enumerate(self.shards(feature)):
                start = _starts(self.node(shard.rank))[feature, index]
                add = index > 0
                found.append(Run(shard.rank - first, start, to, len(shard.columns), add))
        return found

    def _node_starts(self, node: int) -> dict[int, int]:
        """The features that are added up in a node, and their first columns."""
        found, start = {}, 0
        for feature in range(len(self.features)):
            if self.path(feature) == "node" and self._node_of(feature) == node:
                found[feature] = start
                start += self._dim(feature)
        return found

    def _node_of(self, feature: int) -> int:
        return self.placement.node_of_table(self.table_of[feature])

    def _dim(self, feature: int) -> int:
        return self._whole(feature).dim


def _tier(planned: TablePlan, table: Table) -> Tier:
    """Where the shards of a table are: what the plan says, otherwise what the table does."""
    return planned.tier if planned.tier != "device" else table.tier


def shard_name(table: Table, shard: Shard) -> str:
    """The name of a shard: that of the table, and its rows and columns where it is cut."""
    rows, columns = shard.rows, shard.columns
    if len(rows) == table.rows and len(columns) == table.dim:
        return table.name
    return f"{table.name}[{rows.start}:{rows.stop},{columns.start}:{columns.stop}]"


def _width(streams: Sequence[Stream]) -> int:
    return sum(len(stream.columns) for stream in streams)


def _starts(streams: Sequence[Stream]) -> dict[tuple[int, int], int]:
    """The first column of each feature's shard in a block of these streams."""
    found, start = {}, 0
    for stream in streams:
        found[stream.feature, stream.shard] = start
        start += len(stream.columns)
    return found


def _mixed(tables: Sequence[Table], features: Sequence[Feature]) -> list[Problem]:
    """Features without pooling next to others, or of several widths."""
    dims = {table.name: table.dim for table in tables}
    none = [each for each in features if each.pooling == "none"]
    problems = []
    if none and len(none) < len(features):
        said = "is not pooled, but other features are"
        problems.append(Problem("", f"feature {none[0].name!r}", said, "all features, or none"))
    widths = sorted({dims[each.table] for each in none if each.table in dims})
    if len(widths) > 1:
        said = f"rows of {widths[0]} and of {widths[1]} elements"
        problems.append(Problem("", "features", said, "one width without pooling"))
    return problems


def training_problems(
    plan: ShardingPlan, tables: Sequence[Table], ranks: int, file: str = ""
) -> list[Problem]:
    """Why a plan, from `file` if given, is not one of these tables on `ranks` ranks, or not one
    that can be trained."""
    problems = plan_problems(plan, tables, ranks, file)
    names = {table.name for table in tables}
    for planned in plan.tables:
        if planned.name in names:
            problems += _untrained(planned, plan, file)
    return problems


def _untrained(planned: TablePlan, plan: ShardingPlan, file: str) -> list[Problem]:
    place, each = f"table {planned.name!r}", plan.ranks_per_node
    found = []
    if planned.scheme == "data" and len(planned.ranks) < plan.ranks:
        said = f"has copies on {len(planned.ranks)} of {plan.ranks} ranks"
        found.append(Problem(file, place, said, f"0-{plan.ranks - 1}"))
    if planned.scheme == "table_row":
        nodes = {rank // each for rank in planned.ranks}
        if plan.ranks % each or len(nodes) > 1:
            said = f"the ranks {' '.join(map(str, planned.ranks))} are not in one node of {each}"
            found.append(Problem(file, place, said, "ranks of one node, and whole nodes"))
    return found
