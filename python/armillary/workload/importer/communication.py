"""The collectives and messages behind each communication kernel of one rank.

Here: reading the places that may describe it, the most reliable first: the kernel's own NCCL
metadata, the operators around its launch (their metadata, their execution-trace nodes, the shapes
of their inputs), at last the kernel's name, which has no size. Not here: how those are read
(`collectives.py`), group membership (`groups.py`)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from . import collectives, ranges
from .collectives import CommunicationCall
from .host_trace import HostNode
from .kineto import RuntimeCall, Thread, Trace
from .linking import HostLinks, Launches, Nesting

_NAMED = re.compile(r"^(record_param_comms|nccl:|c10d::|gloo:)|_c10d_functional")


@dataclass
class Communication:
    """Calls by device operation (messages may share a kernel); operators without a kernel are in
    `hosted`."""

    calls: dict[int, list[CommunicationCall]] = field(default_factory=dict)
    hosted: list[tuple[int, CommunicationCall]] = field(default_factory=list)
    """Index into `Trace.ops` and call, for operators that launched nothing (a trace without device,
    say)."""
    waits: dict[int, int] = field(default_factory=dict)
    """Place in `hosted` -> index into `Trace.ops` of the range in which the host waits for it."""
    names: dict[int, str] = field(default_factory=dict)
    """Place in `hosted` -> name of the node."""
    sources: Counter[str] = field(default_factory=Counter)


def find(trace: Trace, links: Launches, host: HostLinks) -> Communication:
    """Every communication kernel's call, and operators that have none."""
    kernels = [i for i, op in enumerate(trace.device) if op.kind == "kernel" and op.communicates]
    found, explained = Communication(), set[int]()
    nesting = Nesting(trace.ops) if kernels else None
    messages = _Messages(trace) if kernels else None
    for index in sorted(
        kernels, key=lambda i: trace.calls[links.call[i]].start if links.call[i] >= 0 else 0
    ):
        if known := trace.device[index].calls:
            found.calls[index] = list(known)
            found.sources[known[0].source] += 1
            continue
        launch = links.call[index]
        around: list[int] = []
        if launch >= 0 and nesting is not None:
            call = trace.calls[launch]
            around = [
                i
                for i in nesting.enclosing(call.thread, call.start)
                if _NAMED.search(trace.ops[i].name)
            ]
        explained.update(around)
        described = [_kernel(trace, index, around, host.node)]
        batch = messages.before(trace.calls[launch]) if messages is not None and launch >= 0 else []
        if batch and described[0].kind in ("unknown", "send_recv"):
            described = batch
        found.calls[index] = described
        found.sources[described[0].source] += 1
    if not trace.device:
        _find_hosted(found, trace, host.node, explained)
    return found


def _find_hosted(
    found: Communication, trace: Trace, nodes: dict[int, HostNode], explained: set[int]
) -> None:
    """Exchanges that ranges mark, and the operators of PyTorch's own communication."""
    marked = ranges.exchanges(trace)
    waits = {each.begin: each for each in marked}
    inside = [trace.ops[index] for each in marked for index in (each.begin, each.wait)]
    spans = sorted((op.start, op.end) for op in inside)
    starts = [start for start, _ in spans]

    def covered(index: int) -> bool:
        place = bisect_right(starts, trace.ops[index].start) - 1
        return place >= 0 and trace.ops[index].start < spans[place][1]

    others = [each for each in _hosted(trace, nodes, explained) if not covered(each[0])]
    found.hosted = sorted(
        [*((each.begin, each.call) for each in marked), *others], key=lambda each: each[0]
    )
    for place, (index, _) in enumerate(found.hosted):
        found.names[place] = trace.ops[index].name
        if index in waits:
            found.waits[place] = waits[index].wait
            found.names[place] = waits[index].name


class _Messages:
    """Sends and receives by thread, for the kernel that carries a batch and is launched after the
    last of them."""

    def __init__(self, trace: Trace) -> None:
        self._waiting: dict[Thread, list[tuple[int, CommunicationCall]]] = {}
        for op in reversed(trace.ops):
            call = (
                collectives.from_annotation(op.name, op.event.arguments())
                if op.name.startswith("nccl:")
                else None
            )
            if call is not None:
                self._waiting.setdefault(op.thread, []).append((op.start, call))

    def before(self, launch: RuntimeCall) -> list[CommunicationCall]:
        """The messages of the launching thread that no earlier kernel carried."""
        waiting, batch = self._waiting.get(launch.thread, []), []
        while waiting and waiting[-1][0] <= launch.start:
            batch.append(waiting.pop()[1])
        return batch


def _kernel(
    trace: Trace, index: int, around: list[int], nodes: dict[int, HostNode]
) -> CommunicationCall:
    op = trace.device[index]
    candidates = [collectives.from_metadata(op.event.arguments())]
    candidates += [_operator(trace, i, nodes) for i in around]
    best = _best(candidates)
    if best is None:
        kind = collectives.kind_of(op.name.split("(")[0]) or "unknown"
        return CommunicationCall(kind, -1, "", collectives.GroupRef(), "kernel name")
    root = next((_root(trace, i, nodes) for i in around if "broadcast_" in trace.ops[i].name), 0)
    return replace(best, root=root)


def _operator(trace: Trace, index: int, nodes: dict[int, HostNode]) -> CommunicationCall | None:
    op = trace.ops[index]
    if op.name == "record_param_comms":
        found = collectives.from_metadata(op.event.arguments())
        node = nodes.get(index)
        return found or (collectives.from_host_node(node) if node is not None else None)
    if op.name.startswith("nccl:") and (
        message := collectives.from_annotation(op.name, op.event.arguments())
    ):
        return message
    return collectives.from_shapes(op.name, op.event.arguments(), "shapes of host operators")


def _best(candidates: Iterable[CommunicationCall | None]) -> CommunicationCall | None:
    """The first that knows a size, else the first; with the group of whoever knows one, uneven if
    anybody says so."""
    known = [call for call in candidates if call is not None and call.kind]
    if not known:
        return None
    best = next((call for call in known if call.bytes >= 0), known[0])
    group = next((call.group for call in known if call.group.ranks), None)
    group = group or next(
        (call.group for call in known if call.group.name or call.group.size), best.group
    )
    peer = next((call.peer for call in known if call.peer >= 0), -1)
    message = next((call.kind for call in known if call.kind in ("send", "recv")), best.kind)
    return replace(
        best, kind=message, group=group, peer=peer, uneven=any(call.uneven for call in known)
    )


def _root(trace: Trace, index: int, nodes: dict[int, HostNode]) -> int:
    """The root of `c10d::broadcast_(tensors, group, root, ...)`, 0 where no trace kept it."""
    concrete = trace.ops[index].event.arguments().get("Concrete Inputs") or []
    node = nodes.get(index)
    values = node.inputs if node is not None else concrete
    value = str(values[2]) if len(values) > 2 else "0"
    return int(value) if re.fullmatch("[0-9]{1,9}", value) else 0


def _hosted(
    trace: Trace, nodes: dict[int, HostNode], explained: set[int]
) -> list[tuple[int, CommunicationCall]]:
    """Communication of a trace without device operations: one a call, the outermost operator that
    knows a size."""
    found: list[tuple[int, CommunicationCall]] = []
    until: dict[tuple[str, str], int] = {}
    for index, op in enumerate(trace.ops):
        if index in explained or not _NAMED.search(op.name) or op.start < until.get(op.thread, 0):
            continue
        call = _operator(trace, index, nodes)
        if call is not None and call.bytes >= 0:
            found.append((index, call))
            until[op.thread] = op.end
    return found
