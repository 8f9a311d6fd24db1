"""The step of a rank whose device alone was recorded as a graph: what each operation waited for.

Here: traces of devices that run a program by themselves, such as TPUs, where no launch of the host
explains a start. Not here: traces with launches (`timeline.py`), hosts without a device
(`host_line.py`).

- An operation waits for the one before it on its stream, and for what its reader knows (the
  collective that an `all-gather-done` ended).
- If it starts later than these ended, it waits for the operation that ended last before it started,
  on any stream.
- What is left is idle time. That of a computation is in its duration; that before communication,
  and before the end of the step, is a node of its own, so that it stays when communication becomes
  faster.
- An NPU runs one compute node at a time. Where computations overlapped, each has the time in which
  no earlier one was running."""

from __future__ import annotations

import heapq

from .kineto import Trace
from .steps import Window
from .timeline import Timeline, TimelineItem
from .waits import Waits


def build(trace: Trace, waits: Waits, window: Window) -> Timeline:
    """The graph of the step in `window`."""
    return _Builder(trace, waits, window).run()


class _Builder:
    def __init__(self, trace: Trace, waits: Waits, window: Window) -> None:
        self.trace, self.waits, self.window = trace, waits, window
        self.line = Timeline([], window)
        self.begin = window.step.start + window.head_start
        self.busy = self.begin
        """Until when the NPU computes."""
        self.place: dict[int, int] = {}
        """Device operation -> its item."""
        self.idled: tuple[int, int] = (self.begin, -1)
        """The last moment that an idle item reaches, and the item."""
        self.running: list[tuple[int, int]] = []
        """End and number of operations that have not ended."""
        self.latest = -1
        """The operation that ended last."""

    def run(self) -> Timeline:
        last: dict[str, int] = {}
        for index in self.window.device:
            op = self.trace.device[index]
            self._end_until(op.start)
            self._add(index, last.get(op.stream, -1))
            last[op.stream] = index
            if not (op.after and op.communicates):
                # The operations that wait for such a collective are known from their reader.
                heapq.heappush(self.running, (op.end, index))
        self._close(list(last.values()))
        return self.line

    def _end_until(self, moment: int) -> None:
        while self.running and self.running[0][0] <= moment:
            self.latest = heapq.heappop(self.running)[1]

    def _add(self, index: int, before: int) -> None:
        device = self.trace.device
        op = device[index]
        causes = {before} if before >= 0 else set()
        for awaited in self.waits.streams.get(index, ()):
            if awaited not in self.place:
                continue
            if device[awaited].end > op.start:
                self.line.dropped.append(f"{op.name} <- {device[awaited].name}")
            else:
                causes.add(awaited)
        ready = self._ready(causes)
        if self.latest >= 0 and op.start > ready and device[self.latest].end > ready:
            causes.add(self.latest)
            self.line.inferred += 1
            ready = device[self.latest].end
        deps = sorted(self.place[each] for each in causes)
        length = op.end - op.start
        late = max(0, op.start - max(ready, self.begin))
        if op.communicates:
            if late:
                deps = [self._idle(op.start, deps, ready, f"idle until {op.name}")]
        else:
            late = max(0, op.start - max(ready, self.busy))
            alone = max(0, op.end - max(op.start, self.busy))
            self.line.kernels += length
            self.line.tally("overlapped", length - alone)
            self.busy = max(self.busy, op.end)
            length = alone + late
        self.line.tally("late", late)
        item = TimelineItem(op.name, op.start, op.end, length, index, deps, op.layer, work=op.work)
        self.place[index] = self._append(item)

    def _ready(self, causes: set[int]) -> int:
        return max((self.trace.device[each].end for each in causes), default=self.begin)

    def _idle(self, moment: int, deps: list[int], ready: int, name: str) -> int:
        """Idle time up to a moment. Such times follow each other: a host does one thing at a
        time."""
        until, item = self.idled
        start = max(ready, until)
        if item >= 0:
            deps = sorted({*deps, item})
        length = max(0, moment - start)
        place = self._append(TimelineItem(name, start, moment, length, -1, deps, "idle"))
        self.idled = (max(until, moment), place)
        return place

    def _close(self, last: list[int]) -> None:
        """The end of the step, after everything in it."""
        ready = self._ready(set(last))
        end = max(self.window.step.end, ready)
        deps = sorted(self.place[each] for each in last)
        self.line.tally("late", end - ready)
        self._idle(end, deps, ready, "end of step")

    def _append(self, item: TimelineItem) -> int:
        self.line.items.append(item)
        return len(self.line.items) - 1
