"""Steps of a run in a profile of XLA.

Here: which line or annotation marks them, the runs of a module in their place, and the waits of a
host at their ends. Not here: which of them is taken (`steps.py`).

- TPUs have a line `Steps`. Hosts mark steps by annotations with `step_num`
  (`jax.profiler.StepTraceAnnotation`). Of several names the one that takes most time counts.
- JAX does not record when a host waits for a result. If the work of a step has ended before the
  step has, its host is taken to have waited from its last launch on. A host waits for the last of
  its devices, so the step of another one ends as much earlier as its work does."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .kineto import HostOp, RuntimeCall, Trace
from .reading import Event
from .steps import PREFIX
from .xprof_ops import STEPS, Device, Host
from .xspace import Span

_NOTHING = Event()


def marked(hosts: Sequence[Host], devices: Sequence[Device]) -> tuple[list[list[HostOp]], str]:
    """Annotations of the steps of each rank, and a note or nothing."""
    if all(device.kind == "TPU" for device in devices):
        lines = [_device_steps(device) for device in devices]
        if all(lines):
            return [_numbered(found) for found in lines], ""
    else:
        annotated = [_annotated(hosts[device.host]) for device in devices]
        if any(annotated):
            return annotated, ""
        if devices[0].kind == "GPU":
            return annotated, ""
    return _runs(devices)


def _runs(devices: Sequence[Device]) -> tuple[list[list[HostOp]], str]:
    """The runs of the module that takes most time, as steps."""
    rows = [_runs_of(device) for device in devices]
    totals: Counter[str] = Counter()
    for row in rows:
        for start, end, name in row:
            totals[name] += end - start
    for name, _ in totals.most_common(1):
        found = [[(a, b) for a, b, each in row if each == name] for row in rows]
        counts = {len(each) for each in found}
        if len(counts) == 1 and counts.pop() > 1:
            note = (
                f"no step is marked: the {len(found[0])} runs of the module {name[:80]} are the "
                "steps; jax.profiler.StepTraceAnnotation marks them"
            )
            return [_numbered(_up_to_the_next(each)) for each in found], note
    return [[] for _ in devices], ""


def _up_to_the_next(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Number, start and end of each run: it lasts until the next one begins."""
    starts = [start for start, _ in runs]
    return [
        (place, start, starts[place + 1] if place + 1 < len(runs) else end)
        for place, (start, end) in enumerate(runs)
    ]


@dataclass
class _End:
    """The end of a step of a rank: its last launch, and the end of the device's work."""

    trace: Trace
    step: HostOp
    last: RuntimeCall
    until: int


def end_waits(traces: Sequence[Trace]) -> int:
    """Adds waits for the devices of a host at the ends of steps. Returns their number."""
    found: dict[str, list[_End]] = {}
    for trace in traces:
        starts = [call.start for call in trace.calls]
        ends: dict[int, int] = {}
        for op in trace.device:
            ends[op.correlation] = max(op.end, ends.get(op.correlation, 0))
        for step in trace.ops:
            low, high = bisect_left(starts, step.start), bisect_left(starts, step.end)
            own = trace.calls[low:high]
            launches = [call for call in own if call.correlation and call.correlation in ends]
            if not launches:
                continue
            last = max(launches, key=lambda call: call.end)
            until = max(ends[call.correlation] for call in launches)
            is_recorded = any("Synchronize" in call.name and call.end >= last.end for call in own)
            if last.end < until <= step.end and not is_recorded:
                found.setdefault(step.name, []).append(_End(trace, step, last, until))
    for each in found.values():
        latest = max(end.until for end in each)
        for end in each:
            end.step.end -= latest - end.until
            name, thread = "end of step: DeviceSynchronize", end.last.thread
            wait = RuntimeCall(name, thread, end.last.end, end.step.end, 0)
            end.trace.calls.append(wait)
    for trace in traces:
        trace.calls.sort(key=lambda call: (call.start, call.end))
    return sum(map(len, found.values()))


def _annotated(host: Host) -> list[HostOp]:
    """The steps that a host marked: of several names, the one that takes most time."""
    totals: Counter[str] = Counter()
    for name, _, _, start, end in host.steps:
        totals[name] += end - start
    if not totals:
        return []
    most = max(sorted(totals), key=lambda name: totals[name])
    chosen = [each for each in host.steps if each[0] == most]
    chosen.sort(key=lambda each: (each[3], -each[4]))
    numbers = [number for _, number, _, _, _ in chosen]
    if len({*numbers}) < len(numbers):
        numbers = list(range(len(chosen)))
    return [
        HostOp(f"{PREFIX}{number}", thread, start, end, _NOTHING, True)
        for number, (_, _, thread, start, end) in zip(numbers, chosen, strict=True)
    ]


def _device_steps(device: Device) -> list[tuple[int, int, int]]:
    """Number, start and end of the steps of a TPU."""
    spans = [
        span
        for line in device.plane.lines
        if line.name == STEPS
        for span in line.events()
        if span.end > span.start
    ]
    spans.sort(key=lambda span: (span.start, span.end))
    numbers = [_step_number(span) for span in spans]
    if len({*numbers}) < len(numbers) or min(numbers, default=0) < 0:
        numbers = list(range(len(spans)))
    return [(number, span.start, span.end) for number, span in zip(numbers, spans, strict=True)]


def _step_number(span: Span) -> int:
    said = span.word("step_name") or span.name
    found = re.search(r"(\d{1,15})\s*$", said[-40:])
    return int(found[1]) if found else span.number("group_id")


def _numbered(found: Sequence[tuple[int, int, int]]) -> list[HostOp]:
    thread = ("device", STEPS)
    return [
        HostOp(f"{PREFIX}{number}", thread, start, end, _NOTHING, True)
        for number, start, end in found
    ]


def _runs_of(device: Device) -> list[tuple[int, int, str]]:
    """Start, end and module of each run of a module on a device."""
    if device.runs.spans:
        return [(start, end, name) for start, end, name, _ in device.runs.spans]
    runs: dict[tuple[str, int], tuple[int, int]] = {}
    for span in device.spans():
        key = (span.word("hlo_module"), span.number("run_id"))
        if key[1] >= 0:
            start, end = runs.get(key, (span.start, span.end))
            runs[key] = (min(start, span.start), max(end, span.end))
    return sorted((start, end, name) for (name, _), (start, end) in runs.items())
