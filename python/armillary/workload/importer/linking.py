"""Who caused what: device operations to launching calls, calls to host operators, operators to
execution-trace nodes.

Here: correlation ids (whatever the call's name, so new launch functions need no list), nesting in
time on a thread, and three ways to match an execution trace: record-function ids, else the same
sequence of names, else an alignment. Not here: dependencies (`timeline.py`)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from . import host_trace
from .host_trace import HostNode, HostTrace
from .kineto import DeviceOp, HostOp, RuntimeCall, Thread, Trace


@dataclass
class Launches:
    """Calls that launched something. `call[i]` launched `trace.device[i]`; -1 where the call is
    unknown."""

    call: list[int]
    launched: dict[int, list[int]]
    """Call -> device operations, by start; a graph launch has many."""
    paired: int = 0
    """Kernels without an id that were paired with launches without a kernel, by order."""


def launches(trace: Trace) -> Launches:
    """Links by correlation id. Operations with id 0, or of a call not recorded, stay unlinked and
    are counted."""
    by_id: dict[int, int] = {}
    for index, call in enumerate(trace.calls):
        if call.correlation:
            by_id.setdefault(call.correlation, index)
    result = Launches([-1] * len(trace.device), {})
    for index, op in enumerate(trace.device):
        found = by_id.get(op.correlation, -1) if op.correlation else -1
        if found >= 0 and trace.calls[found].start <= op.start:
            result.call[index] = found
            result.launched.setdefault(found, []).append(index)
    _pair_by_order(trace, result)
    return result


def _pair_by_order(trace: Trace, result: Launches) -> None:
    """Kernels with id 0 (ROCm before 6.3 wrote it for communication) and launches that have none,
    if their numbers agree."""
    kernels = [i for i, op in enumerate(trace.device) if not op.correlation and op.kind == "kernel"]
    idle = [
        i
        for i, call in enumerate(trace.calls)
        if "Launch" in call.name and i not in result.launched
    ]
    if len(kernels) != len(idle):
        return
    pairs = list(zip(kernels, idle, strict=True))
    if all(trace.calls[call].start <= trace.device[op].start for op, call in pairs):
        for op, call in pairs:
            result.call[op] = call
            result.launched[call] = [op]
        result.paired = len(pairs)


class Nesting:
    """Which host operators enclose a moment on a thread."""

    def __init__(self, ops: list[HostOp]) -> None:
        self._ops = ops
        self._threads: dict[Thread, tuple[list[int], list[int], list[int]]] = {}
        for index, op in enumerate(ops):
            starts, indices, parents = self._threads.setdefault(op.thread, ([], [], []))
            parent = len(indices) - 1
            while parent >= 0 and ops[indices[parent]].end < op.end:
                parent = parents[parent]
            starts.append(op.start)
            indices.append(index)
            parents.append(parent)

    def enclosing(self, thread: Thread, moment: int) -> list[int]:
        """Indices of the operators around `moment`, innermost first."""
        if thread not in self._threads:
            return []
        starts, indices, parents = self._threads[thread]
        at = bisect_right(starts, moment) - 1
        found = []
        while at >= 0:
            if self._ops[indices[at]].end >= moment:
                found.append(indices[at])
            at = parents[at]
        return found


@dataclass
class HostLinks:
    """Kineto operators matched with execution-trace nodes."""

    node: dict[int, HostNode] = field(default_factory=dict)
    how: str = ""
    nodes: int = 0

    @property
    def share(self) -> float:
        """Share of the execution trace's operators that were matched."""
        return len(self.node) / self.nodes if self.nodes else 0.0


def host_links(trace: Trace, host: HostTrace) -> HostLinks:
    """Matches two recordings of one host, by the first way that explains nine operators of ten,
    else the best."""
    nodes = [node for thread in host_trace.threads(host).values() for node in thread]
    tried = [HostLinks(_by_id(trace, nodes), "record-function ids", len(nodes))]
    if tried[0].share < 0.9:
        tried.append(
            HostLinks(_by_sequence(trace, host), "the order of names on each thread", len(nodes))
        )
    return max(tried, key=lambda links: len(links.node))


def _by_id(trace: Trace, nodes: list[HostNode]) -> dict[int, HostNode]:
    by_id = {node.rf_id: node for node in nodes if node.rf_id > 0}
    linked = {}
    for index, op in enumerate(trace.ops):
        identity = op.event.arguments().get("Record function id")
        node = by_id.get(identity) if isinstance(identity, int) and identity > 0 else None
        if node is not None and node.name == op.name:
            linked[index] = node
    return linked


def _by_sequence(trace: Trace, host: HostTrace) -> dict[int, HostNode]:
    """Threads paired by the names they share, then aligned."""
    kineto: dict[Thread, list[int]] = {}
    for index, op in enumerate(trace.ops):
        kineto.setdefault(op.thread, []).append(index)
    linked: dict[int, HostNode] = {}
    free = dict(kineto)
    for nodes in sorted(host_trace.threads(host).values(), key=len, reverse=True):
        names = Counter(node.name for node in nodes)
        best = max(
            free,
            key=lambda t: sum((names & Counter(trace.ops[i].name for i in free[t])).values()),
            default=None,
        )
        if best is not None:
            linked.update(_align(trace.ops, free.pop(best), nodes))
    return linked


def _align(ops: list[HostOp], indices: list[int], nodes: list[HostNode]) -> dict[int, HostNode]:
    left, right = [ops[i].name for i in indices], [node.name for node in nodes]
    if len(left) * len(right) > 200_000_000:
        return {}
    if left == right:
        return dict(zip(indices, nodes, strict=True))
    blocks = SequenceMatcher(None, left, right, autojunk=len(left) > 5_000).get_matching_blocks()
    return {indices[a + k]: nodes[b + k] for a, b, size in blocks for k in range(size)}


def is_blocking_copy(call: RuntimeCall, op: DeviceOp) -> bool:
    """True for a copy that its call waits for: the call ends when the copy has, and not before."""
    return op.kind == "copy" and call.start <= op.end <= call.end
