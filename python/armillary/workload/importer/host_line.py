"""The step of a rank without a device as a graph: the parts of its host's work, and exchanges.

Here: traces whose host does all of the work, part by part as ranges name them. Such a process is
what an NPU is elsewhere, so its parts are computations of an NPU. Not here: traces
with a device, whose host only matters where it launches or waits (`timeline.py`), the ranges
themselves (`ranges.py`).

- The moments at which another range begins or ends, and those around exchanges, form one chain. The
  time between two moments is a node with the name of the innermost range.
- An exchange lasts from where this rank begins it to where it has waited for it, which is what a
  replay takes. Otherwise the network decides. In the wait the host does no work. A replay carries
  out the exchanges of a rank one by one, so each has the time after the last one that ended
  before it.
- An exchange that was begun in the step before, and is awaited in this one, begins with the
  step."""

from __future__ import annotations

from collections.abc import Sequence

from .communication import Communication
from .kineto import Trace
from .ranges import Parts
from .steps import Window
from .timeline import Timeline, TimelineItem


def has_parts(trace: Trace) -> bool:
    """Whether a trace without a device has ranges that name what its host does."""
    return not trace.device and any(op.annotation and op.name == "data" for op in trace.ops)


def build(trace: Trace, window: Window, found: Communication) -> Timeline:
    """The graph of the step in `window`."""
    return _Builder(trace, window, found).run()


class _Builder:
    def __init__(self, trace: Trace, window: Window, found: Communication) -> None:
        self.trace, self.window, self.found = trace, window, found
        self.step, self.parts = window.step, Parts(trace)
        self.line = Timeline([], window)
        self.begins: dict[int, list[int]] = {}
        """Moment -> calls that begin then."""
        self.ends: dict[int, list[int]] = {}
        """Moment -> calls that the host has waited for until then."""
        self._last = -1
        self._lengths: dict[int, int] = {}
        """Call -> its time that no earlier wait covers."""
        self._place: dict[int, int] = {}
        """Call -> its item."""

    def run(self) -> Timeline:
        for k, (index, _) in enumerate(self.found.hosted):
            self._sort(k, index)
        self._measure()
        step, now = self.step, self.step.start
        self._begin(now)
        for moment in self._moments():
            awaited = self.ends.get(moment, [])
            wait = self._waited(awaited)
            self._host(now, moment, awaited, waits=bool(awaited) and wait <= now)
            self._begin(moment)
            now = moment
        self.line.items[-1].deps = sorted({*self.line.items[-1].deps, *self._unawaited(step.end)})
        return self.line

    def _sort(self, k: int, index: int) -> None:
        """Where a call begins and is awaited, if that is in this step."""
        step, begin = self.step, self.trace.ops[index].start
        wait = self.found.waits.get(k, -1)
        end = self.trace.ops[wait].end if wait >= 0 else begin
        if end <= step.start or begin >= step.end:
            return
        self.begins.setdefault(max(begin, step.start), []).append(k)
        if wait >= 0 and end <= step.end:
            self.ends.setdefault(end, []).append(k)

    def _measure(self) -> None:
        started = {k: moment for moment, each in self.begins.items() for k in each}
        before = 0
        for end in sorted(self.ends):
            for k in self.ends[end]:
                self._lengths[k] = max(0, end - max(started[k], before))
                before = end

    def _moments(self) -> Sequence[int]:
        step = self.step
        waits = [
            self.trace.ops[self.found.waits[k]].start for each in self.ends.values() for k in each
        ]
        found = {*self.parts.between(step.start, step.end), *self.begins, *self.ends, *waits}
        return sorted(moment for moment in {*found, step.end} if moment > step.start)

    def _waited(self, awaited: Sequence[int]) -> int:
        """Where the wait for calls began."""
        return max((self.trace.ops[self.found.waits[k]].start for k in awaited), default=0)

    def _host(self, now: int, moment: int, awaited: Sequence[int], *, waits: bool) -> None:
        """Add the activity of the host between two moments: its work, or a wait."""
        name = self.parts.before(moment) or "host"
        length = 0 if waits else moment - now
        self.line.host += length
        self.line.waited += moment - now - length
        deps = [self._last] if self._last >= 0 else []
        deps += [self._place[k] for k in awaited if k in self._place]
        if waits:
            name = f"wait for {self.found.names[awaited[-1]]}"
        layer = name.rpartition(".")[0] or name
        layer = "wait" if waits else layer
        item = TimelineItem(name, now, moment, length, -1, sorted(deps), layer, not waits)
        self._last = self._add(item)

    def _begin(self, moment: int) -> None:
        for k in self.begins.get(moment, ()):
            length = self._lengths.get(k, 0)
            deps = [self._last] if self._last >= 0 else []
            name = self.found.names[k]
            layer = name.rpartition(".")[0].rpartition(".")[0] or name
            item = TimelineItem(name, moment, moment + length, length, -2 - k, deps, layer)
            self._place[k] = self._add(item)

    def _unawaited(self, end: int) -> list[int]:
        """Calls without a range in which the host waits: they end within the step."""
        return [place for k, place in self._place.items() if k not in self.found.waits]

    def _add(self, item: TimelineItem) -> int:
        self.line.items.append(item)
        return len(self.line.items) - 1
