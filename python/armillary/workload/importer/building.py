"""One recorded rank's timeline as a `Program`.

Here: items to nodes in their order, calls to collectives and messages, kernel kinds. Not here: what
the timeline is (`timeline.py`), whose groups are whose (`spread.py`). Recorded durations stand in
every node, so that a platform with `scheduler.replay_only` replays the recording; a collective's is
only used there, otherwise the network decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..program import Program
from . import kernels
from .agreement import Placed
from .collectives import CommunicationCall
from .groups import Members
from .timeline import TimelineItem

_NAME = 200
"""Characters kept of a name; those of template kernels run to thousands."""
_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})

Groups = Callable[[Members, str], tuple[str, int, int]]
"""Members and kind -> name of the group for the rank at hand, its size, its size in the
recording."""


@dataclass(frozen=True)
class Product:
    """`batch` times (m x k) times (k x n), elements of `width` bytes."""

    batch: int
    m: int
    n: int
    k: int
    width: int


@dataclass(frozen=True)
class RankSource:
    """Source of a program: items, and the calls and matrix products that some of them are, for each
    item."""

    rank: int
    items: list[TimelineItem]
    calls: dict[int, list[Placed]]
    products: dict[int, Product] = field(default_factory=dict)
    skew: int = 0
    """How much later than the first rank it starts, picoseconds."""


def program(
    source: RankSource, groups: Groups, shard: Callable[[str, int, int, int], int]
) -> Program:
    """The program of a rank that does what `source` did, in groups named by `groups`; `shard`
    rescales sizes."""
    result = Program()
    last: list[int] = []
    begin = (
        [result.compute("starts later than other ranks", [], duration_ps=source.skew, host=True)]
        if source.skew
        else []
    )
    for number, item in enumerate(source.items):
        result.label = item.layer[:_NAME]
        deps = [last[dep] for dep in item.deps] or begin
        placed = source.calls.get(number)
        name = item.name[:_NAME]
        if placed is not None:
            last.append(
                _communicate(result, source, placed, name, deps, item.duration, groups, shard)
            )
        elif shape := source.products.get(number):
            m, n, k, batch = shape.m, shape.n, shape.k, shape.batch
            last.append(result.gemm(name, deps, m=m, n=n, k=k, batch=batch, width=shape.width))
        elif item.computes:
            last.append(result.compute(name, deps, duration_ps=item.duration))
        elif item.op < 0:
            last.append(result.compute(name, deps, duration_ps=item.duration, host=True))
        elif not item.duration:
            # It ran next to others, or only marks a wait.
            last.append(result.metadata(name, deps))
        else:
            last.append(
                result.compute(
                    name,
                    deps,
                    duration_ps=item.duration,
                    kernel=item.work or kernels.kind(item.name),
                )
            )
    result.label = ""
    return result


def _communicate(
    result: Program,
    source: RankSource,
    placed: list[Placed],
    name: str,
    deps: list[int],
    duration: int,
    groups: Groups,
    shard: Callable[[str, int, int, int], int],
) -> int:
    """The calls of one kernel, side by side; a node that stands for their end when there are
    several."""
    nodes = []
    for entry in placed:
        call = entry.call
        group, size, before = groups(entry.members, call.kind)
        if call.kind in ("send", "recv") and call.peer >= 0 and call.bytes >= 0:
            nodes.append(_message(result, source.rank, entry, name, deps, duration))
        elif size < 2:
            nodes.append(result.compute(name, deps, duration_ps=duration))
        else:
            kind, amount = effective(call)
            amount = shard(kind, amount, before, size)
            root = call.root if kind in _ROOTED else 0
            nodes.append(
                result.collective(name, deps, kind, amount, group, root=root, duration_ps=duration)
            )
    return nodes[0] if len(nodes) == 1 else result.metadata(name, nodes)


def effective(call: CommunicationCall) -> tuple[str, int]:
    """Kind and bytes of the node: a call of unknown kind or size is a barrier: ranks wait, nothing
    moves."""
    unknown = call.bytes < 0 or call.kind in ("unknown", "send_recv", "send", "recv")
    return ("barrier", 0) if unknown or call.kind == "barrier" else (call.kind, call.bytes)


def _message(
    result: Program, rank: int, entry: Placed, name: str, deps: list[int], duration: int
) -> int:
    offset = entry.members[entry.call.peer] - rank
    add = result.send if entry.call.kind == "send" else result.recv
    return add(name, deps, offset, entry.call.bytes, 0, duration_ps=duration)
