"""Which NPU holds which part of which embedding table, and what that costs in memory, lookups and
messages.

Not here: the tables (`dlrm.py`), the collectives as nodes (`workload/dlrm.py`).

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, section 4), for `n` NPUs, a table of `rows` x
`dim`, `b` samples an NPU:

    table      whole tables on one NPU each                 pooled rows by all-to-all
    column     `c` shards of dim / c, each as a table       pooled rows by all-to-all, indices sent c times
    row        rows / n on every NPU                        partial sums by reduce-scatter, gradients by all-gather
    table_row  a table to a node, rows / g on its g NPUs    reduce-scatter in the node, all-to-all between nodes
    data       a copy on every NPU                          gradients of the whole table by all-reduce
    auto       data   where 2 rows gradient_width <= b (forward_width + backward_width): less than the all-to-all
               table  where it costs no more than an NPU's mean share
               column else, the fewest that cost no more and are at least 16 wide
               row    otherwise; a shard must also fit into `capacity`

Whole shards go, the costliest first, to the NPU with the least so far (Neo's first heuristic). The
cost of a shard is the rows it reads and the row it sends for a sample, `(pooling + 1) dim`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from ..errors import InputError, Problem
from .dlrm import Table

Scheme = Literal["table", "column", "row", "table_row", "data", "auto"]

Optimizer = Literal["sgd", "rowwise_adagrad", "adagrad"]

SCHEMES = get_args(Scheme)
"""Ways to share out tables."""

OPTIMIZERS = {"sgd": 0, "rowwise_adagrad": 0, "adagrad": 4}
"""Optimizer of the tables -> bytes of state for each element. Row-wise AdaGrad keeps 4 bytes a row
of each shard."""

NARROWEST = 16
"""Columns that `auto` leaves a shard at least."""


@dataclass(frozen=True, slots=True)
class Request:
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


@dataclass(frozen=True, slots=True)
class Load:
    """What tables sharded one way ask of an NPU for each sample it looks up, and in memory."""

    lookups: int = 0
    elements: int = 0
    """Elements read: pooling times width, over its shards."""
    dims: int = 0
    """Elements of the pooled rows it makes."""
    parameters: int = 0
    rows: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.lookups + other.lookups,
            self.elements + other.elements,
            self.dims + other.dims,
            self.parameters + other.parameters,
            self.rows + other.rows,
        )

    def bytes(self, width: int, optimizer: str) -> tuple[int, int]:
        """Memory of weights and of optimizer state."""
        state = (
            4 * self.rows
            if optimizer == "rowwise_adagrad"
            else OPTIMIZERS[optimizer] * self.parameters
        )
        return self.parameters * width, state


@dataclass(frozen=True, slots=True)
class Kind:
    """NPUs that hold the same: the first of them, how many, their whole shards, and their node's
    tables."""

    first: int
    ranks: int
    whole: Load
    node: Load


@dataclass(frozen=True)
class Placement:
    """All tables shared out. Loads are per NPU; those of `row` and `data` are the same on every
    NPU."""

    whole: tuple[Load, ...]
    """Table- and column-wise shards, an entry an NPU."""
    row: Load
    """Row-wise tables; `lookups` and `elements` are those of the whole batch, `1 / npus` of which
    an NPU does."""
    node: tuple[Load, ...]
    """Table-row-wise tables, an entry a node; an NPU does `1 / npus_per_node` of its node's
    lookups."""
    data: Load
    lengths: int
    """Lengths an NPU sends for each of its samples."""
    indices: int
    """Indices an NPU sends for each of its samples."""
    schemes: tuple[tuple[str, int], ...]
    """Tables by scheme."""
    npus_per_node: int

    def on(self, npu: int) -> tuple[Load, Load]:
        """The whole shards of `npu`, and the tables of its node."""
        return self.whole[npu], self.node[npu // self.npus_per_node] if self.node else Load()

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """NPUs with equal loads, in the order of their first; those of a node where tables are
        shared out to nodes."""
        found: dict[tuple[Load, Load, int], list[int]] = {}
        for npu, load in enumerate(map(self.on, range(len(self.whole)))):
            node = npu // self.npus_per_node if self.node else 0
            found.setdefault((*load, node), [npu, 0])[1] += 1
        return tuple(
            Kind(first, ranks, whole, node) for (whole, node, _), (first, ranks) in found.items()
        )

    @property
    def widest(self) -> int:
        """Pooled elements of the NPU with the most."""
        return max(load.dims for load in self.whole)

    @property
    def widest_node(self) -> int:
        """Pooled elements of the node with the most."""
        return max((load.dims for load in self.node), default=0)

    def memory(self, npu: int, width: int, optimizer: str) -> tuple[int, int]:
        """Bytes of table weights and of their optimizer state on `npu`."""
        whole, node = self.on(npu)
        parts = [
            whole,
            self.data,
            _share(self.row, len(self.whole)),
            _share(node, self.npus_per_node),
        ]
        pairs = [part.bytes(width, optimizer) for part in parts]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


def _share(load: Load, ways: int) -> Load:
    return replace(load, parameters=-(-load.parameters // ways), rows=-(-load.rows // ways))


def place(tables: Sequence[Table], request: Request) -> Placement:
    """Shares `tables` out. Raises `InputError` when the scheme can't work, with what can."""
    problems = _check(tables, request)
    if problems:
        raise InputError(problems)
    chosen = [(table, *_choose(table, tables, request)) for table in tables]
    whole = _spread(
        [_shard(table, ways) for table, scheme, ways in chosen if scheme == "table"],
        request,
        request.npus,
    )
    nodes = [table for table, scheme, _ in chosen if scheme == "table_row"]
    node = _spread(
        [_shard(table, 1) for table in nodes], request, request.npus // request.npus_per_node
    )
    placement = Placement(
        tuple(whole),
        _sum(table for table, scheme, _ in chosen if scheme == "row"),
        tuple(node) if nodes else (),
        _sum(table for table, scheme, _ in chosen if scheme == "data"),
        sum(_copies(scheme, ways, request) for _, scheme, ways in chosen),
        sum(
            table.pooling * (ways if scheme == "table" else scheme != "data")
            for table, scheme, ways in chosen
        ),
        _count(chosen),
        request.npus_per_node,
    )
    _require_room(placement, request)
    return placement


def _shard(table: Table, ways: int) -> tuple[Load, int]:
    """A shard of `table` and how many there are of it."""
    dim = table.dim // ways
    return Load(table.pooling, table.pooling * dim, dim, table.rows * dim, table.rows), ways


def _sum(tables: Iterable[Table]) -> Load:
    return sum((_shard(table, 1)[0] for table in tables), Load())


def _copies(scheme: str, ways: int, request: Request) -> int:
    """NPUs that need the lengths of a table."""
    return {"table": ways, "row": request.npus, "table_row": request.npus_per_node, "data": 0}[
        scheme
    ]


def _count(chosen: Sequence[tuple[Table, str, int]]) -> tuple[tuple[str, int], ...]:
    names = ["column" if scheme == "table" and ways > 1 else scheme for _, scheme, ways in chosen]
    return tuple((name, names.count(name)) for name in SCHEMES if name in names)


def _choose(table: Table, tables: Sequence[Table], request: Request) -> tuple[str, int]:
    """How `table` is sharded, and into how many columns."""
    if request.scheme == "column":
        return "table", _columns(tables, table, request)
    if request.scheme != "auto":
        return request.scheme, 1
    pooled = request.local_batch * (request.forward_width + request.backward_width)
    if 2 * table.rows * request.gradient_width <= pooled:
        return "data", 1
    share = sum(_cost(other, other.dim) for other in tables) / request.npus
    for ways in _divisors(table.dim):
        dim = table.dim // ways
        fits = (
            request.capacity is None
            or table.rows * dim * request.embedding_width <= request.capacity
        )
        if fits and _cost(table, dim) <= share and (ways == 1 or dim >= NARROWEST):
            return "table", ways
    return ("row", 1) if table.rows >= request.npus else ("table", 1)


def _cost(table: Table, dim: int) -> int:
    return (table.pooling + 1) * dim


def _divisors(number: int) -> list[int]:
    return [ways for ways in range(1, number + 1) if number % ways == 0]


def _columns(tables: Sequence[Table], table: Table, request: Request) -> int:
    """Column shards of `table`: as asked for, or the fewest with which there is one for every
    NPU."""
    if request.column_shards is not None:
        return request.column_shards
    enough = [ways for ways in _divisors(table.dim) if ways * len(tables) >= request.npus]
    return enough[0] if enough else table.dim


def _spread(shards: Sequence[tuple[Load, int]], request: Request, places: int) -> list[Load]:
    """Costliest first, each to the place with the least so far; equal costs in the tables'
    order."""
    each = [load for load, count in shards for _ in range(count)]
    order = sorted(each, key=lambda load: -(load.elements + load.dims))
    loads = [Load()] * places
    heap = [(0, place) for place in range(places)]
    for load in order:
        cost, place = heapq.heappop(heap)
        loads[place] += load
        heapq.heappush(heap, (cost + load.elements + load.dims, place))
    return loads


def _check(tables: Sequence[Table], request: Request) -> list[Problem]:
    check = {"column": _check_columns, "row": _check_rows, "table_row": _check_nodes}.get(
        request.scheme
    )
    if request.scheme not in SCHEMES:
        return [Problem("", "sharding", f"{request.scheme!r} is unknown", ", ".join(SCHEMES))]
    problems = check(tables, request) if check else []
    if request.optimizer not in OPTIMIZERS:
        problems.append(
            Problem("", "optimizer", f"{request.optimizer!r} is unknown", ", ".join(OPTIMIZERS))
        )
    return problems


def _check_columns(tables: Sequence[Table], request: Request) -> list[Problem]:
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


def _check_rows(tables: Sequence[Table], request: Request) -> list[Problem]:
    short = [table for table in tables if table.rows < request.npus]
    if not short:
        return []
    least = min(short, key=lambda table: table.rows)
    message = f"{len(short)} tables have fewer rows than {request.npus} NPUs, {least.name} only {least.rows}"
    return [Problem("", "sharding", message, f"auto, or row on up to {least.rows} NPUs")]


def _check_nodes(tables: Sequence[Table], request: Request) -> list[Problem]:
    each = request.npus_per_node
    if each >= 1 and request.npus % each == 0:
        return _check_rows(tables, replace(request, npus=each))
    near = sorted(sorted(_divisors(request.npus), key=lambda ways: abs(ways - each))[:3])
    message = f"{request.npus} NPUs are no whole number of nodes of {each}"
    return [Problem("", "npus_per_node", message, ", ".join(map(str, near)))]


def _require_room(placement: Placement, request: Request) -> None:
    if request.capacity is None:
        return
    width, optimizer = request.embedding_width, request.optimizer
    used = [(sum(placement.memory(kind.first, width, optimizer)), kind) for kind in placement.kinds]
    worst, at = max(used, key=lambda each: (each[0], -each[1].first))
    if worst <= request.capacity:
        return
    needed = -(-sum(each * kind.ranks for each, kind in used) // request.capacity)
    message = f"NPU {at.first} holds {worst} bytes of tables and optimizer state, {request.capacity} are there"
    allowed = f"at least {needed} NPUs; sharding auto or row; an embedding_width below {width}; rowwise_adagrad or sgd"
    raise InputError([Problem("", "capacity", message, allowed)])
