"""Dumps of the flight recorder in, sources of programs out.

Here: which dump is which rank's, programs of host work and calls, what to know about them. Not
here: whether the calls meet (`flight_alignment.py`).

The recorder knows neither kernels nor waits. So a program is a chain of the host's work between two
calls, and each collective comes after the host's work before it and after the collective before it
of the same group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import InputError, Problem
from ...units import counted
from .agreement import Placed
from .building import RankSource
from .coverage import Coverage, Omission
from .flight_alignment import Aligned, align
from .flight_recorder import FlightCall, FlightDump
from .groups import Declared, Members, Resolver
from .ranks import MOST, rank_in_name
from .timeline import TimelineItem

_LAST_DIGITS = re.compile(r"(\d{1,8})$")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
Dump = tuple[str, FlightDump]
"""The file's name and its content."""


@dataclass(frozen=True)
class FlightRun:
    """Sources of the programs of all ranks with a dump, and what they cover."""

    world: int
    sources: list[RankSource]
    covered: tuple[Coverage, ...]
    notes: tuple[str, ...]
    aligned: Aligned


def read(
    dumps: Sequence[Dump], given: Mapping[str, Members], progress: Callable[[float], None]
) -> FlightRun:
    """The run that was recorded. Raises `InputError` listing everything that doesn't fit."""
    by_rank = _by_rank(dumps)
    files = {rank: file for rank, (file, _) in by_rank.items()}
    largest = [max(members) for _, dump in dumps for members in dump.groups.values()]
    world = max([*by_rank, *largest]) + 1
    if world > MOST:
        raise InputError([Problem("", "pg_config", counted(world, "rank"), f"{MOST:,} at most")])
    calls, problems = {}, list[Problem]()
    for number, (rank, (file, dump)) in enumerate(sorted(by_rank.items())):
        resolver = Resolver(file, rank, world, Declared(dict(dump.groups)), given)
        try:
            calls[rank] = [(call, resolver.members(call.call.group)) for call in dump.calls]
            problems += _unknown(resolver)
        except InputError as error:
            problems += error.problems
        progress(number / len(by_rank))
    if problems:
        raise InputError(problems)
    aligned = align(calls, files)
    first = min(kept[0].created for kept in aligned.calls.values() if kept)
    sources, covered = [], []
    for rank, kept in aligned.calls.items():
        members = {call.record: found for call, found in calls[rank]}
        sources.append(_source(rank, kept, members, kept[0].created - first if kept else 0))
        covered.append(_coverage(by_rank[rank], kept, sources[-1]))
    return FlightRun(world, sources, tuple(covered), _notes(world, aligned, by_rank), aligned)


def _unknown(resolver: Resolver) -> list[Problem]:
    """Groups whose members the dump does not list, as Gloo's dumps."""
    allowed = f'--groups FILE with {{"NAME": [{resolver.rank}, ...]}}, or the pg_config of NCCL'
    return [
        Problem(resolver.file, f"group {name!r}", "has no list of its members", allowed)
        for name in resolver.assumed
    ]


def _by_rank(dumps: Sequence[Dump]) -> dict[int, Dump]:
    """Dumps by the ranks in their files' names, which PyTorch puts at the end."""
    found: dict[int, Dump] = {}
    problems = []
    for file, dump in dumps:
        digits = _LAST_DIGITS.search(file)
        rank = int(digits[1]) if digits else rank_in_name(file)
        if rank is None:
            said = "the file's name does not give the rank"
            problems.append(Problem(file, "rank", said, "names such as nccl_trace_rank_3"))
        elif rank in found:
            said = f"is in several files: {found[rank][0]}, {file}"
            problems.append(Problem("", f"rank {rank}", said, "one dump for each rank of one run"))
        else:
            found[rank] = (file, dump)
    if problems:
        raise InputError(problems)
    return found


def _source(
    rank: int, kept: Sequence[FlightCall], members: Mapping[int, Members], late: int
) -> RankSource:
    """Host work and calls in turn. A rank without a call that met does nothing."""
    items: list[TimelineItem] = [] if kept else [TimelineItem("no call", 0, 0, 0, -1, [])]
    calls: dict[int, list[Placed]] = {}
    streams: dict[Members, int] = {}
    now = kept[0].created if kept else 0
    for call in kept:
        group, place = members[call.record], len(items)
        work = max(0, call.created - now)
        before = [place - 2] if items else []
        items.append(TimelineItem(f"host until {call.name}", now, now + work, work, -1, before))
        deps = [place]
        if not call.is_message:
            deps = [*([streams[group]] if group in streams else []), place]
            streams[group] = place + 1
        end = call.created + call.duration
        items.append(TimelineItem(call.name, call.created, end, call.duration, -2, deps))
        calls[place + 1] = [Placed(call.call, group, place + 1)]
        now += work
    return RankSource(rank, items, calls, skew=late)


def _coverage(dump: Dump, kept: Sequence[FlightCall], source: RankSource) -> Coverage:
    begin = kept[0].created if kept else 0
    whole = max((call.created + call.duration for call in kept), default=0) - begin
    collectives = [call for call in kept if not call.is_message]
    omissions = [
        Omission(
            "calls that did not meet",
            len(dump[1].calls) - len(kept),
            0,
            "no longer in another rank's buffer, or not made by another rank",
        ),
        Omission("records of several calls", dump[1].parts, 0, "the calls are recorded themselves"),
    ]
    return Coverage(
        rank=source.rank, file=dump[0], device="", step=-1, span_ps=whole, recorded_ps=whole,
        skew_ps=source.skew, replayed_ps=-1, lag_before_ps=0, lag_after_ps=0,
        operations=len(source.items), device_ops=0, device_ps=0, step_ops=0, step_ps=0, kernels=0,
        launched_ops=0, launched_ps=0, collectives=len(collectives),
        sized=sum(call.call.bytes >= 0 for call in collectives),
        messages=len(kept) - len(collectives), host_ops=len(kept), matched_ops=0, matched_by="",
        waits_recorded=0, waits_inferred=0, dropped=0,
        host_ps=kept[-1].created - begin if kept else 0, waited_ps=0, late_ps=0,
        overlapped_ps=0, omissions=tuple(each for each in omissions if each.count),
    )  # fmt: skip


def _notes(world: int, aligned: Aligned, by_rank: Mapping[int, Dump]) -> tuple[str, ...]:
    """Notes on missing ranks, on calls that were left out, and on assumptions."""
    found = [each.text for each in aligned.missing]
    absent = next((rank for rank in range(world) if rank not in by_rank), None)
    if absent is not None:
        count = counted(world - len(by_rank), "rank")
        found.append(f"{count} of {world:,} wrote no dump, such as rank {absent}")
    if aligned.early:
        found.append(
            f"{counted(aligned.early, 'call')} left out at the beginning: a recorder keeps the "
            "last calls only, and some member no longer had them"
        )
    if aligned.late:
        found.append(
            f"{counted(aligned.late, 'call')} left out at the end: some member had not made them"
        )
    kept = [call for calls in aligned.calls.values() for call in calls]
    open_ = Counter(call.title for call in kept if not call.done)
    if open_:
        title, count_ = open_.most_common(1)[0]
        found.append(
            f"{counted(sum(open_.values()), 'call')} had not ended when the dumps were written, "
            f"although all members had made them: {title} on {counted(count_, 'rank')}"
        )
    rooted = sum(call.call.kind in _ROOTED for call in kept)
    if rooted:
        found.append(
            f"{counted(rooted, 'call')} with a root, which the recorder does not keep: the first "
            "member of the group is taken"
        )
    untimed = sum(not call.duration for call in kept)
    if untimed:
        found.append(
            f"{untimed:,} of {counted(len(kept), 'call')} without a duration: "
            "TORCH_NCCL_ENABLE_TIMING=1 records it"
        )
    found.append(
        "a flight recorder has no kernels and no waits: the time between two calls is host work, "
        "also where the host waited for a collective"
    )
    return tuple(found)
