"""Recordings in, a workload and what it covers out: the main path of the importer.

read -> ranks -> step -> each rank: link, order -> agree on collectives -> spread over all ranks ->
programs -> workload"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import InputError, Problem
from ...units import counted
from .. import task_graphs, xla
from ..program import Program
from ..summary import Memory, RankClass, Summary
from . import (
    agreement,
    assembly,
    flight_recorder,
    flight_run,
    groups,
    host_only,
    linking,
    memory_snapshot,
    one_rank,
    ranks,
    reading,
    replay,
    spread,
    steps,
)
from .agreement import Placed
from .building import RankSource
from .coverage import Coverage
from .groups import Members
from .imported import Imported
from .notes import recorded_notes, spread_notes
from .one_rank import Analysed
from .ranks import MOST, RecordedRun
from .spread import Spread

Progress = Callable[[float, str], None]

_COMPILED = (reading.ModuleDocument, reading.BuffersDocument)
SHOWN = 16
"""Programs whose volumes the summary lists."""


@dataclass(frozen=True)
class Options:
    """Options of an import; see `import_traces`."""

    step: int | None = None
    ranks: int | None = None
    all_to_all: str = "refuse"
    skew: bool = False
    groups: Mapping[str, Members] = field(default_factory=dict)
    entry: str | None = None
    trip_counts: Mapping[str, int] = field(default_factory=dict)
    fuse: bool = False
    combine_mb: float | None = None

    def no_effect(self, on: str) -> list[Problem]:
        """Problems of the given options that only recordings of ranks have."""
        given = {
            "--step": self.step is not None,
            "--ranks": self.ranks is not None,
            "--skew": self.skew,
            "--groups": bool(self.groups),
        }
        said = f"has no effect on {on}"
        return [
            Problem("", name, said, "without it") for name, is_given in given.items() if is_given
        ]


def import_traces(
    paths: Sequence[str | os.PathLike[str]],
    *,
    step: int | None = None,
    ranks: int | None = None,
    all_to_all: str = "refuse",
    skew: bool = False,
    groups: Mapping[str, Sequence[int]] | None = None,
    entry: str | None = None,
    trip_counts: Mapping[str, int] | None = None,
    fuse: bool = False,
    combine_mb: float | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Reads PyTorch execution traces and Kineto traces of one run, dumps of its flight recorders,
    SQLite exports of Nsight Systems, a task graph of FlexFlow, or a module of XLA: files,
    directories, gzip, tar, in any order.

    `step` is the `ProfilerStep` (or the numbered NVTX range) to take, by default a steady one that
    every rank has, else the whole trace. `ranks` makes more ranks than the run had; `all_to_all` is
    then `keep`, `repeat` or `refuse` (`docs/guides/import.md`). With `skew` ranks start as far
    apart as they were recorded, else together. `groups` gives the members of process groups by the
    name in the traces. Of a module of XLA, `entry` is the computation to take in place of its
    entry, and `trip_counts` says how often loops run that do not say so themselves. With `fuse` its
    kernels are fused, and its collectives combined up to `combine_mb` MB, as a GPU would
    (`docs/guides/xla.md`). `progress` is called with the finished share and a
    word. Raises `InputError` listing every problem."""
    if ranks is not None and not 1 <= ranks <= MOST:
        raise InputError(
            [Problem("", "ranks", f"invalid number of ranks: {ranks}", f"1 to {MOST:,}")]
        )
    report = progress or (lambda _share, _word: None)
    given = {name: tuple(members) for name, members in (groups or {}).items()}
    try:
        return _imported(
            [Path(path) for path in paths],
            Options(
                step,
                ranks,
                all_to_all,
                skew,
                given,
                entry,
                dict(trip_counts or {}),
                fuse,
                combine_mb,
            ),
            report,
        )
    except RecursionError:
        where = ", ".join(map(str, paths[:3])) + (", ..." if len(paths) > 3 else "")
        raise InputError(
            [Problem(where, "", "is nested too deeply", "a few levels, as PyTorch writes")]
        ) from None


def _imported(paths: list[Path], options: Options, progress: Progress) -> Imported:
    recordings, dumps = _read(paths, progress)
    recordings, modules = _profiled(recordings)
    if any(isinstance(each.document, _COMPILED) for each in recordings):
        return _module(recordings, dumps, options)
    wrong = [
        Problem("", name, "has no effect on recordings", "without it, or a module of XLA")
        for name, given in (
            ("--entry", options.entry),
            ("--trip-count", options.trip_counts),
            ("--fuse", options.fuse),
            ("--combine-mb", options.combine_mb is not None),
        )
        if given
    ]
    if wrong:
        raise InputError(wrong)
    if dumps:
        return _flight(recordings, dumps, options, progress)
    if any(isinstance(each.document, reading.GraphDocument) for each in recordings):
        return _graph(recordings, options)
    run = _matched(recordings, modules, progress)
    if run.ranks[0].trace is None:
        return _without_durations(run, options)
    return _with_durations(run, options, progress)


def _read(
    paths: list[Path], progress: Progress
) -> tuple[list[reading.Recording], list[flight_run.Dump]]:
    """Recordings, and dumps of flight recorders. Of those, only what is used stays in memory: most
    of a dump is the lines of the program that made its calls."""
    recordings: list[reading.Recording] = []
    dumps: list[flight_run.Dump] = []
    problems = []
    files = reading.expand(paths)
    sizes = [max(1, file.stat().st_size) for file in files]
    for number, file in enumerate(files):
        progress(0.5 * sum(sizes[:number]) / sum(sizes), "reading")
        try:
            for each in reading.read(file):
                if isinstance(each.document, reading.FlightDocument):
                    dumps.append((each.file, flight_recorder.dump(each)))
                elif isinstance(each.document, reading.SnapshotDocument):
                    found = memory_snapshot.snapshot(each)
                    problems.append(memory_snapshot.refusal(found))
                else:
                    recordings.append(each)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return recordings, dumps


def _profiled(
    recordings: list[reading.Recording],
) -> tuple[list[reading.Recording], list[tuple[str, bytes]]]:
    """Profiles of XLA without those that others have too, and the modules next to them. Without a
    profile, all recordings."""
    profiles = [each for each in recordings if isinstance(each.document, reading.XlaDocument)]
    if not profiles:
        return recordings, []
    whole = {_stem(each.file) for each in profiles if each.is_space}
    kept, modules = [], []
    for each in recordings:
        if isinstance(each.document, reading.ModuleDocument):
            modules.append((each.file, each.document.data))
        elif each not in profiles or each.is_space or _stem(each.file) not in whole:
            kept.append(each)
    return kept, modules


def _stem(file: str) -> str:
    """The name of a profile without its endings: JAX writes `HOST.xplane.pb` and
    `HOST.trace.json.gz`."""
    name = re.sub(r"(\.gz)?$", "", file)
    return re.sub(r"\.(?:xplane\.pb|trace\.json|pb|json)$", "", name)


def _matched(
    recordings: list[reading.Recording], modules: list[tuple[str, bytes]], progress: Progress
) -> RecordedRun:
    def report(share: float) -> None:
        progress(0.5 + 0.2 * share, "reading")

    return ranks.match(recordings, report, modules)


def _with_durations(run: RecordedRun, options: Options, progress: Progress) -> Imported:
    traces = [entry.trace for entry in run.ranks if entry.trace is not None]
    links = [linking.launches(trace) for trace in traces]
    chosen = steps.choose(traces, links, options.step)
    analysed: list[Analysed] = []
    problems: list[Problem] = []
    for number, (entry, link, step) in enumerate(zip(run.ranks, links, chosen, strict=True)):
        progress(0.7 + 0.2 * number / len(chosen), f"rank {entry.rank}")
        try:
            analysed.append(one_rank.analyse(entry, link, step, run.world, options.groups))
            problems += groups.check_assumptions(analysed[-1].resolver)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    calls = {rank.rank: rank.placed for rank in analysed}
    agreed = agreement.agree(calls, {rank.rank: rank.trace.file for rank in analysed})
    progress(0.9, "building")
    begins = [step.start + trace.epoch for trace, step in zip(traces, chosen, strict=True)]
    late = {entry.rank: begin - min(begins) for entry, begin in zip(run.ranks, begins, strict=True)}
    sources = [_source(rank, late[rank.rank] if options.skew else 0) for rank in analysed]
    covered = [
        replace(one_rank.report(rank, len(rank.line.items)), skew_ps=late[rank.rank])
        for rank in analysed
    ]
    about = recorded_notes(run, analysed, agreed, covered)
    notes = (*run.notes, *steps.said(traces, chosen), *about)
    name = run.ranks[0].file
    result = _finish(run.world, name, options, sources, tuple(covered), notes)
    progress(0.95, "replaying")
    return replay.check(result, options.skew)


def _source(rank: Analysed, skew: int) -> RankSource:
    return RankSource(rank.rank, rank.line.items, _by_item(rank.placed), skew=skew)


def _by_item(placed: list[Placed]) -> dict[int, list[Placed]]:
    found: dict[int, list[Placed]] = {}
    for entry in placed:
        found.setdefault(entry.item, []).append(entry)
    return found


def _without_durations(run: RecordedRun, options: Options) -> Imported:
    """Execution traces alone."""
    step = host_only.choose(run, options.step)
    found, problems = host_only.analyse(run, options.groups, step)
    if problems:
        raise InputError(problems)
    agreement.agree(
        {rank.rank: rank.placed for rank in found}, {entry.rank: entry.file for entry in run.ranks}
    )
    sources = [host_only.source(rank) for rank in found]
    notes = (*run.notes, host_only.note(found, step))
    return _finish(run.world, run.ranks[0].file, options, sources, (), notes)


def _graph(recordings: list[reading.Recording], options: Options) -> Imported:
    """A task graph of FlexFlow, which is a whole job in one file."""
    first = next(each for each in recordings if isinstance(each.document, reading.GraphDocument))
    assert isinstance(first.document, reading.GraphDocument)
    problems = options.no_effect("a task graph")
    if len(recordings) > 1:
        said = f"is a {first.kind.value}, next to other files"
        problems.append(Problem(first.file, "", said, "one task graph alone"))
    if problems:
        raise InputError(problems)
    workload, notes = task_graphs.import_graph(first.file, first.document.data)
    return Imported(workload, (), notes)


def _module(
    recordings: list[reading.Recording], dumps: list[flight_run.Dump], options: Options
) -> Imported:
    """A module of XLA, which is the program of all devices of a job, and its buffers."""
    modules = [each for each in recordings if isinstance(each.document, reading.ModuleDocument)]
    buffers = [each for each in recordings if isinstance(each.document, reading.BuffersDocument)]
    problems = options.no_effect("a module of XLA")
    others = [each.file for each in recordings if not isinstance(each.document, _COMPILED)]
    for name in [*others, *(name for name, _ in dumps)]:
        said = "is a recording next to a module of XLA"
        problems.append(Problem(name, "", said, "the module, and its assignment of buffers"))
    if len(modules) != 1 or len(buffers) > 1:
        said = f"{counted(len(modules), 'module')} and {counted(len(buffers), 'file')} of buffers"
        place = recordings[0].file
        problems.append(
            Problem(place, "", said, "one module, and its assignment of buffers or none")
        )
    if problems:
        raise InputError(problems)
    [module] = modules
    assert isinstance(module.document, reading.ModuleDocument)
    held = [
        (each.file, each.document.data)
        for each in buffers
        if isinstance(each.document, reading.BuffersDocument)
    ]
    given = xla.Options(options.entry, options.trip_counts, options.fuse, options.combine_mb)
    found = xla.import_hlo(module.file, module.document.data, given, held[0] if held else None)
    return Imported(found.workload, (), found.notes, module=found.covered)


def _flight(
    others: list[reading.Recording],
    dumps: list[flight_run.Dump],
    options: Options,
    progress: Progress,
) -> Imported:
    """Dumps of flight recorders."""
    alone = "one kind of recording alone"
    problems = [
        Problem(each.file, "", f"is a {each.kind.value} next to dumps of a flight recorder", alone)
        for each in others
    ]
    if options.step is not None:
        said = "a flight recorder marks no steps"
        problems.append(Problem("", "--step", said, "without it: all calls that ranks share"))
    if problems:
        raise InputError(problems)
    run = flight_run.read(dumps, options.groups, lambda share: progress(0.5 + 0.4 * share, "ranks"))
    sources = [source if options.skew else replace(source, skew=0) for source in run.sources]
    agreement.agree(
        {source.rank: list(_placed(source)) for source in sources},
        {entry.rank: entry.file for entry in run.covered},
    )
    result = _finish(run.world, dumps[0][0], options, sources, run.covered, run.notes)
    progress(0.95, "replaying")
    return replay.check(replace(result, missing=tuple(run.aligned.missing)), options.skew)


def _placed(source: RankSource) -> Iterator[Placed]:
    return (entry for entries in source.calls.values() for entry in entries)


def _finish(
    world: int,
    file: str,
    options: Options,
    sources: list[RankSource],
    covered: tuple[Coverage, ...],
    recorded: tuple[str, ...],
) -> Imported:
    """Programs for all ranks, recorded or not."""
    wanted = world if options.ranks is None else options.ranks
    placed = {source.rank: list(_placed(source)) for source in sources}
    kinds = [(entry.call.kind, entry.members) for entry in next(iter(placed.values()))]
    spread.check(world, wanted, len(sources), kinds, options.all_to_all)
    plan = Spread(world, wanted, tuple(source.rank for source in sources), options.all_to_all)
    spread_over = spread_notes(plan, placed, covered)
    notes = (*recorded, *spread_over)
    warnings = [*_reminder(recorded), *spread_over]
    workload = assembly.assemble(
        plan, sources, lambda programs: _summary(file, plan, programs, notes), warnings
    )
    return Imported(workload, covered, notes)


def _reminder(notes: tuple[str, ...]) -> list[str]:
    """Warning of every run about notes that were read when the workload was made."""
    if not notes:
        return []
    one = "a note" if len(notes) == 1 else counted(len(notes), "note")
    return [
        f"the recording was imported with {one}: armillary import printed them, and workload.json "
        "has them"
    ]


def _summary(file: str, plan: Spread, programs: list[Program], notes: tuple[str, ...]) -> Summary:
    name = Path(file.rsplit(": ", maxsplit=1)[-1]).name
    classes = tuple(
        RankClass(f"program {number}", 1, program.operations, program.volumes, Memory())
        for number, program in enumerate(programs[:SHOWN])
    )
    return Summary(name, "recorded", plan.ranks, 0, 0, 0, 0, 0, 0.0, classes, notes)
