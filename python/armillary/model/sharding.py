"""Sharding embedding tables over NPUs, and what a plan costs in memory, lookups and messages.

Not here: the tables (`dlrm.py`), plans as data (`sharding_plan.py`), the collectives as nodes
(`workload/dlrm.py`).

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, section 4), for `n` NPUs, a table of `rows` x
`dim`, `b` samples an NPU:

    table      whole tables on one NPU each       pooled rows by all-to-all
    column     `c` shards of dim / c, as tables   the same, indices sent c times
    row        rows / n on every NPU              reduce-scatter; gradients by all-gather
    table_row  rows / g on the g NPUs of a node   reduce-scatter in, all-to-all between nodes
    data       a copy on every NPU                gradients of the whole table by all-reduce
    auto       data   where 2 rows gradient_width <= b (forward_width + backward_width): less than
                      the all-to-all
               table  where it costs no more than an NPU's mean share
               column else, the fewest that cost no more and are at least 16 wide
               row    otherwise; a shard must also fit into `capacity`

Whole shards go, the costliest first, to the NPU with the least so far (Neo's first heuristic). The
cost of a shard is the rows it reads and the row it sends for a sample, `(pooling + 1) dim`."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from ..errors import InputError, Problem
from ..units import counted
from .dlrm import EmbeddingTable
from .sharding_plan import (
    NARROWEST,
    TIERS,
    ShardingPlan,
    ShardScheme,
    TablePlan,
    Tier,
    even,
    plan_problems,
    ranks_at,
)
from .table_placement import Placement

Scheme = Literal["table", "column", "row", "table_row", "data", "auto"]

Optimizer = Literal["sgd", "rowwise_adagrad", "adagrad"]

SCHEMES = get_args(Scheme)
"""Ways to share out tables."""

OPTIMIZERS = {"sgd": 0, "rowwise_adagrad": 0, "adagrad": 4}
"""Optimizer of the tables -> bytes of state for each element. Row-wise AdaGrad keeps 4 bytes a row
of each shard."""


@dataclass(frozen=True, slots=True)
class ShardingRequest:
    """How to share tables out: batches in samples, widths and `capacity` in bytes."""

    scheme: str
    npus: int
    local_batch: int
    npus_per_node: int
    column_shards: int | None
    embedding_width: int
    gradient_width: int
    forward_width: int
    backward_width: int
    optimizer: str
    capacity: int | None
    tier: Tier = "device"
    """Memory that holds the tables."""
    cache: int = 0
    """Bytes of an NPU's cache of tables on its host."""


@dataclass(frozen=True, slots=True)
class TableLoad:
    """Load of tables sharded one way on an NPU: for each sample it looks up, and in memory."""

    lookups: int = 0
    elements: int = 0
    """Elements read: pooling times width, over its shards."""
    dims: int = 0
    """Elements of the pooled rows it makes."""
    parameters: int = 0
    rows: int = 0
    shards: int = 0
    """Tables, or shards of tables."""

    def __add__(self, other: TableLoad) -> TableLoad:
        return TableLoad(
            self.lookups + other.lookups,
            self.elements + other.elements,
            self.dims + other.dims,
            self.parameters + other.parameters,
            self.rows + other.rows,
            self.shards + other.shards,
        )

    def bytes(self, width: int, optimizer: str) -> tuple[int, int]:
        """Memory of weights and of optimizer state."""
        state = (
            4 * self.rows
            if optimizer == "rowwise_adagrad"
            else OPTIMIZERS[optimizer] * self.parameters
        )
        return self.parameters * width, state


class Fetched(NamedTuple):
    """Bytes that a step brings into an NPU's cache of tables."""

    host: int = 0
    """Rows from the host's memory."""
    disk: int = 0
    """Rows from a disk behind it."""


@dataclass(frozen=True, slots=True)
class NpuKind:
    """NPUs that hold the same: the first of them, how many, their whole shards, and their node's
    tables."""

    first: int
    ranks: int
    whole: TableLoad
    node: TableLoad
    fetched: Fetched


_Away: TypeAlias = tuple[TableLoad, TableLoad] | None
"""Tables of an NPU on its host and on disk."""


@dataclass(frozen=True)
class ShardLoads:
    """Load of a placement on each NPU. Loads are per NPU; those of `row` and `data` are the same on
    every NPU."""

    placement: Placement = field(repr=False)
    """The rank of each shard of each table."""
    whole: tuple[TableLoad, ...]
    """Table- and column-wise shards, an entry an NPU."""
    row: TableLoad
    """Row-wise tables; `lookups` and `elements` are those of the whole batch; each NPU does `1 /
    npus` of them."""
    node: tuple[TableLoad, ...]
    """Table-row-wise tables, an entry a node; an NPU does `1 / npus_per_node` of its node's
    lookups. Empty without such tables."""
    data: TableLoad
    lengths: int
    """Lengths an NPU sends for each of its samples."""
    indices: int
    """Indices an NPU sends for each of its samples."""
    schemes: tuple[tuple[str, int], ...]
    """Tables by scheme."""
    npus_per_node: int
    host: tuple[TableLoad, ...] = ()
    """Parameters and rows of tables in the host's memory, an entry an NPU; the loads above contain
    them. Empty where all tables are on NPUs."""
    disk: tuple[TableLoad, ...] = ()
    """The same of tables on its disk."""
    fetched: tuple[Fetched, ...] = ()
    """Rows that a step brings into an NPU's cache, one entry for each NPU. Empty where that is not
    known."""
    cache: int = 0
    """Bytes of an NPU's cache of these rows."""

    @property
    def plan(self) -> ShardingPlan:
        """The plan of the placement."""
        return self.placement.plan

    def on(self, npu: int) -> tuple[TableLoad, TableLoad]:
        """The whole shards of `npu`, and the tables of its node."""
        return self.whole[npu], self.node[npu // self.npus_per_node] if self.node else TableLoad()

    @cached_property
    def kinds(self) -> tuple[NpuKind, ...]:
        """NPUs with equal loads, in the order of their first. Where tables are shared out to nodes:
        those of a node, or each NPU if those of a node differ."""
        found: dict[tuple[TableLoad, TableLoad, Fetched, int, _Away], list[int]] = {}
        each = 1 if self.mixed else self.npus_per_node
        for npu, load in enumerate(map(self.on, range(len(self.whole)))):
            node = npu // each if self.node else 0
            fetched = self.fetched[npu] if self.fetched else Fetched()
            away = (self.host[npu], self.disk[npu]) if self.host else None
            found.setdefault((*load, fetched, node, away), [npu, 0])[1] += 1
        return tuple(
            NpuKind(first, ranks, whole, node, fetched)
            for (whole, node, fetched, *_), (first, ranks) in found.items()
        )

    @property
    def mixed(self) -> bool:
        """Whether tables are shared out to nodes whose NPUs differ in what else they hold."""
        first = [npu // self.npus_per_node * self.npus_per_node for npu in range(len(self.whole))]
        loads = (self.whole, self.fetched, self.host, self.disk)
        return bool(self.node) and any(
            load[npu] != load[of] for load in loads if load for npu, of in enumerate(first)
        )

    def memory(self, npu: int, width: int, optimizer: str) -> tuple[int, int]:
        """Bytes of table weights and of their optimizer state in the memory of `npu`; the cache of
        tables on the host counts as weights."""
        whole, node = self.on(npu)
        parts = [
            whole,
            self.data,
            _share(self.row, len(self.whole)),
            _share(node, self.npus_per_node),
        ]
        pairs = [part.bytes(width, optimizer) for part in parts]
        weights, state = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        if not self.host:
            return weights, state
        near = self.away(npu, "host", width, optimizer)
        far = self.away(npu, "disk", width, optimizer)
        away = near[0] + far[0], near[1] + far[1]
        return weights - away[0] + min(self.cache, sum(away)), state - away[1]

    def away(self, npu: int, tier: Tier, width: int, optimizer: str) -> tuple[int, int]:
        """Bytes of table weights and of their optimizer state in one of the slower memories of
        `npu`."""
        loads = self.host if tier == "host" else self.disk
        return loads[npu].bytes(width, optimizer) if loads else (0, 0)


def _share(load: TableLoad, ways: int) -> TableLoad:
    return replace(load, parameters=-(-load.parameters // ways), rows=-(-load.rows // ways))


def place(
    tables: Sequence[EmbeddingTable], request: ShardingRequest, model: str = "model"
) -> ShardLoads:
    """Shards `tables` and sums up what that costs. Raises `InputError` when the scheme can't work,
    with what can."""
    problems = _check(tables, request)
    if problems:
        raise InputError(problems)
    placement = loads_of(_plan(tables, request, model), tables)
    placement = replace(placement, cache=request.cache)
    require_room(placement, request.embedding_width, request.optimizer, request.capacity)
    return placement


def _plan(tables: Sequence[EmbeddingTable], request: ShardingRequest, model: str) -> ShardingPlan:
    """The scheme of each table, then whole shards and those of nodes dealt out."""
    share = sum(_cost(table, table.dim) for table in tables) / request.npus
    chosen = [_choose(table, share, len(tables), request) for table in tables]
    nodes = request.npus // request.npus_per_node
    whole = _dealt(tables, chosen, ("table", "column"), request.npus)
    node = _dealt(tables, chosen, ("table_row",), nodes) if nodes else {}
    planned = []
    for index, (table, (scheme, _)) in enumerate(zip(tables, chosen, strict=True)):
        places = whole.get(index) or node.get(index, [])
        ranks = ranks_at(scheme, places, request.npus, request.npus_per_node)
        planned.append(
            TablePlan(table.name, table.rows, table.dim, scheme, ranks, tier=request.tier)
        )
    return ShardingPlan(model, request.npus, request.npus_per_node, tuple(planned))


def _dealt(
    tables: Sequence[EmbeddingTable],
    chosen: Sequence[tuple[ShardScheme, int]],
    schemes: Sequence[str],
    places: int,
) -> dict[int, list[int]]:
    """Places of the shards of the tables with one of `schemes`, by table. Costliest first, each to
    the place with the least so far; equal costs in the tables' order."""
    shards = [
        (index, _cost(table, table.dim // ways))
        for index, (table, (scheme, ways)) in enumerate(zip(tables, chosen, strict=True))
        for _ in range(ways if scheme in schemes else 0)
    ]
    found: dict[int, list[int]] = {}
    heap = [(0, place) for place in range(places)]
    for index, cost in sorted(shards, key=lambda shard: -shard[1]):
        total, place = heapq.heappop(heap)
        found.setdefault(index, []).append(place)
        heapq.heappush(heap, (total + cost, place))
    return found


def loads_of(plan: ShardingPlan, tables: Sequence[EmbeddingTable]) -> ShardLoads:
    """Load of `plan` on each NPU; the plan must fit the tables (`simulation_problems`)."""
    placement = Placement(plan)
    whole, row, data = [TableLoad()] * plan.ranks, TableLoad(), TableLoad()
    away = {tier: [TableLoad()] * plan.ranks for tier in TIERS}
    node = [TableLoad()] * (plan.ranks // plan.ranks_per_node)
    lengths = indices = 0
    for at, (table, planned) in enumerate(zip(tables, plan.tables, strict=True)):
        scheme, load = planned.scheme, _load(table, table.dim)
        if planned.tier != "device":
            for shard in placement.shards(at):
                held = len(shard.rows) * len(shard.columns)
                away[planned.tier][shard.rank] += TableLoad(parameters=held, rows=len(shard.rows))
        if scheme in ("table", "column"):
            for shard in placement.shards(at):
                whole[shard.rank] += _load(table, len(shard.columns))
        elif scheme == "row":
            row += load
        elif scheme == "table_row":
            node[placement.node_of_table(at)] += load
        else:
            data += load
            continue
        lengths += len(planned.ranks)
        indices += table.pooling * (len(planned.ranks) if scheme == "column" else 1)
    names = [planned.scheme for planned in plan.tables]
    slower = any(planned.tier != "device" for planned in plan.tables)
    return ShardLoads(
        placement,
        tuple(whole),
        row,
        tuple(node) if "table_row" in names else (),
        data,
        lengths,
        indices,
        tuple((name, names.count(name)) for name in SCHEMES if name in names),
        plan.ranks_per_node,
        *((tuple(away["host"]), tuple(away["disk"])) if slower else ()),
    )


def simulation_problems(
    plan: ShardingPlan, tables: Sequence[EmbeddingTable], npus: int, file: str, first: int = 0
) -> list[Problem]:
    """Why a plan is not one of these tables on `npus` NPUs, or not one that can be simulated:
    rows are cut evenly over all NPUs or those of a node. NPUs below `first` hold no tables."""
    problems = plan_problems(plan, tables, npus, file)
    names = {table.name for table in tables}
    for planned in plan.tables:
        if planned.name in names and plan.ranks == npus:
            problems += _unsimulated(planned, plan, file, first)
    return problems


def _unsimulated(planned: TablePlan, plan: ShardingPlan, file: str, first: int) -> list[Problem]:
    place, ranks = f"table {planned.name!r}", sorted(set(planned.ranks))
    found = []
    if ranks[0] < first:
        found.append(Problem(file, place, f"is on rank {ranks[0]}", f"ranks from {first}"))
    if planned.scheme in ("row", "data") and len(ranks) < plan.ranks:
        said = f"{planned.scheme} on {len(ranks)} of {plan.ranks} ranks can't be simulated"
        found.append(Problem(file, place, said, f"0-{plan.ranks - 1}"))
    if planned.scheme == "table_row":
        begin, each = ranks[0] // plan.ranks_per_node * plan.ranks_per_node, plan.ranks_per_node
        if plan.ranks % each or ranks != list(range(begin, begin + each)):
            said = "the ranks are not those of one node"
            found.append(Problem(file, place, said, f"such as {begin}-{begin + each - 1}"))
    uneven = planned.sizes not in (None, even(planned.rows, len(planned.ranks)))
    if planned.scheme in ("row", "table_row") and uneven:
        found.append(Problem(file, place, "uneven rows can't be simulated", "no sizes"))
    return found


def _load(table: EmbeddingTable, width: int) -> TableLoad:
    """A shard of `width` columns."""
    lookups, elements = table.pooling, table.pooling * width
    return TableLoad(lookups, elements, width, table.rows * width, table.rows, 1)


def _choose(
    table: EmbeddingTable, share: float, tables: int, request: ShardingRequest
) -> tuple[ShardScheme, int]:
    """How `table` is sharded, and into how many columns; `share` is the mean cost of an NPU."""
    if request.scheme == "column":
        ways = _columns(tables, table, request)
        return ("column" if ways > 1 else "table"), ways
    if request.scheme != "auto":
        return cast("ShardScheme", request.scheme), 1
    pooled = request.local_batch * (request.forward_width + request.backward_width)
    if 2 * table.rows * request.gradient_width <= pooled:
        return "data", 1
    for ways in _divisors(table.dim):
        dim = table.dim // ways
        fits = (
            request.capacity is None
            or request.tier == "host"
            or table.rows * dim * request.embedding_width <= request.capacity
        )
        if fits and _cost(table, dim) <= share and (ways == 1 or dim >= NARROWEST):
            return ("column" if ways > 1 else "table"), ways
    return ("row", 1) if table.rows >= request.npus else ("table", 1)


def _cost(table: EmbeddingTable, dim: int) -> int:
    return (table.pooling + 1) * dim


def _divisors(number: int) -> list[int]:
    return [ways for ways in range(1, number + 1) if number % ways == 0]


def _columns(tables: int, table: EmbeddingTable, request: ShardingRequest) -> int:
    """Column shards of `table`: as asked for, or the fewest with which there is one for every
    NPU."""
    if request.column_shards is not None:
        return request.column_shards
    enough = [ways for ways in _divisors(table.dim) if ways * tables >= request.npus]
    return enough[0] if enough else table.dim


def _check(tables: Sequence[EmbeddingTable], request: ShardingRequest) -> list[Problem]:
    check = {"column": _check_columns, "row": _check_rows, "table_row": _check_nodes}.get(
        request.scheme
    )
    if request.scheme not in SCHEMES:
        return [Problem("", "sharding", f"unknown scheme {request.scheme!r}", ", ".join(SCHEMES))]
    problems = check(tables, request) if check else []
    if request.optimizer not in OPTIMIZERS:
        problems.append(
            Problem("", "optimizer", f"{request.optimizer!r} is unknown", ", ".join(OPTIMIZERS))
        )
    return problems


def _check_columns(tables: Sequence[EmbeddingTable], request: ShardingRequest) -> list[Problem]:
    ways = request.column_shards
    bad = sorted(
        {table.dim for table in tables if ways is not None and (ways < 1 or table.dim % ways)}
    )
    if not bad or ways is None:
        return []
    common = [
        each
        for each in _divisors(min(table.dim for table in tables))
        if not any(t.dim % each for t in tables)
    ]
    near = sorted(sorted(common, key=lambda each: abs(each - ways))[:3])
    message = f"{ways} column shards do not divide tables of width {', '.join(map(str, bad[:4]))}"
    return [Problem("", "column_shards", message, ", ".join(map(str, near)))]


def _check_rows(tables: Sequence[EmbeddingTable], request: ShardingRequest) -> list[Problem]:
    short = [table for table in tables if table.rows < request.npus]
    if not short:
        return []
    least = min(short, key=lambda table: table.rows)
    message = (
        f"fewer rows than {counted(request.npus, 'NPU')} in {counted(len(short), 'table')}: "
        f"{least.name} has {least.rows}"
    )
    return [Problem("", "sharding", message, f"auto, or row on up to {counted(least.rows, 'NPU')}")]


def _check_nodes(tables: Sequence[EmbeddingTable], request: ShardingRequest) -> list[Problem]:
    each = request.npus_per_node
    if each >= 1 and request.npus % each == 0:
        return _check_rows(tables, replace(request, npus=each))
    near = sorted(sorted(_divisors(request.npus), key=lambda ways: abs(ways - each))[:3])
    message = f"nodes of {each} don't divide {counted(request.npus, 'NPU')}"
    return [Problem("", "npus_per_node", message, ", ".join(map(str, near)))]


def require_room(placement: ShardLoads, width: int, optimizer: str, capacity: int | None) -> None:
    """Refuses a placement with more bytes of tables and optimizer state on an NPU than `capacity`.
    SGD has no state."""
    if capacity is None:
        return
    used = [(sum(placement.memory(kind.first, width, optimizer)), kind) for kind in placement.kinds]
    worst, at = max(used, key=lambda each: (each[0], -each[1].first))
    if worst <= capacity:
        return
    needed = -(-sum(each * kind.ranks for each, kind in used) // capacity)
    state = "" if optimizer == "sgd" else " and optimizer state"
    message = f"NPU {at.first} holds {worst} bytes of tables{state}, more than {capacity}"
    allowed = (
        f"at least {counted(needed, 'NPU')}; sharding auto or row; a table_precision of "
        f"fewer bytes than {width}"
    )
    if state:
        allowed += "; rowwise_adagrad or sgd"
    raise InputError([Problem("", "capacity", message, allowed)])
