"""Recorded times that contradict each other: what is mended, and what is only counted.

Here: device operations that run into the next one of their stream, past a call that waited for
them, or past the end of the recording; kernels before their launch; host operators that cross. Not
here: events without a usable time (`kineto.py`), dependencies against the order (`timeline.py`).

A stream works in order. Where an operation seems to last beyond the start of the next one, its end
was written too late, as ROCm does when it flushes late (TraceLens issue 669). It is cut at that
start, as Perfetto draws it. The kernels of one launch of a graph may run side by side on what is
recorded as one stream, so these stay."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from .kineto import Contradictions, DeviceOp, HostOp, RuntimeCall, Thread, Trace

_WAITS = ("cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize", "hipCtxSynchronize")
_SLACK = 1_000_000_000
"""Picoseconds (1 ms) by which the clocks of a host and its device may differ."""
_FLUSH = 100_000_000_000
"""Picoseconds (100 ms) that a profiler takes to stop. A device may work until then."""
_CROSSING = 1_000_000
"""Picoseconds (1 us) by which the ends of nested operators may be rounded."""


def settle(trace: Trace) -> Trace:
    """The same trace, with operations cut whose ends cannot be, and counts of what contradicts."""
    found = trace.contradictions
    _streams(trace, found)
    _waited(trace, found)
    _after_the_end(trace, found)
    found.early = _early(trace)
    found.crossing = _crossing(trace.ops)
    trace.device.sort(key=lambda op: (op.start, op.end))
    return trace


def _streams(trace: Trace, found: Contradictions) -> None:
    """No operation lasts beyond the start of the next launch of its stream."""
    following: dict[tuple[str, str], tuple[DeviceOp, int]] = {}
    for op in reversed(trace.device):
        stream = (op.device, op.stream)
        after, limit = following.get(stream, (None, 0))
        if after is not None and op.correlation and op.correlation == after.correlation:
            following[stream] = (op, limit)
        else:
            limit = after.start if after is not None else 0
            following[stream] = (op, limit)
        if limit and op.end > limit:
            found.shorten(op, max(op.start, limit), "the next operation of their stream")


def _waited(trace: Trace, found: Contradictions) -> None:
    """Kernels launched before a wait for the whole device have ended when it returns."""
    waits = sorted((call.start, call.end) for call in trace.calls if call.name in _WAITS)
    starts = [start for start, _ in waits]
    ends = list(accumulate((end for _, end in reversed(waits)), min))[::-1]
    launched = {call.correlation: call.end for call in trace.calls if call.correlation}
    for op in trace.device:
        place = bisect_left(starts, launched.get(op.correlation, 1 << 63))
        if place < len(ends) and op.start < ends[place] < op.end - _SLACK:
            found.shorten(op, ends[place], "a call that had waited for them")


def _after_the_end(trace: Trace, found: Contradictions) -> None:
    """A profiler records what has ended when it stops, which is soon after the host's last
    event."""
    host: list[HostOp | RuntimeCall] = [*trace.ops, *trace.calls]
    if not host:
        return
    first, last = min(each.start for each in host), max(each.end for each in host)
    latest = last + max(last - first, _FLUSH)
    for op in trace.device:
        if op.start < last and op.end > latest:
            found.shorten(op, last, "the end of the recording")


def _early(trace: Trace) -> int:
    starts = {call.correlation: call.start for call in trace.calls if call.correlation}
    return sum(op.start < starts.get(op.correlation, op.start) for op in trace.device)


def _crossing(ops: list[HostOp]) -> int:
    """Operators by start; those around one are a stack."""
    open_: dict[Thread, list[int]] = {}
    count = 0
    for op in ops:
        if op.annotation:
            continue
        around = open_.setdefault(op.thread, [])
        while around and around[-1] <= op.start:
            around.pop()
        count += bool(around) and op.end > around[-1] + _CROSSING
        around.append(op.end)
    return count
