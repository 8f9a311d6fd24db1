"""A sweep from study to table: points -> workers -> journal -> table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Problem

if TYPE_CHECKING:
    from .executor import Executor
    from .frame import Frame
    from .journal import Journal
    from .points import Point
    from .results import Status, Sweep
    from .runner import Finished
    from .study import SweepStudy

Given = str | os.PathLike[str] | Mapping[str, Any]

_SAMPLE = 16
"""First points of a study. If none of them can run, the study is wrong rather than its points."""
_ALONE_S = 1.0
"""Checks that take longer are worth starting workers for."""


Progress = Callable[["Status"], None]


def sweep(
    study: Given,
    output: str | os.PathLike[str] | None = None,
    *,
    workers: int | None = None,
    executor: str = "processes",
    resume: bool = False,
    retry_failed: bool = False,
    settings: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Runs every point of a study, a YAML file or a mapping of the same form
    (docs/guides/sweep.md).

    With `output`, every finished point is on the disk at once, in `journal.jsonl` of that
    directory, and the table in `table.parquet` at the end; `resume=True` goes on where an earlier
    run of the same study ended, and with `retry_failed=True` runs its failed points again.
    `workers` is the number of cores by default; `executor` is `processes` or `ray`;
    `settings` override values of the platform at every point.
    `progress` is called as points end. A point that can't be run has its error in the table and
    ends nothing. Raises `InputError` listing every problem."""
    from . import executor as executors
    from .runner import opening

    found = _read(study, settings)
    if retry_failed:
        _require_retry(found, resume)
    chosen = executors.executor(executor, opening(found), workers)
    started = _Run(found, output, resume, retry_failed, progress)
    try:
        with chosen as pool:
            started.all(pool)
        return started.ended()
    finally:
        started.close()


def check(
    study: Given,
    progress: Progress | None = None,
    *,
    workers: int | None = None,
    settings: Mapping[str, object] | None = None,
) -> list[Problem]:
    """Everything wrong with a study and its points (of an Optuna search: the first ones), without
    simulating.

    After a second, worker processes help: one for each core, or `workers`.
    """
    from .results import Status

    try:
        found = _read(study, settings)
        points = list(_first(found))
    except InputError as error:
        return error.problems
    wrong: dict[int, list[Problem]] = {}
    failed = 0
    for done, (index, problems) in enumerate(_checked(found, points, workers), 1):
        wrong[index] = problems
        failed += bool(problems)
        if progress is not None:
            progress(Status(done, len(points), failed, 0, None))
    seen: dict[Problem, list[int]] = {}
    for index in sorted(wrong):
        for problem in wrong[index]:
            seen.setdefault(problem, []).append(index)
    return [
        _of_points(found, problem, [points[index] for index in some], len(points))
        for problem, some in seen.items()
    ]


def _checked(
    study: SweepStudy, points: list[Point], workers: int | None
) -> Iterator[tuple[int, list[Problem]]]:
    """Every point and its problems, in any order."""
    from . import executor as executors
    from .runner import DECODER, Runner, opening, problems_of

    runner, began = Runner(study), monotonic()
    left = iter(points)
    for point in left:
        yield point[0], runner.check(point)
        if monotonic() - began > _ALONE_S:
            break
    rest = list(left)
    if not rest:
        return
    with executors.executor("processes", opening(study, check=True), workers) as pool:
        for lines in pool.run(_by_workload(study, rest)):
            for line in lines:
                checked = DECODER.decode(line)
                yield checked.index, problems_of(checked)


def _require_retry(study: SweepStudy, resume: bool) -> None:
    """Refuses to run failed points again where there are none, or where others have been chosen by
    them."""
    if not resume:
        raise InputError(
            [Problem("", "retry_failed", "runs points of an earlier run again", "with resume")]
        )
    if study.search.kind == "optuna":
        said = "Optuna chose later points by what failed"
        raise InputError(
            [Problem(study.source.file, "retry_failed", said, "search: grid or random")]
        )


def _of_points(study: SweepStudy, problem: Problem, points: list[Point], total: int) -> Problem:
    """A problem of points as one of the study."""
    shown = ", ".join(
        f"{name}={value}" for name, value in zip(study.columns, points[0][1], strict=True)
    )
    many = f"{len(points):,} of {total:,} points, the first" if len(points) > 1 else "point"
    where = ": ".join(part for part in (problem.file, problem.place) if part)
    return Problem(
        study.source.file,
        f"{many} {shown}",
        f"{where}: {problem.message}".lstrip(": "),
        problem.help,
    )


def _read(study: Given, settings: Mapping[str, object] | None = None) -> SweepStudy:
    from .reader import study as parse
    from .source import changed, read

    return parse(changed(read(study), settings or {}))


def _first(study: SweepStudy) -> list[Point]:
    from .points import points
    from .search import Proposals

    return Proposals(study).batch() if study.search.kind == "optuna" else points(study)[0]


class _Run:
    """The state of a sweep under way."""

    def __init__(
        self,
        study: SweepStudy,
        output: str | os.PathLike[str] | None,
        resume: bool,
        retry_failed: bool,
        progress: Progress | None,
    ) -> None:
        from .points import points
        from .search import Proposals

        self.study, self.progress = study, progress
        self.proposals = Proposals(study) if study.search.kind == "optuna" else None
        self.points, self.refused = ([], 0) if self.proposals else points(study)
        self.total = (study.search.points or 0) if self.proposals else len(self.points)
        if self.proposals is None:
            _require_runnable(study, self.points[:_SAMPLE])
        self.finished: dict[int, Finished] = {}
        self.journal: Journal | None = None
        self.folder = None if output is None else Path(output)
        self.failed, self.best = 0, None
        if self.folder is not None:
            self._open(self.folder, resume, retry_failed)
        self.resumed = len(self.finished)

    def _open(self, folder: Path, resume: bool, retry_failed: bool) -> None:
        from .journal import Journal

        self.journal = Journal(folder, self.study, self.total, resume, retry_failed)
        for each in self.journal.finished.values():
            self._keep(each)

    failed: int
    best: float | None

    def _keep(self, each: Finished) -> None:
        self.finished[each.index] = each
        self.failed += each.error is not None and not each.impossible
        sure = each.results.get("fits") in ("yes", None)
        step = each.results.get("step_time_ns") if sure else None
        if step is not None and (self.best is None or step < self.best):
            self.best = step

    def all(self, pool: Executor) -> None:
        """Runs what is not finished yet."""
        if self.proposals is None:
            self.some(pool, self.points)
            return
        while batch := self.proposals.batch():
            if not self.finished:
                _require_runnable(self.study, batch)
            self.some(pool, batch)
            self.proposals.tell(batch, self.finished.__getitem__)
        self.refused = self.proposals.refused

    def some(self, pool: Executor, points: list[Point]) -> None:
        """Runs those of `points` that are not finished yet, points of one workload together."""
        from .runner import DECODER

        self._require_same(points)
        left = [point for point in points if point[0] not in self.finished]
        self._tell()
        for lines in pool.run(_by_workload(self.study, left)):
            if self.journal is not None and lines:
                self.journal.append(lines)
            for line in lines:
                self._keep(DECODER.decode(line))
            self._tell()

    def _require_same(self, points: list[Point]) -> None:
        """A journal whose points are not those of the study is not its journal."""
        import json

        for index, values in points:
            kept = self.finished.get(index)
            same = kept is None or (
                kept.values == list(values) and json.dumps(kept.values) == json.dumps(values)
            )
            if kept is not None and not same and self.journal is not None:
                said = f"has {kept.values} as point {index}, the study {list(values)}"
                raise InputError(
                    [Problem(str(self.journal.path), "", said, "the journal of this study")]
                )

    def _tell(self) -> None:
        from .results import Status

        if self.progress is not None:
            self.progress(
                Status(len(self.finished), self.total, self.failed, self.resumed, self.best)
            )

    def ended(self) -> Sweep:
        """The table, written if there is a directory for it."""
        from .. import files
        from .results import Sweep
        from .subject import subject
        from .table import NAME, content, table

        name = self.study.name
        frame = table(self.study.columns, self.finished.values())
        objectives = self.study.search.objectives or _objectives(frame)
        orders, about_what = _orders(self.study), subject(self.study)
        if self.folder is not None:
            about = {
                "name": name,
                "objectives": objectives,
                "refused": self.refused,
                "orders": orders,
                "subject": about_what,
            }
            files.write_bytes(self.folder / NAME, content(frame, about))
        counts = (self.failed, self.refused)
        return Sweep(name, frame, *counts, self.folder, objectives, orders, about_what)

    def close(self) -> None:
        """Lets the journal go."""
        if self.journal is not None:
            self.journal.close()


def _objectives(table: Frame) -> tuple[tuple[str, bool], ...]:
    """Objectives of a study that names none: the step time or, where points differ in their batch,
    samples a second."""
    from .view import STEP_TIME

    ran = table.where(error is None for error in table["error"])
    batch = [
        rate * time
        for rate, time in zip(ran["samples_per_s"], ran["step_time_ns"], strict=True)
        if rate is not None and time is not None
    ]
    differ = len(batch) == ran.height > 0 and max(batch) > min(batch) * (1 + 1e-6)
    return (("samples_per_s", True),) if differ else STEP_TIME


def _orders(study: SweepStudy) -> dict[str, list[str]]:
    """Texts of the parameters that list their values."""
    listed = {each.name: getattr(each.domain, "values", ()) for each in study.parameters}
    return {name: [str(value) for value in values] for name, values in listed.items() if values}


def _require_runnable(study: SweepStudy, points: list[Point]) -> None:
    """Refuses a study none of whose first points can be set up: a wrong key is wrong in all of
    them."""
    from .runner import Runner

    runner = Runner(study)
    problems: list[Problem] = []
    for point in points:
        wrong = runner.check(point)
        if not wrong:
            return
        problems += [
            _of_points(study, each, [point], len(points)) for each in wrong if not problems
        ]
    raise InputError(problems)


def _by_workload(study: SweepStudy, points: list[Point]) -> list[list[Point]]:
    """The points of each workload, so that workers build each seldom."""
    of_workload = [
        place
        for place, some in enumerate(study.targets)
        if any(target.startswith("workload.") for target in some)
    ]
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(repr([point[1][place] for place in of_workload]), []).append(point)
    return list(groups.values())
