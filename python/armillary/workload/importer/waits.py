"""Waits between operations: events between streams and host synchronisations, recorded where Kineto
has them, else inferred.

Here: for each device operation the operations of other streams it waited for, for each
synchronising call those the host waited for. Not here: order on one stream and launches
(`timeline.py`).

Recorded: Kineto's `cuda_sync` events name the waiting stream, the awaited stream and the event's
record call. An event stands for what was launched on ITS stream before it was recorded, whatever
was launched elsewhere in between.

Inferred otherwise:

- The next launch of a thread after its `StreamWaitEvent` waits for the latest operation of another
  stream that was launched before that call and had ended.
- An operation that starts late for no other reason waits for one that ended within 10 us before it.
- A stream synchronisation waits for the last operation that ended during it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from .kineto import RuntimeCall, SyncRecord, Thread, Trace
from .linking import Launches, is_blocking_copy

_NEAR = 10_000_000
"""Picoseconds between an end and a start that are taken for cause and effect."""
LONG_LAUNCH = 100_000_000
"""Picoseconds from which a launch call is taken to have waited for something."""
_SLACK = 1_000_000
"""Picoseconds by which clocks of host and device may disagree (Kineto before 2024 cuts to
microseconds)."""


@dataclass
class Waits:
    """Operations by index into `Trace.device`."""

    streams: dict[int, set[int]] = field(default_factory=dict)
    """Device operation -> operations of other streams it waited for."""
    host: list[tuple[RuntimeCall, tuple[int, ...]]] = field(default_factory=list)
    """Synchronising calls and what they waited for."""
    recorded: int = 0
    inferred: int = 0
    full_queue: int = 0
    """Picoseconds in launches that waited for room in the launch queue."""
    unexplained: int = 0
    """Synchronisations for which no awaited operation was found."""


@dataclass
class _Stream:
    """Operations of one stream in the order of their launches."""

    launched: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    by_end: list[int] = field(default_factory=list)

    def before(self, moment: int) -> int:
        """The last operation launched before `moment`, -1 if none."""
        at = bisect_left(self.launched, moment)
        return self.ops[at - 1] if at else -1


class _Finder:
    def __init__(self, trace: Trace, links: Launches) -> None:
        self.trace, self.links, self.found = trace, links, Waits()
        self.streams: dict[str, _Stream] = {}
        order = [
            (trace.calls[call].start, trace.device[i].start, i)
            for i, call in enumerate(links.call)
            if call >= 0
        ]
        for launched, _, index in sorted(order):
            stream = self.streams.setdefault(trace.device[index].stream, _Stream())
            stream.launched.append(launched)
            stream.ops.append(index)
        self.ends = {name: self._ends(stream) for name, stream in self.streams.items()}
        self.records = {sync.correlation: sync for sync in trace.syncs if sync.correlation}
        self.calls = {call.correlation: call for call in trace.calls if call.correlation}
        self.pending: dict[Thread, list[int]] = {}
        self.last: dict[Thread, str] = {}

    def _ends(self, stream: _Stream) -> list[int]:
        stream.by_end = sorted(stream.ops, key=lambda i: self.trace.device[i].end)
        return [self.trace.device[i].end for i in stream.by_end]

    def run(self) -> Waits:
        """Goes through the calls in the order of their start."""
        self._known()
        named: dict[str, list[tuple[int, int]]] = {}
        for number, call in enumerate(self.trace.calls):
            ops = self.links.launched.get(number)
            if ops:
                self._launch(call, ops, named)
            elif "StreamWaitEvent" in call.name:
                self._stream_wait(call, named)
            elif kind := _sync_kind(call.name):
                self._host_wait(call, kind)
        return self.found

    def _known(self) -> None:
        """Waits that the reader of the trace knows."""
        places = {id(op): index for index, op in enumerate(self.trace.device) if op.after}
        if not places:
            return
        places = {id(op): index for index, op in enumerate(self.trace.device)}
        for index, op in enumerate(self.trace.device):
            for awaited in op.after:
                self._add(index, places.get(id(awaited), -1))
                self.found.recorded += 1

    def _launch(
        self, call: RuntimeCall, ops: list[int], named: dict[str, list[tuple[int, int]]]
    ) -> None:
        first = self.trace.device[ops[0]]
        for _, awaited in named.pop(first.stream, ()):
            self._add(ops[0], awaited)
        for moment in self.pending.pop(call.thread, ()):
            self._infer(call, ops[0], moment)
        self.last[call.thread] = first.stream
        if call.end - call.start > LONG_LAUNCH and first.start > call.end:
            self._full_queue(call, first.stream)
        if is_blocking_copy(call, first) and _may_block(call.name, first.name):
            self.found.host.append((call, (ops[0],)))

    def _full_queue(self, call: RuntimeCall, stream: str) -> None:
        """A launch that had to wait for room: until the operation ended that ended last during the
        call."""
        launched = self.streams[stream]
        low, high = (
            bisect_right(self.ends[stream], call.start),
            bisect_right(self.ends[stream], call.end),
        )
        if high > low:
            self.found.host.append((call, (launched.by_end[high - 1],)))
            self.found.full_queue += call.end - call.start

    def _add(self, waiting: int, awaited: int) -> None:
        if awaited >= 0 and awaited != waiting:
            self.found.streams.setdefault(waiting, set()).add(awaited)

    def _stream_wait(self, call: RuntimeCall, named: dict[str, list[tuple[int, int]]]) -> None:
        record = self.records.get(call.correlation)
        if record is None or not record.stream or not record.waits_for:
            self.pending.setdefault(call.thread, []).append(call.start)
            return
        awaited = self._at_record(record, call.start)
        self.found.recorded += 1
        if awaited >= 0 and record.stream != record.waits_for:
            named.setdefault(record.stream, []).append((call.start, awaited))

    def _at_record(self, record: SyncRecord, otherwise: int) -> int:
        """The last operation on the awaited stream when its event was recorded."""
        stream = self.streams.get(record.waits_for)
        recorded = self.calls.get(record.record)
        return stream.before(recorded.start if recorded else otherwise) if stream else -1

    def _infer(self, call: RuntimeCall, waiting: int, moment: int) -> None:
        """An unnamed event: what had been launched before, elsewhere, and had ended when this one
        started."""
        op = self.trace.device[waiting]
        source = self.last.get(call.thread, "") if op.communicates else ""
        best = -1
        for name, stream in self.streams.items():
            if name == op.stream or (source and source not in (op.stream, name)):
                continue
            awaited = self._ended(stream, moment, op.start)
            if awaited >= 0 and (
                best < 0 or self.trace.device[awaited].end > self.trace.device[best].end
            ):
                best = awaited
        self.found.inferred += 1
        self._add(waiting, best)

    def _ended(self, stream: _Stream, launched_before: int, ended_by: int) -> int:
        at = bisect_left(stream.launched, launched_before)
        tried = stream.ops[max(0, at - 64) : at]
        return next(
            (i for i in reversed(tried) if self.trace.device[i].end <= ended_by + _SLACK), -1
        )

    def _host_wait(self, call: RuntimeCall, kind: str) -> None:
        record = self.records.get(call.correlation)
        awaited: list[int] = []
        if kind == "device":
            awaited = [stream.before(call.start) for stream in self.streams.values()]
        elif record is not None and record.waits_for and kind == "event":
            awaited = [self._at_record(record, call.start)]
        elif record is not None and record.stream and kind == "stream":
            awaited = [self.streams.get(record.stream, _Stream()).before(call.start)]
        else:
            awaited = [self._likely(call)]
        awaited = [i for i in awaited if i >= 0 and self.trace.device[i].end <= call.end + _SLACK]
        self.found.unexplained += not awaited
        self.found.host.append((call, tuple(awaited)))

    def _likely(self, call: RuntimeCall) -> int:
        """The operation that ended last, among the last operations on each stream that had ended by
        the end of the call."""
        ended = [self._ended(stream, call.start, call.end) for stream in self.streams.values()]
        during = [i for i in ended if i >= 0 and self.trace.device[i].end >= call.start]
        own = self.streams.get(self.last.get(call.thread, ""), _Stream()).before(call.start)
        self.found.inferred += 1
        return max(during, key=lambda i: self.trace.device[i].end, default=own)


def _sync_kind(name: str) -> str:
    """`device`, `stream` or `event` for calls in which the host waits, whoever's runtime it is;
    else empty."""
    if not name.endswith(("Synchronize", "Synchronize_v2", "Synchronize_spt")):
        return ""
    return (
        next((kind for kind in ("Device", "Ctx", "Stream", "Event") if kind in name), "")
        .lower()
        .replace("ctx", "device")
    )


def _may_block(call: str, copy: str) -> bool:
    """Copies from and to pageable memory and those not called asynchronous keep the host until they
    are done."""
    return "Async" not in call or "Pageable" in copy or "DtoH" in copy


def find(trace: Trace, links: Launches) -> Waits:
    """Every wait in a trace."""
    return _Finder(trace, links).run()


class Neighbours:
    """Looks for an operation of another stream whose end explains a late start."""

    def __init__(self, trace: Trace, device: tuple[int, ...]) -> None:
        self._trace = trace
        self._by_end = sorted(device, key=lambda i: trace.device[i].end)
        self._ends = [trace.device[i].end for i in self._by_end]

    def cause(self, waiting: int, launched: int, ready: int) -> int:
        """An operation that ended within 10 us before `waiting` started, after it was otherwise
        ready; -1 if none."""
        op = self._trace.device[waiting]
        for candidate in self._ending(max(op.start - _NEAR, ready), op.start):
            other = self._trace.device[candidate]
            if other.stream != op.stream and other.start < op.start and launched <= op.start:
                return candidate
        return -1

    def _ending(self, after: int, until: int) -> Iterator[int]:
        low, high = bisect_right(self._ends, after), bisect_right(self._ends, until)
        yield from reversed(self._by_end[low:high])
