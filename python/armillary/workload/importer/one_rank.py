"""Everything that is done to one recorded rank: link, choose, order, count.

Here: the order of the stages and the counting. Not here: what needs several ranks (`agreement.py`,
`spread.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import InputError, Problem
from . import (
    communication,
    device_line,
    groups,
    host_line,
    host_trace,
    linking,
    steps,
    timeline,
    waits,
)
from .agreement import Placed
from .collectives import CommunicationCall
from .communication import Communication
from .coverage import Coverage, Omission
from .groups import Members, Resolver
from .kineto import Thread, Trace
from .linking import HostLinks, Launches
from .ranks import Recorded
from .steps import RecordedStep, Window
from .timeline import Timeline
from .waits import Waits

_MOST_BYTES = 2**60


@dataclass
class Analysed:
    """One rank on its way to a program."""

    rank: int
    trace: Trace
    links: Launches
    host: HostLinks
    communication: Communication
    window: Window
    waits: Waits
    line: Timeline
    resolver: Resolver
    placed: list[Placed]


def analyse(
    recorded: Recorded,
    links: Launches,
    step: RecordedStep,
    world: int,
    given: Mapping[str, Members],
) -> Analysed:
    """Links and orders a rank with a Kineto trace. Raises `InputError` for groups that can't be
    known."""
    trace = recorded.trace
    assert trace is not None
    host = linking.host_links(trace, recorded.host) if recorded.host else HostLinks()
    communicated = communication.find(trace, links, host)
    window = steps.window(trace, links, step)
    found = waits.find(trace, links)
    if not trace.has_launches:
        line = device_line.build(trace, found, window)
    elif host_line.has_parts(trace):
        line = host_line.build(trace, window, communicated)
    else:
        line = timeline.build(trace, links, found, window, [op for op, _ in communicated.hosted])
    declared = groups.declared(
        trace.distributed, host_trace.process_groups(recorded.host) if recorded.host else []
    )
    resolver = Resolver(recorded.file, recorded.rank, world, declared, given)
    result = Analysed(
        recorded.rank, trace, links, host, communicated, window, found, line, resolver, []
    )
    result.placed = _place(result)
    return result


def _place(rank: Analysed) -> list[Placed]:
    """The step's calls in the order of issue, with members."""
    kernels, hosted = rank.communication.calls, rank.communication.hosted
    placed: list[Placed] = []
    for number, item in enumerate(rank.line.items):
        calls = [hosted[-2 - item.op][1]] if item.op < -1 else kernels.get(item.op, [])
        for call in calls:
            members = rank.resolver.members(call.group)
            _require_sound(rank, call, len(members))
            placed.append(Placed(call, members, number))
    return placed


def _require_sound(rank: Analysed, call: CommunicationCall, members: int) -> None:
    """Raises `InputError` for a call with a rank that its group does not have, or with more bytes
    than can be."""
    place, group = f"rank {rank.rank}", f"group {call.group.name!r}"
    if max(call.peer, call.root) >= members:
        said = f"a {call.kind} of {group} names rank {max(call.peer, call.root)} of {members}"
        raise InputError([Problem(rank.trace.file, place, said, "ranks and groups of one run")])
    if call.bytes >= _MOST_BYTES:
        said = f"a {call.kind} of {group} has {call.bytes:,} bytes"
        raise InputError([Problem(rank.trace.file, place, said, f"less than {_MOST_BYTES:,}")])


def overlap(rank: Analysed) -> float:
    """Share of the step's host operators' time that two threads were in operators at once."""
    step, threads = rank.window.step, dict[Thread, list[tuple[int, int]]]()
    for op in rank.trace.ops:
        if op.annotation or op.end <= step.start or op.start >= step.end:
            continue
        spans = threads.setdefault(op.thread, [])
        if not spans or op.start >= spans[-1][1]:
            spans.append((op.start, op.end))
    edges = sorted(
        edge
        for spans in threads.values()
        for start, end in spans
        for edge in ((start, 1), (end, -1))
    )
    some = several = depth = before = 0
    for moment, change in edges:
        some += (moment - before) * (depth > 0)
        several += (moment - before) * (depth > 1)
        depth, before = depth + change, moment
    return several / some if some else 0.0


def report(rank: Analysed, operations: int) -> Coverage:
    """The rank's counts."""
    trace, window, line = rank.trace, rank.window, rank.line
    own = [trace.device[i] for i in window.device]
    linked = own
    if trace.has_launches:
        linked = [trace.device[i] for i in window.device if rank.links.call[i] >= 0]
    messages = [p for p in rank.placed if p.call.kind in ("send", "recv")]
    return Coverage(
        rank=rank.rank,
        file=trace.file,
        device=trace.device_name,
        step=window.step.number,
        span_ps=window.step.span,
        recorded_ps=window.recorded,
        skew_ps=0,
        replayed_ps=-1,
        lag_before_ps=window.lag_before,
        lag_after_ps=window.lag_after,
        operations=operations,
        device_ops=len(trace.device),
        device_ps=sum(op.end - op.start for op in trace.device),
        step_ops=len(own),
        step_ps=sum(op.end - op.start for op in own),
        kernels=sum(op.kind == "kernel" for op in own),
        launched_ops=len(linked),
        launched_ps=sum(op.end - op.start for op in linked),
        collectives=len(rank.placed) - len(messages),
        sized=sum(p.call.bytes >= 0 for p in rank.placed if p.call.kind not in ("send", "recv")),
        messages=len(messages),
        host_ops=rank.host.nodes,
        matched_ops=len(rank.host.node),
        matched_by=rank.host.how,
        waits_recorded=rank.waits.recorded,
        waits_inferred=line.inferred,
        dropped=len(line.dropped),
        host_ps=line.host,
        waited_ps=line.waited,
        late_ps=line.late,
        overlapped_ps=line.overlapped,
        omissions=tuple(entry for entry in _omissions(rank) if entry.count),
    )


def _omissions(rank: Analysed) -> list[Omission]:
    trace, window, line = rank.trace, rank.window, rank.line
    inside = set(window.device)
    outside = [op for i, op in enumerate(trace.device) if i not in inside]
    launched = rank.links.call if trace.has_launches else [0] * len(trace.device)
    unknown = [trace.device[i] for i in window.device if launched[i] < 0]
    unsized = [p for p in rank.placed if p.call.bytes < 0]
    items = line.items
    paired = rank.links.paired
    return [
        Omission(
            "kernels without a correlation id",
            paired,
            0,
            "paired in order with launches that have no kernel",
        ),
        Omission(
            "device operations of other steps",
            len(outside),
            sum(op.end - op.start for op in outside),
            "launched before or after the step; --step N imports another step",
        ),
        Omission(
            "device operations without a known launch",
            len(unknown),
            sum(op.end - op.start for op in unknown),
            "no call with their correlation id was recorded; they keep the order of their stream",
        ),
        Omission(
            "communication of unknown size",
            len(unsized),
            sum(items[p.item].end - items[p.item].start for p in unsized),
            "no NCCL metadata, shapes or execution trace; a barrier with its recorded duration, "
            "for replay only",
        ),
        Omission(
            "dependencies against the recorded order",
            len(line.dropped),
            0,
            "; ".join(line.dropped[:3]) + ("; ..." if len(line.dropped) > 3 else ""),
        ),
        Omission(
            "waits for the step before",
            line.counts["waited_before"],
            line.waited_before,
            "kept as host work, since nothing in this step explains them",
        ),
        Omission(
            "launches that waited for room in the queue",
            line.counts["blocked"],
            line.blocked,
            "calls of more than 100 us; they wait for the device if that explains them, else they "
            "are host work",
        ),
        Omission(
            "kernels that overlap with other kernels",
            line.counts["overlapped"],
            line.overlapped,
            "an NPU runs one compute node at a time, so overlapping time counts once and the busy "
            "time of the device is as recorded",
        ),
        Omission(
            "idling before device operations",
            line.counts["late"],
            line.late,
            "no recorded cause; kept in the duration of what came after",
        ),
        Omission(
            "operations and calls without a time",
            trace.untimed,
            0,
            "no ts or dur, or one below 0 or beyond a day",
        ),
        *(Omission(each.what, each.count, each.time, each.why) for each in trace.left_out),
        *_contradictions(trace),
    ]


def _contradictions(trace: Trace) -> list[Omission]:
    found = trace.contradictions
    cuts = ", ".join(f"{count} by {what}" for what, count in sorted(found.cut.items()))
    return [
        Omission(
            "device operations with an impossible end",
            found.cut.total(),
            found.time,
            f"cut short: {cuts}; Perfetto draws them so, too",
        ),
        Omission(
            "device operations before their launch",
            found.early,
            0,
            "the clocks of host and device differ; they keep the order of their stream",
        ),
        Omission(
            "host operators that cross another one",
            found.crossing,
            0,
            "they begin within an operator of their thread and end after it; both are kept",
        ),
    ]
