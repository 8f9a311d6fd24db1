"""Simulates workloads and collectives, and compares results."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from . import (
    _core,
    backends,
    files,
    kept_runs,
    nccl,
    old_words,
    polars_extra,
    training_log,
)
from .errors import InputError, Problem, StalledError
from .platform import AnyPlatform, Platform
from .repeat import Again, Unrepeatable
from .result import Result, columns
from .schema import Report
from .units import MB, NS_PER_US, counted

if TYPE_CHECKING:
    import polars as pl

    from .capture.result import Capture
    from .explain import Comparison, Ladder
    from .uncertainty import Interval
    from .workload import Workload

Progress = Callable[[float, float], None]


def simulate(
    workload: Workload | Capture | str | os.PathLike[str],
    platform: AnyPlatform,
    *,
    npus: int | None = None,
    backend: str | None = None,
    fold: bool = True,
    detail: bool = False,
    timeline: str | os.PathLike[str] | None = None,
    ranks: Sequence[int] | None = None,
    pcap: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Result:
    """Simulates one pass of `workload` on `platform`: `simulate("llama-3-70b", "dgx-h100-16n",
    tp=8, dp=64)`.

    A workload may be named as for `load`, with `options` if it is a model, or be what
    `armillary.capture` gave, with the options of `armillary.workload.captured`. A platform may be
    named as for `Platform.load`. A named platform is resized to the ranks of a named model, and has
    the settings of the `framework` among its options. `npus` resizes the outermost dimension of the
    platform to this total number of NPUs, as `--npus` does. `backend` is
    `analytical` (latency * hops + size / bandwidth) or `link` (messages queue for links).
    `fold=False` simulates every rank although some behave alike; the result is the same. `detail`
    logs the run, for the layers, activity over time and the critical path in the report. `timeline`
    is a file for a timeline in Perfetto's format, written as the run goes, and `ranks` which ranks
    it shows: all there is room for by default; a folded run shows the classes that they are in.
    `pcap` is a file for the packets of the backend `packet`, which Wireshark opens.
    `progress` is called now and then with the finished share of the work (0..1) and the simulated
    ns. Other Python threads run meanwhile; Ctrl-C stops it. Raises `InputError` when the two don't
    fit together or the timeline can't be written, `StalledError` when operations wait for ever."""
    options, old = old_words.keywords("run", options)
    old_words.warn(old)
    workload, platform = _named(workload, platform, npus, options)
    picked = _picked(ranks, workload.ranks, timeline is not None)

    def run(
        target: Platform,
        with_detail: bool,
        made: Workload = workload,
        progress: Progress | None = None,
        file: str | None = None,
        capture: str | None = None,
    ) -> kept_runs.Outcome:
        def now() -> _core.Outcome:
            return _core.simulate(
                workload=made._core,
                platform=target._core,
                backend=backend,
                fold=fold,
                detail=with_detail,
                timeline=file,
                ranks=picked if file else (),
                capture=capture,
                progress=progress,
            )

        def identity() -> dict[str, object]:
            what = [made.name, kept_runs.digest(made._core), target._core.to_json()]
            return {"run": [*what, backend, fold, with_detail]}

        return now() if file or capture else kept_runs.outcome(identity, now)

    def again(
        settings: Mapping[str, str], with_detail: bool, options: Mapping[str, object]
    ) -> Report:
        made = _changed(workload, result.report, options)
        found: Report = json.loads(run(platform.changed(settings), with_detail, made).report())
        return found

    with contextlib.ExitStack() as open_files:

        def opened(file: str | os.PathLike[str] | None) -> str | None:
            return None if file is None else str(open_files.enter_context(files.file(file)))

        outcome = run(platform, detail, workload, progress, opened(timeline), opened(pcap))
        result = Result(outcome, again)
    return result


def _changed(workload: Workload, report: Report, options: Mapping[str, object]) -> Workload:
    """The workload of a report with some options of its model changed."""
    from .workload import build

    if not options:
        return workload
    made = report["config"]["workload"].get("model")
    if not made:
        message = "can't be changed: the workload was not made of a model by its name"
        raise InputError([Problem(workload.name, "options", message, "build(NAME, ...)")])
    return build(made["name"], **{**made["options"], **options})


def _named(
    workload: Workload | Capture | str | os.PathLike[str],
    platform: AnyPlatform,
    npus: int | None,
    options: Mapping[str, object],
) -> tuple[Workload, Platform]:
    """Workload and platform, read where they are named."""
    from .workload import Workload, is_model, load
    from .workload.frameworks import settings_of

    decided = settings_of(options)
    target = Platform.of(platform, decided, npus=npus)
    if isinstance(workload, Workload):
        if options:
            known = "options of simulate; options of a model are given when it is built"
            raise InputError(
                [Problem("simulate", name, "is not an option of a run", known) for name in options]
            )
        return workload, target
    if not isinstance(workload, str | os.PathLike):
        from .workload import captured

        made = captured(workload, **options)
        resized = not (isinstance(platform, Platform) or npus is not None)
        return made, sized(platform, made, decided) if resized else target  # type: ignore[arg-type]
    if not is_model(os.fspath(workload)):
        return load(workload, target, **options), target  # type: ignore[arg-type]
    made = load(workload, **options)  # type: ignore[arg-type]
    if isinstance(platform, Platform) or npus is not None:
        return made, target
    return made, sized(platform, made, decided)


def sized(
    name: str | os.PathLike[str], workload: Workload, settings: Mapping[str, object] | None = None
) -> Platform:
    """The platform `name`, its outermost dimension resized to the ranks of `workload`.

    Raises `InputError` where no size of that dimension gives this number of NPUs.
    """
    platform = Platform.load(name, settings)
    if platform.npus == workload.ranks:
        return platform
    try:
        return Platform.load(name, settings, npus=workload.ranks)
    except InputError as error:
        message = (
            f"has {counted(platform.npus, 'NPU')} and can't be resized to the {workload.ranks:,} "
            f"ranks of {workload.name}"
        )
        allowed = "; ".join(problem.help for problem in error.problems)
        raise InputError(
            [Problem(platform.name, "npus", message, f"one rank for each NPU: {allowed}")]
        ) from None


def _picked(ranks: Sequence[int] | None, count: int, shown: bool) -> Sequence[int]:
    """The ranks to show. Raises `InputError` for ranks that don't exist or without a timeline."""
    if ranks is not None and not shown:
        raise InputError(
            [
                Problem(
                    "",
                    "ranks",
                    "only a timeline shows ranks",
                    "a file for the timeline as well",
                )
            ]
        )
    absent = [rank for rank in ranks or () if not 0 <= rank < count]
    if absent:
        raise InputError(
            [
                Problem("", "ranks", f"rank {rank} does not exist", f"0 to {count - 1}")
                for rank in absent
            ]
        )
    return ranks or ()


def compare(
    *results: Result | Report | Workload | str | os.PathLike[str],
    names: Sequence[str] | None = None,
) -> Comparison:
    """Differences between the first of `results` and each of the others, and their causes.

    `results` are runs with their detail, their reports, or files of reports (`armillary run
    --json`); `names` what they are called. Where the others are logs of training, the first one is
    the prediction of their steps; where they are snapshots of PyTorch's memory, of their peaks.
    Workloads are compared operation by operation, without times. Raises `InputError` for fewer than
    two, for one without detail, for a file that is neither a report nor a log nor a snapshot, for
    steps of another batch, and for workloads next to others."""
    from .explain import against, against_snapshots, is_snapshot
    from .explain import compare as compared
    from .report.names import files

    called = files(
        [
            os.fspath(each) if isinstance(each, str | os.PathLike) else chr(65 + at % 26)
            for at, each in enumerate(results)
        ]
    )
    if any(map(_is_workload, results)):
        from .explain import compare_workloads

        return compare_workloads(results, names or called)
    runs = cast("Sequence[Result | Report | str | os.PathLike[str]]", results)
    files_ = [each for each in results[1:] if isinstance(each, str | os.PathLike)]
    snapshots = [each for each in files_ if is_snapshot(each)]
    logs = [] if snapshots else [each for each in files_ if training_log.is_log(each)]
    for given, what, beside in (
        (snapshots, "snapshots", against_snapshots),
        (logs, "logs", against),
    ):
        if given and len(given) == len(results) - 1:
            first, *others = names or called
            return beside(_report(runs[0]), first, given, others)
        if given:
            said, allowed = f"{what} next to other files", f"one result, then only {what}"
            raise InputError([Problem(os.fspath(given[0]), "compare", said, allowed)])
    return compared([_report(each) for each in runs], names or called)


def _is_workload(given: object) -> bool:
    if isinstance(given, str | os.PathLike):
        return os.path.isfile(os.path.join(given, "workload.json"))  # noqa: PTH113, PTH118
    return hasattr(given, "amounts")


def ladder(
    workload: Workload,
    platform: AnyPlatform,
    networks: Sequence[str],
    *,
    title: str = "",
    causes: bool = True,
    progress: Callable[[str], contextlib.AbstractContextManager[Progress | None]] | None = None,
) -> Ladder:
    """Simulates `workload` on `platform` with each of `networks`: step times, where they differ
    from the first, and why. With `causes`, `packet` runs again without losses, windows and headers,
    to see what each is worth. `progress` opens a display for each run.

    Raises `InputError` for an unknown network, for one that is there twice, and for a run that
    fails, `ExplanationInterrupted` for a Ctrl-C after the first run."""
    from .explain import LADDER, ExplanationInterrupted, Ladder, rungs, warnings_of
    from .explain.backend_comparison import page as ladder_page
    from .explain.backend_differences import Run, trials

    if not networks or len(set(networks)) < len(networks):
        allowed = "one or more network models, each once"
        raise InputError([Problem("", "backends", ", ".join(networks) or "empty", allowed)])

    target = Platform.of(platform)

    def run(on: Platform, name: str, what: str, detail: bool) -> Report:
        show = progress(what) if progress else contextlib.nullcontext(None)
        with show as update:
            return simulate(workload, on, backend=name, detail=detail, progress=update).report

    def split(report: Report, name: str) -> Run:
        settings: dict[str, str] = {}
        without = []
        for trial in trials(report):
            settings |= trial.settings
            again = run(target.changed(settings), name, f"{name} without {trial.cause}", False)
            without.append((trial.cause, again["step_time_ns"]))
        return Run(name, report["step_time_ns"], without, backends.is_external(name))

    reports, seconds, runs = [], [], []
    stop: KeyboardInterrupt | None = None
    try:
        for name in networks:
            begin = time.monotonic()
            reports.append(run(target, name, name, True))
            seconds.append(time.monotonic() - begin)
        if causes:
            runs = [split(*each) for each in zip(reports, networks, strict=True)]
    except KeyboardInterrupt as found_stop:
        if not seconds:
            raise
        stop = found_stop
    reports = reports[: len(seconds)]
    found = rungs(reports, seconds, runs)
    said = title or f"{target.name} on {len(networks)} network models"
    warnings = [*target.warnings, *warnings_of(reports, networks[: len(reports)])]
    if stop is not None:
        left = "" if len(reports) < len(networks) else ", without causes"
        warnings.append(f"interrupted: {len(reports)} of {len(networks)} networks{left}")
    warnings = list(dict.fromkeys(warnings))
    data = {
        "schema": LADDER,
        "version": reports[0]["version"],
        "platform": target.describe(),
        "networks": [each.as_dict() for each in found],
        "warnings": warnings,
    }
    ladder = Ladder(ladder_page(found, said, warnings), data)
    if stop is not None:
        raise ExplanationInterrupted(ladder, stop) from stop
    return ladder


def _report(result: Result | Report | str | os.PathLike[str]) -> Report:
    from .report import reading

    if isinstance(result, Result):
        return result.report
    return reading.read(result) if isinstance(result, str | os.PathLike) else result


def rerun(report: Report) -> Again | Unrepeatable:
    """A function that simulates a report's run again with some keys of the platform set and some
    options of its model changed, or why there is none."""
    from .workload import build, load

    config, workload = report["config"], report["config"]["workload"]
    if config.get("platform_file") is None:
        return Unrepeatable("it used the ASTRA-sim profile, or an older version wrote its report")
    if backends.is_external(config["backend"]):
        return Unrepeatable("a simulator in another process carried it")
    model = workload.get("model")
    if workload["traces"] is None and not model:
        return Unrepeatable("its workload was made in Python (Result.explain can repeat it)")
    try:
        platform = Platform.parse(config["platform_file"], "config.platform_file")
        if model:
            loaded = build(model["name"], **model["options"])
        else:
            loaded = load(
                workload["traces"],
                platform,
                workload.get("groups_file"),
                workload.get("passes", 1),
                **_course(workload),
            )
    except InputError as error:
        first = error.problems[0]
        return Unrepeatable(f"{first.file or workload['traces']} {first.message}")

    def again(
        settings: Mapping[str, str], with_detail: bool, options: Mapping[str, object]
    ) -> Report:
        return simulate(
            _changed(loaded, report, options),
            platform.changed(settings),
            backend=config["backend"],
            detail=with_detail,
        ).report

    return again


def _course(workload: Mapping[str, Any]) -> dict[str, object]:
    """The options of a text that are not the defaults."""
    found: dict[str, object] = {} if workload.get("overlap", True) else {"overlap": False}
    size = workload.get("bucket_bytes")
    return found if size is None else {**found, "bucket_mb": size / MB}


def check(
    workload: Workload, platform: AnyPlatform, *, backend: str | None = None
) -> list[Problem]:
    """All problems that `simulate` would report, without simulating. Raises `InputError` for an
    unknown platform."""
    return findings(workload, platform, backend=backend)[0]


def findings(
    workload: Workload, platform: AnyPlatform, *, backend: str | None = None
) -> tuple[list[Problem], list[str]]:
    """The problems of `check`; where there are none, warnings and assumptions of the run, as far as
    they are known before it."""
    target = Platform.of(platform)
    problems, warnings = _core.check(workload._core, target._core, backend)
    return [Problem(*parts) for parts in problems], warnings


CONFORMANCE_NETWORKS = ("Ring(4)", "Switch(6)", "Ring(2)_Switch(4)")
"""Networks of the conformance suite where none is named."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of the conformance suite of network backends."""

    traffic: str
    """Traffic that was sent."""
    messages: int
    violation: str | None
    """The first rule that was broken, with numbers."""


def check_backend(platform: AnyPlatform, backend: str) -> list[Finding]:
    """Runs the conformance suite of network backends with several kinds of traffic on the network
    of `platform`; for simulators in other processes (`external:COMMAND`).

    Raises `InputError` for a network that the backend cannot carry, and for a simulator that
    crashes, hangs or breaks the protocol."""
    target = Platform.of(platform)
    # One that says nothing is waited for once, not for each kind of traffic. The suite reports
    # messages that are lost.
    with contextlib.suppress(StalledError):
        collective_result("broadcast", 1000, target, backend=backend)
    return [Finding(*found) for found in _core.check_backend(target._core, backend)]


def collective_row(
    kind: str,
    size: int,
    platform: AnyPlatform,
    *,
    backend: str | None = None,
    dtype: str = "float",
    root: int = 0,
    fold: bool = True,
    progress: Progress | None = None,
) -> nccl.CollectiveRow:
    """Times the collective `kind` of one size; see `collective`."""
    from . import run_warnings
    from .estimate import bounds

    platform = Platform.of(platform)
    kind, width, ranks = nccl.operation(kind), nccl.element_bytes(dtype), platform.npus
    count = nccl.element_count(kind, size, ranks, width)
    wanted = nccl.npu_bytes(kind, count, width, ranks)
    at = nccl.root_rank(root, ranks)
    outcome = _collective(kind, wanted, platform, backend, fold, at, progress)
    row = nccl.row(kind, count, dtype, ranks, root, outcome.step_ps, outcome.digest)
    algorithm, protocol, _ = platform._core.library_choice(kind, wanted) or ("", "", 0)
    found = Result(outcome).report
    bound = None if algorithm.startswith("NVLS") else bounds.of_all(found, kind, wanted)
    least = bound.ns / NS_PER_US if bound else 0.0
    row = replace(
        _with_bounds(row, found),
        algorithm=algorithm,
        protocol=protocol,
        lower_bound_us=least,
        warnings=run_warnings.of(found),
    )
    interval = collective_interval(kind, row.size, platform)
    if interval is None or not algorithm:
        return row
    low, high = interval.of(row.time_us)
    return replace(row, low_us=low, high_us=high)


def collective_interval(kind: str, size: int, platform: AnyPlatform) -> Interval | None:
    """The interval around the time of the collective `kind` over all NPUs, `size` in bytes as
    nccl-tests counts them; `None` where the platform has no library that was compared with
    measurements. See docs/models/uncertainty.md."""
    from .uncertainty.collectives import place

    platform = Platform.of(platform)
    if not platform.has_library:
        return None
    found = place(platform.describe()).interval(nccl.operation(kind), size)
    return found if found.sources else None


def collective_result(
    kind: str, size: int, platform: AnyPlatform, *, backend: str | None = None
) -> Result:
    """One collective `kind` over all NPUs with its whole report; `size` as nccl-tests printed it,
    of any alignment."""
    target = Platform.of(platform)
    moved = nccl.measured_bytes(kind, size, target.npus)
    return Result(_collective(kind, moved, target, backend))


def _collective(
    kind: str,
    size: int,
    platform: Platform,
    backend: str | None,
    fold: bool = True,
    root: int = 0,
    progress: Progress | None = None,
) -> kept_runs.Outcome:
    return kept_runs.outcome(
        lambda: {"collective": [kind, size, platform._core.to_json(), backend, fold, root]},
        lambda: _core.collective(kind, size, platform._core, backend, fold, root, progress),
    )


def collective_us(
    kind: str, size: int, platform: AnyPlatform, *, backend: str | None = None
) -> float:
    """How long the collective of `collective_result` takes, us."""
    return collective_result(kind, size, platform, backend=backend).step_time_ns / NS_PER_US


def _with_bounds(row: nccl.CollectiveRow, report: Report) -> nccl.CollectiveRow:
    bounds = report["bounds"]
    return replace(
        row,
        dimension_bound_us=bounds["dimension_ns"] / NS_PER_US,
        network_bound_us=bounds["network_ns"] / NS_PER_US,
        utilisation=[each["utilisation"] for each in report["dimensions"]],
    )


def collective(
    kind: str,
    sizes: Iterable[int] | int,
    platform: AnyPlatform,
    *,
    npus: int | None = None,
    backend: str | None = None,
    dtype: str = "float",
    root: int = 0,
    fold: bool = True,
) -> pl.DataFrame:
    """Times a collective over all NPUs: `collective("all_reduce", [2**20, 2**30], platform)`.

    A platform is an object, a preset's name or a path; `npus` resizes its outermost dimension to
    this total number of NPUs. `sizes` are bytes as nccl-tests counts them: the larger of a
    rank's input and output buffer.
    Columns are those of nccl-tests: `size`, `count`, `type`, `redop`, `root`, `time_us`, `algbw`
    and `busbw` (GB/s), the run's `digest`; and how close it comes: `dimension_bound_us`, the time
    in which the busiest dimension could carry the bytes sent over it, `network_bound_us`, that of
    all dimensions together, `lower_bound_us`, below which no algorithm comes, and the `utilisation`
    of each. On a platform with a library also the `algorithm` and `protocol` it chose. `warnings`
    of the run include what it assumed. Raises
    `InputError` for an unknown platform, and for a number of NPUs that no size gives."""
    polars_extra.require()
    import polars as pl

    target = Platform.of(platform, npus=npus)
    wanted = [sizes] if isinstance(sizes, int) else list(sizes)
    found = [
        collective_row(kind, size, target, backend=backend, dtype=dtype, root=root, fold=fold)
        for size in wanted
    ]
    rows = [{**row.as_dict(), "warnings": row.warnings} for row in found]
    chosen = target.has_library
    schema = {
        key: kind
        for key, kind in columns(nccl.CollectiveRow).items()
        if chosen or key not in nccl.CHOICE
    }
    return pl.DataFrame(rows, schema=schema)
