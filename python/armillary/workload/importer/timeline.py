"""One rank's step as a graph: host work, kernels and communication with everything they wait for.

Here: the chain of host work between launches and synchronisations, order on streams, launches,
waits; durations; the check for cycles. Not here: programs (`building.py`), waits themselves
(`waits.py`).

- PyTorch's threads of a rank take turns: the thread that calls backward waits for autograd's, and
  the interpreter has one lock. So the moments at which they launch or finish waiting form ONE
  chain. The host time between two moments is a node, less the time in which the host waited for the
  device. This keeps launch-bound steps and hand-overs between threads exactly.
- A kernel that found its stream idle depends on the host at its own start, which keeps the launch
  latency. A kernel that queued depends on the return of its launch call.
- An NPU runs one compute node at a time. So where kernels overlapped, each has the time in which no
  kernel that started earlier was running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .annotations import Annotations
from .kineto import DeviceOp, RuntimeCall, Trace
from .linking import Launches, is_blocking_copy
from .steps import Window
from .waits import LONG_LAUNCH, Neighbours, Waits

_LATENCY = 30_000_000
"""Picoseconds after its launch call began within which a start is the launch's own latency. Half of
it would leave 22 % of a recorded step (BERT on MI300) without a cause.

This and the next two are assumptions. They change no replay: with half and twice the value, replays
of 14 public recordings (TraceLens, HTA, TrioSim, DeepSeek's profile-data) take the same time."""
_COPY = 10_000_000
"""Picoseconds that a call takes to begin a copy for which it then waits. Half and twice the value
change the time without a cause by at most 0.3 % of a step."""
_LATE = 5_000_000
"""Picoseconds of idling before a start from which a cause is sought. Half and twice the value
change the time without a cause by less than 0.1 % of a step."""


@dataclass(slots=True)
class TimelineItem:
    """A node to be. Times are those recorded.

    `op` is an index into `Trace.device`, -1 for host work, -2 - k for the k-th call of the host
    without a kernel."""

    name: str
    start: int
    end: int
    duration: int
    op: int
    deps: list[int]
    layer: str = ""
    """Outermost annotation that it was launched in; empty where there was none."""
    computes: bool = False
    """Whether the host is what computes, so that its work is that of an NPU."""
    work: str = ""
    """The kind of its kernel; where empty, its name says it."""


@dataclass
class Timeline:
    """The graph of a step, every dependency on an earlier item; times in picoseconds."""

    items: list[TimelineItem]
    window: Window
    host: int = 0
    waited: int = 0
    """Host time spent waiting for this step's device work."""
    waited_before: int = 0
    """Host time spent waiting for the work of the step before; kept as host work: nothing in this
    step explains it."""
    late: int = 0
    """Time the device idled before operations for no recorded reason; kept in their durations."""
    overlapped: int = 0
    """Kernel time that overlaps with other kernels."""
    kernels: int = 0
    """Kernel time in all, without communication."""
    blocked: int = 0
    """Host time in launches of more than 100 us: a full launch queue, or loading of code."""
    unlaunched: int = 0
    inferred: int = 0
    dropped: list[str] = field(default_factory=list)
    """Dependencies that contradict the recorded order, as `waiting <- awaited`."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of operations or calls behind the times `waited_before`, `late`, `overlapped` and
    `blocked`."""

    def tally(self, what: str, time: int) -> None:
        """Adds to one of those times."""
        setattr(self, what, getattr(self, what) + time)
        self.counts[what] += time > 0


_Row = tuple[tuple[int, int], TimelineItem, tuple[str, int], list[tuple[str, int]]]
"""Place in time, item, identity, identities it depends on."""


def build(
    trace: Trace, links: Launches, waits: Waits, window: Window, hosted: Sequence[int] = ()
) -> Timeline:
    """The graph of the step in `window`; `hosted` are indices of operators that communicate without
    a kernel."""
    return _Builder(trace, links, waits, window, hosted).run()


class _Builder:
    def __init__(
        self, trace: Trace, links: Launches, waits: Waits, window: Window, hosted: Sequence[int]
    ) -> None:
        self.trace, self.links, self.waits, self.window = trace, links, waits, window
        step = window.step
        self.hosted = [
            (k, i) for k, i in enumerate(hosted) if step.start <= trace.ops[i].start < step.end
        ]
        self.line = Timeline([], window, inferred=waits.inferred)
        self.members = set(window.device)
        self.cut: dict[int, int] = {}
        """Device operation -> when the host is far enough for it."""
        self.previous = self._stream_order()
        self.annotations = Annotations(trace)

    def run(self) -> Timeline:
        self._cut_launches()
        items = [*self._host(), *self._device(), *self._calls()]
        self._order(items)
        return self.line

    def _stream_order(self) -> dict[int, int]:
        last: dict[str, int] = {}
        previous = {}
        for index in self.window.device:
            stream = self.trace.device[index].stream
            previous[index] = last.get(stream, -1)
            last[stream] = index
        return previous

    def _cut_launches(self) -> None:
        for index in self.window.device:
            call = self.links.call[index]
            if call < 0:
                self.line.unlaunched += 1
                self._cut_unlaunched(index)
                continue
            launch, first = self.trace.calls[call], self.links.launched[call][0]
            cut = self.cut.get(first) if index != first else None
            self.cut[index] = (
                cut if cut is not None else self._cut(launch, self.trace.device[index])
            )
            self.line.tally(
                "blocked", max(0, launch.end - launch.start - LONG_LAUNCH) if index == first else 0
            )

    def _cut_unlaunched(self, index: int) -> None:
        """The first operation of a stream hangs on the host at its own start if its launch is
        unknown."""
        start, step = self.trace.device[index].start, self.window.step
        if (
            self.previous[index] < 0
            and step.start < start < step.end
            and not self.window.lag_before
        ):
            self.cut[index] = start

    def _cut(self, launch: RuntimeCall, op: DeviceOp) -> int:
        """When the host had done its part. A call that waits for its own copy had done it soon
        after it began."""
        if is_blocking_copy(launch, op):
            return min(op.start, launch.start + _COPY)
        at_start = op.start <= max(launch.end, launch.start + _LATENCY)
        return op.start if at_start else launch.end

    def _host(self) -> list[_Row]:
        """Host work up to each moment that matters, in a chain."""
        step = self.window.step
        points: list[tuple[int, int, str, tuple[int, ...]]] = [(step.end, 2, "end of step", ())]
        starts = {self.cut[i]: i for i in self.window.device if i in self.cut}
        points += [(moment, 1, self._launching(i), ()) for moment, i in starts.items()]
        points += [
            (self.trace.ops[i].start, 1, f"host until {self.trace.ops[i].name}", ())
            for _, i in self.hosted
        ]
        for call, awaited in self.waits.host:
            if step.start <= call.start and call.end <= step.end:
                # Host work before the wait stays when the wait becomes shorter.
                points.append((call.start, 1, f"host until {call.name}", ()))
                points.append((call.end, 0, call.name, awaited))
        rows: list[_Row] = []
        now, last = step.start + self.window.head_start, -1
        for moment, _, name, awaited in sorted(points):
            begin = self._after_wait(now, moment, awaited)
            item = TimelineItem(name, begin, moment, moment - begin, -1, [], "host")
            deps = [("host", last)] if last >= 0 else []
            deps += [("op", i) for i in awaited if i in self.members]
            last = moment
            rows.append(((moment, 0), item, ("host", moment), deps))
            self.line.host += item.duration
            now = max(now, moment)
        rows[-1][3].extend(("call", k) for k, _ in self.hosted)
        return _merge(rows)

    def _calls(self) -> list[_Row]:
        """Communication with only the host's side recorded: after the host's work until then, in
        its order."""
        rows: list[_Row] = []
        for place, (k, index) in enumerate(self.hosted):
            op = self.trace.ops[index]
            deps = [("host", op.start)] + ([("call", self.hosted[place - 1][0])] if place else [])
            layer = self.annotations.at(op.thread, op.start)
            rows.append(
                (
                    (op.start, 1),
                    TimelineItem(op.name, op.start, op.end, 0, -2 - k, [], layer),
                    ("call", k),
                    deps,
                )
            )
        return rows

    def _layer(self, op: int) -> str:
        call = self.links.call[op]
        launch = self.trace.calls[call] if call >= 0 else None
        return self.annotations.at(launch.thread, launch.start) if launch else ""

    def _launching(self, op: int) -> str:
        call = self.links.call[op]
        return (
            f"host until {self.trace.calls[call].name if call >= 0 else self.trace.device[op].name}"
        )

    def _after_wait(self, now: int, moment: int, awaited: tuple[int, ...]) -> int:
        """Where host work begins again, at most `moment`: after the wait for this step's device
        work, if any."""
        ended = max((self.trace.device[i].end for i in awaited if i in self.members), default=0)
        begin = min(max(now, ended), moment)
        self.line.waited += max(0, begin - now)
        if awaited and not ended:
            self.line.tally("waited_before", max(0, moment - now))
        return begin

    def _device(self) -> list[_Row]:
        neighbours = Neighbours(self.trace, self.window.device)
        rows: list[_Row] = []
        # Until then the device worked for steps before: that explains any start, and holds what ran
        # at the same time.
        busy = self.window.before
        for index in self.window.device:
            op = self.trace.device[index]
            deps = self._deps(index)
            ready = self._ready(index, deps)
            if (
                op.start - ready > _LATE
                and (cause := neighbours.cause(index, self.cut.get(index, 0), ready)) >= 0
            ):
                deps.append(("op", cause))
                self.line.inferred += 1
                ready = max(ready, self.trace.device[cause].end)
            communicates = op.communicates
            late = max(0, op.start - max(ready, 0 if communicates else busy)) if ready else 0
            alone = op.end - op.start if communicates else max(0, op.end - max(op.start, busy))
            self._count(op, communicates, late, alone)
            busy = busy if communicates else max(busy, op.end)
            rows.append(
                (
                    (op.start, 1),
                    TimelineItem(
                        op.name,
                        op.start,
                        op.end,
                        alone + late,
                        index,
                        [],
                        op.layer or self._layer(index),
                        work=op.work,
                    ),
                    ("op", index),
                    deps,
                )
            )
        return rows

    def _count(self, op: DeviceOp, communicates: bool, late: int, alone: int) -> None:
        self.line.tally("late", late)
        if not communicates:
            self.line.kernels += op.end - op.start
            self.line.tally("overlapped", op.end - op.start - alone)

    def _deps(self, index: int) -> list[tuple[str, int]]:
        deps = [("host", self.cut[index])] if index in self.cut else []
        deps += [("op", self.previous[index])] if self.previous[index] >= 0 else []
        return deps + [
            ("op", i) for i in sorted(self.waits.streams.get(index, ())) if i in self.members
        ]

    def _ready(self, index: int, deps: list[tuple[str, int]]) -> int:
        """When everything known had happened; 0 where the stream still worked for the step
        before."""
        ends = [self.trace.device[i].end for kind, i in deps if kind == "op"]
        if not ends and self.window.before > self.trace.device[index].start - _LATENCY:
            return 0
        return max([self.cut.get(index, 0), *ends])

    def _order(self, rows: list[_Row]) -> None:
        """Items by time; dependencies as indices, those on a later item dropped and named."""
        rows.sort(key=lambda row: row[0])
        place = {identity: number for number, (_, _, identity, _) in enumerate(rows)}
        for number, (_, item, _, deps) in enumerate(rows):
            wanted = sorted({place[dep] for dep in deps})
            item.deps = [dep for dep in wanted if dep < number]
            self.line.dropped += [
                f"{item.name} <- {rows[dep][1].name}" for dep in wanted if dep > number
            ]
            self.line.items.append(item)


def _merge(rows: list[_Row]) -> list[_Row]:
    """Host moments of the same instant as one."""
    merged: dict[tuple[str, int], _Row] = {}
    for key, item, identity, deps in rows:
        if identity in merged:
            merged[identity][3].extend(dep for dep in deps if dep != identity)
            merged[identity][1].duration += item.duration
        else:
            merged[identity] = (key, item, identity, deps)
    return list(merged.values())
