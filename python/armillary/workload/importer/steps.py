"""Which part of a trace is one training step.

Here: `ProfilerStep#n` annotations, a steady one among them, the operations that belong to it. Not
here: dependencies.

A device may lag behind its host: when the annotation begins, work of the step before still runs,
and when it ends, so does its own. The host is ahead by the smaller of the two lags, its head start.
A step that leaves a larger lag than it found took longer: step time = span of the annotation + lag
at its end - head start, with head start = min(lag at its start, lag at its end)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InputError, Problem
from ...units import PS_PER_MS, PS_PER_S
from .kineto import Trace
from .linking import Launches

PREFIX = "ProfilerStep#"
_LONGEST = 86_400 * 10**12


@dataclass(frozen=True)
class RecordedStep:
    """A window on the host, picoseconds on the trace's clock. `number` -1 is the whole trace."""

    number: int
    start: int
    end: int

    @property
    def span(self) -> int:
        """Length of the annotation."""
        return self.end - self.start


def annotated(trace: Trace) -> dict[int, RecordedStep]:
    """The host's `ProfilerStep` annotations by number."""
    found: dict[int, RecordedStep] = {}
    for op in trace.ops:
        number = op.name.removeprefix(PREFIX)
        if op.annotation and op.name.startswith(PREFIX) and re.fullmatch("[0-9]{1,18}", number):
            found.setdefault(int(number), RecordedStep(int(number), op.start, op.end))
    return found


def whole(trace: Trace) -> RecordedStep:
    """Everything from the first event to the last."""
    starts = [found[0].start for found in (trace.ops, trace.calls, trace.device) if found]
    ends = [op.end for op in trace.ops] + [call.end for call in trace.calls] or [
        op.end for op in trace.device
    ]
    step = RecordedStep(-1, min(starts), max(ends))
    if step.span > _LONGEST:
        message = f"its events are spread over {step.span / PS_PER_S:,.0f} s"
        raise InputError(
            [
                Problem(
                    trace.file,
                    "ts",
                    message,
                    "times of one clock, a day at most from first to last",
                )
            ]
        )
    return step


def choose(
    traces: Sequence[Trace], links: Sequence[Launches], wanted: int | None
) -> list[RecordedStep]:
    """One step a rank, the same number on all: the wanted one, else a steady one, else everything.

    Steady: of the steps on every rank with device work, without the first when there are others,
    the one whose devices lag at its end as they did at its start (to a twentieth of its length),
    and of those the one of median length. Raises `InputError` when the wanted step is not on every
    rank, naming those that are."""
    steps = [annotated(trace) for trace in traces]
    common = sorted(set.intersection(*map(set, steps))) if steps else []
    if wanted is not None and wanted not in common:
        raise InputError(_missing(traces, steps, wanted, common))
    if not common:
        without = [trace.file for trace, found in zip(traces, steps, strict=True) if not found]
        if any(steps):
            raise InputError([_mixed(traces, steps, len(without))])
        return [whole(trace) for trace in traces]
    if wanted is not None:
        return [found[wanted] for found in steps]
    rows = [[found[number] for found in steps] for number in common]
    busy = [row for row in rows if any(map(_has_device_work, traces, links, row))] or rows
    return _steady(traces, links, busy[1:] or busy)


def _has_device_work(trace: Trace, link: Launches, step: RecordedStep) -> bool:
    return bool(window(trace, link, step).device)


def _steady(
    traces: Sequence[Trace], links: Sequence[Launches], rows: list[list[RecordedStep]]
) -> list[RecordedStep]:
    lengths = [sum(step.span for step in row) for row in rows]
    median = sorted(lengths)[len(lengths) // 2]
    drifts = [
        sum(
            window(trace, link, step).drift
            for trace, link, step in zip(traces, links, row, strict=True)
        )
        for row in (rows if len(rows) > 1 else [])
    ]
    ranked = [
        (20 * drift // max(1, length), abs(length - median), place)
        for place, (drift, length) in enumerate(zip(drifts, lengths, strict=False))
    ]
    return rows[min(ranked)[2] if ranked else 0]


def said(traces: Sequence[Trace], chosen: Sequence[RecordedStep]) -> list[str]:
    """The median and the slowest of several steps that every rank has, and the one that is
    imported; a step is as long as its longest rank."""
    steps = [annotated(trace) for trace in traces]
    common = sorted(set.intersection(*map(set, steps)))
    if len(common) < 2:
        return []
    spans = {number: max(found[number].span for found in steps) for number in common}
    ranked = sorted(common, key=lambda number: spans[number])
    median, slowest = ranked[(len(ranked) - 1) // 2], ranked[-1]
    named = [f"step {each}, {spans[each] / PS_PER_MS:,.3f} ms" for each in (median, slowest)]
    return [
        f"{len(common)} steps were recorded: the median is {named[0]}, the slowest {named[1]}; "
        f"step {chosen[0].number} is imported (--step N imports another one)"
    ]


def _missing(
    traces: Sequence[Trace], steps: list[dict[int, RecordedStep]], wanted: int, common: list[int]
) -> list[Problem]:
    works = "steps on every rank: " + (
        " ".join(map(str, common)) or "none; leave --step out for the whole trace"
    )
    return [
        Problem(
            trace.file,
            f"step {wanted}",
            f"no annotation {PREFIX}{wanted}; it has {_numbers(found)}",
            works,
        )
        for trace, found in zip(traces, steps, strict=True)
        if wanted not in found
    ]


def _mixed(traces: Sequence[Trace], steps: list[dict[int, RecordedStep]], without: int) -> Problem:
    said = "; ".join(
        f"{t.file}: {_numbers(found)}" for t, found in list(zip(traces, steps, strict=True))[:4]
    )
    message = f"no step is on all {len(traces)} ranks ({without} have none at all): {said}"
    return Problem("", "ranks", message, "traces of the same run, recorded over the same steps")


def _numbers(found: dict[int, RecordedStep]) -> str:
    return " ".join(map(str, sorted(found))) or "no steps"


@dataclass(frozen=True)
class Window:
    """A step with its device work. `before` is the end of the device work that was launched
    earlier, 0 without any."""

    step: RecordedStep
    device: tuple[int, ...]
    """Indices into `Trace.device`, by start."""
    before: int
    until: int
    """End of the step's own device work, 0 without any."""

    @property
    def recorded(self) -> int:
        """The recorded step time, picoseconds."""
        return self.step.span + self.lag_after - self.head_start

    @property
    def head_start(self) -> int:
        """How far the host was ahead of its device, at the step's start and again at its end."""
        return min(self.lag_before, self.lag_after)

    @property
    def drift(self) -> int:
        """By how much the device's lag at the end differs from that at the start; about zero for a
        steady step."""
        return abs(self.lag_after - self.lag_before)

    @property
    def lag_before(self) -> int:
        """How long after the step's start device work of before still ran."""
        return max(0, self.before - self.step.start)

    @property
    def lag_after(self) -> int:
        """How long after the step's end its device work still ran."""
        return max(0, self.until - self.step.end)


def window(trace: Trace, links: Launches, step: RecordedStep) -> Window:
    """The device operations that `step` launched, and those without a known launch that ran among
    them."""
    own, earlier, unknown = [], [0], []
    for index, op in enumerate(trace.device):
        call = links.call[index]
        if call < 0:
            unknown.append(index)
        elif step.start <= trace.calls[call].start < step.end or step.number < 0:
            own.append(index)
        elif trace.calls[call].start < step.start:
            earlier.append(op.end)
    begin = min((trace.device[i].start for i in own), default=step.start)
    end = max((trace.device[i].end for i in own), default=step.end)
    if step.number < 0:
        begin, end = 0, 1 << 63
    own += [i for i in unknown if begin <= trace.device[i].start < end]
    earlier += [trace.device[i].end for i in unknown if trace.device[i].start < begin]
    own.sort()
    before = max(earlier)
    return Window(step, tuple(own), before, max((trace.device[i].end for i in own), default=0))
