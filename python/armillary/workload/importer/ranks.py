"""Which file is which rank's, and whether all of them are of one run.

Here: ranks from `distributedInfo`, from file names, from process ids; what doesn't fit together,
with its numbers. Not here: which step (`steps.py`), whether the ranks' collectives meet
(`agreement.py`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ...errors import InputError, Problem
from ...units import PS_PER_S, counted
from . import contradictions, host_trace, kineto, nsys, xprof
from .host_trace import VERSIONS, HostTrace
from .kineto import Trace
from .reading import Recording, RecordingKind

T = TypeVar("T")

_SURE = (
    re.compile(r"rank[-_ ]?(\d+)", re.IGNORECASE),
    re.compile(r"worker[-_ ]?(\d+)", re.IGNORECASE),
)
_LOOSE = re.compile(
    r"[-_.](\d{1,6})(?:[._](?:et|eg|kineto|trace|pt))*\.json(?:\.gz)?$", re.IGNORECASE
)
_DIGITS = 9
_WHOLE = (RecordingKind.NSYS, RecordingKind.PROFILE)
"""Recordings that may have several ranks each."""
MOST = 16_777_216
"""Ranks of a machine."""
_APART = 60_000_000_000_000
"""Picoseconds between two ranks' traces from which they are not taken to be of one run."""


@dataclass
class Recorded:
    """One rank's files. Without a Kineto trace there are no durations."""

    rank: int
    trace: Trace | None
    host: HostTrace | None

    @property
    def file(self) -> str:
        """The file to name when something is wrong with this rank."""
        return self.trace.file if self.trace else self.host.file if self.host else ""


@dataclass
class RecordedRun:
    """Every rank that was recorded, ascending, and how many ranks the run had."""

    ranks: list[Recorded]
    world: int
    notes: list[str] = field(default_factory=list)


def rank_in_name(file: str, loose: bool = True) -> int | None:
    """The rank in a file's name: `rank-3`, `worker3_...` and, if `loose`, `kineto_3.json`; None if
    there is none."""
    name = re.split(r"[/\\]|: ", file)[-1]
    patterns = (*_SURE, _LOOSE) if loose else _SURE
    found = next((match for pattern in patterns if (match := pattern.search(name))), None)
    return int(found[1]) if found and len(found[1]) <= _DIGITS else None


def match(
    recordings: Sequence[Recording],
    progress: Callable[[float], None] | None = None,
    modules: Sequence[tuple[str, bytes]] = (),
) -> RecordedRun:
    """Sorts recordings into ranks; `modules` are modules of XLA next to profiles. Raises
    `InputError` listing everything that does not fit."""
    traces, hosts, problems = [], [], []
    exports = [each for each in recordings if each.kind in _WHOLE]
    notes: list[str] = []
    for number, recording in enumerate(recordings):
        try:
            if recording.kind is RecordingKind.KINETO:
                traces.append(contradictions.settle(kineto.trace(recording)))
            elif recording.kind in _WHOLE:
                if recording is exports[0]:
                    _require_alone(exports, recordings)
                    if recording.kind is RecordingKind.PROFILE:
                        found, notes = xprof.traces(exports, modules)
                    else:
                        found, notes = nsys.traces(exports, lambda name: rank_in_name(name, False))
                    traces += map(contradictions.settle, found)
            else:
                hosts.append(host_trace.host_trace(recording))
        except InputError as error:
            problems += error.problems
        if progress:
            progress((number + 1) / len(recordings))
    problems += _versions(hosts) + _worlds(traces)
    if problems:
        raise InputError(problems)
    run = _pair(traces, hosts)
    run.notes += notes
    return run


def _require_alone(exports: Sequence[Recording], recordings: Sequence[Recording]) -> None:
    """Exports have several ranks each, so they can't be sorted among traces of one rank."""
    if len(exports) < len(recordings) or len({each.kind for each in exports}) > 1:
        said = f"is a {exports[0].kind.value}, next to other recordings"
        raise InputError([Problem(exports[0].file, "", said, "one kind of recording alone")])


def _versions(hosts: Sequence[HostTrace]) -> list[Problem]:
    """Schemas that were never tested, and runs with several schemas."""
    found = Counter(host.version for host in hosts)
    if len(found) > 1:
        said = ", ".join(
            f"{version or 'none'} in {counted(count, 'file')}"
            for version, count in sorted(found.items())
        )
        first = {host.version: host.file for host in reversed(hosts)}
        message = (
            f"execution traces of different schema versions: {said} (such as "
            f"{', '.join(first.values())})"
        )
        return [
            Problem("", "schema", message, "traces of one run, recorded by one version of PyTorch")
        ]
    known = f"schema {' '.join(VERSIONS)}"
    return [Problem(h.file, "schema", f"{h.schema or 'none'} is not a known schema version", known)
            for h in hosts if h.version not in VERSIONS]  # fmt: skip


def _worlds(traces: Sequence[Trace]) -> list[Problem]:
    found: dict[Hashable, list[str]] = {}
    for trace in traces:
        size = trace.distributed.get("world_size")
        if isinstance(size, int):
            found.setdefault(size, []).append(trace.file)
    if len(found) < 2:
        return []
    said = ", ".join(
        f"{size} in {len(files)} (such as {files[0]})" for size, files in found.items()
    )
    message = f"traces of different runs: distributedInfo.world_size is {said}"
    return [Problem("", "world_size", message, "the traces of one run")]


def _pair(traces: Sequence[Trace], hosts: Sequence[HostTrace]) -> RecordedRun:
    notes: list[str] = []
    several = len(traces) > 1
    ranked = _number(
        traces, [_rank_of(trace, several) for trace in traces], [trace.file for trace in traces]
    )
    free = list(hosts)
    ranks = [
        Recorded(rank, trace, _host_of(rank, trace, free, notes))
        for rank, trace in sorted(ranked.items())
    ]
    if free and not ranks:
        numbers = [rank_in_name(host.file, len(free) > 1) for host in free]
        alone = _number(free, numbers, [host.file for host in free])
        ranks = [Recorded(rank, None, host) for rank, host in sorted(alone.items())]
    elif free:
        pids = " ".join(host.pid for host in free[:8])
        notes.append(
            f"{len(free)} execution traces match no Kineto trace by process or rank (pid {pids}) "
            "and are not used"
        )
    world = max([*map(_world, ranks), ranks[-1].rank + 1, len(ranks)])
    problems = _apart(ranks) + _too_many(world)
    if problems:
        raise InputError(problems)
    return RecordedRun(ranks, world, notes)


def _world(entry: Recorded) -> int:
    """How many ranks the run had, by this rank's files: from the job's size, else from its
    groups."""
    sizes = []
    if entry.trace is not None:
        stated = entry.trace.distributed.get("world_size")
        if isinstance(stated, int):
            return stated
        sizes = [_largest(entry.trace.distributed.get("pg_config"), "pg_size")]
    if entry.host is not None:
        sizes.append(_largest(host_trace.process_groups(entry.host), "group_size"))
        sizes += [
            size
            for node in entry.host.nodes
            if node.name == "record_param_comms"
            for size in node.inputs[7:]
            if isinstance(size, int)
        ][-1:]
    return max([1, *sizes])


def _largest(entries: object, key: str) -> int:
    found = (
        [entry.get(key) for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )
    return max([1, *(size for size in found if isinstance(size, int))])


def _rank_of(trace: Trace, several: bool) -> int | None:
    """A lone file's name may end in any number: only `rank3` and `worker3` count there."""
    rank = trace.distributed.get("rank")
    return int(rank) if isinstance(rank, int) and rank >= 0 else rank_in_name(trace.file, several)


def _number(items: Sequence[T], ranks: Sequence[int | None], files: Sequence[str]) -> dict[int, T]:
    """Items by rank. A single one without rank is rank 0; raises `InputError` for ranks missing or
    twice."""
    if len(items) == 1:
        return {ranks[0] or 0: items[0]}
    unknown = [
        Problem(
            file,
            "rank",
            "neither distributedInfo nor the file's name gives the rank",
            "names such as rank3.json",
        )
        for file, rank in zip(files, ranks, strict=True)
        if rank is None
    ]
    twice = [rank for rank, count in Counter(ranks).items() if rank is not None and count > 1]
    for rank in sorted(twice):
        both = ", ".join(file for file, other in zip(files, ranks, strict=True) if other == rank)
        unknown.append(
            Problem(
                "",
                f"rank {rank}",
                f"is in several files: {both}",
                "one Kineto trace for each rank of one run",
            )
        )
    if unknown:
        raise InputError(unknown)
    return {rank: item for rank, item in zip(ranks, items, strict=True) if rank is not None}


def _host_of(rank: int, trace: Trace, free: list[HostTrace], notes: list[str]) -> HostTrace | None:
    """The execution trace of the same process, else of the same rank by name, else the only one."""
    pid = next(iter(trace.pids.most_common(1)), ("", 0))[0]
    same = [host for host in free if host.pid == pid]
    named = [host for host in free if rank_in_name(host.file) == rank]
    chosen = next(iter(same or named or (free if len(free) == 1 else [])), None)
    if chosen is None:
        return None
    if not same:
        notes.append(
            f"rank {rank}: {trace.file} is process {pid}, {chosen.file} is process {chosen.pid}: "
            "not one recording"
        )
    free.remove(chosen)
    return chosen


def _too_many(world: int) -> list[Problem]:
    if world <= MOST:
        return []
    return [Problem("", "world_size", counted(world, "rank"), f"{MOST:,} at most")]


def _apart(ranks: Sequence[Recorded]) -> list[Problem]:
    """Traces that lie far apart in time are of different runs."""
    traces = [entry.trace for entry in ranks if entry.trace is not None]
    starts = [((trace.device or trace.ops)[0].start + trace.epoch, trace.file) for trace in traces]
    if not starts:
        return []
    first, last = min(starts), max(starts)
    if last[0] - first[0] <= _APART:
        return []
    seconds = (last[0] - first[0]) / PS_PER_S
    message = f"ranks of different runs: {first[1]} begins {seconds:,.0f} s before {last[1]}"
    return [
        Problem("", "time", message, "traces of one run, which begin within 60 s of each other")
    ]
