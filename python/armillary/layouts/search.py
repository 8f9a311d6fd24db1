"""The fastest layouts of a model on one machine, proved by bounds.

Every layout has its memory, a lower bound of its simulated step and an estimate of it. The fastest
by estimate are simulated. The search ends when no other layout has a bound below the best simulated
step, or after a number of simulations. Then the layouts that are left are counted, and the lowest
of their bounds gives the gap. Not here: the parts (`parts.py`), the space (`space.py`), several
machines (`joint.py`)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..errors import InputError, Problem
from ..model.files import Model
from ..platform import AnyPlatform, Platform
from ..units import PS_PER_NS, counted
from ..workload.frameworks import settings_of
from ..workload.parallelism import Parallelism, changed
from .job import SIMULATIONS, Job
from .least import capacity_of, fewest, least_bytes, limits, most_bytes
from .machine_plan import SearchInterrupted
from .measured import known_steps, with_steps
from .measured_file import MeasuredStep
from .picture import picture
from .result import Cell, LayoutPlan, OnFront, Ranked, Refused, separated
from .sensitivity import Neighbourhood
from .space import Choice, LayoutSpace, space_of
from .timing import Clock
from .trial import trial

Progress = Callable[[float], None]
T = TypeVar("T")

KEPT = 64
"""Layouts whose estimates are compared."""
GAP = 0.01
"""A search ends early when the rest is proved to be faster by at most this share."""
SHOWN = 5
"""Least number of layouts that are simulated, if there are enough."""
_REFUSED = 8
_PARTS = ("weights", "gradients", "optimizer state", "activations", "temporary buffers")
_UNSURE = 1.1
"""The least memory of a few layouts is trusted where it is above the limit by more than this."""

Row = tuple[int, Choice, int, int, int, int, str]
"""Group, choice among its layouts, bound, estimate, bytes, fullest stage, whether it fits."""


class NoLayout(InputError):
    """No layout of the space, or none that fits."""


@dataclass
class Search:
    """A search on one machine as it goes on."""

    job: Job
    target: Platform
    backend: str | None
    space: LayoutSpace
    limits: tuple[int, int]
    """Bytes up to which a layout surely fits, and up to which it may."""
    fitting: int = 0
    """Layouts that surely fit."""
    close: int = 0
    """Layouts that may fit."""
    most: int | None = None
    """Layouts that need more bytes are not searched."""
    floor: int = 0
    """The bounds of all layouts that fit and are not among the rows are above it, ps."""
    fastest: float = 0.0
    """No layout that fits has a faster step, ns; whatever its memory."""
    rows: list[Row] = field(default_factory=list)
    best: list[Ranked] = field(default_factory=list)
    """Simulated layouts, the fastest first."""
    others: list[Ranked] = field(default_factory=list)
    """Simulated layouts that need more bytes than are searched."""
    done: set[tuple[int, Choice]] = field(default_factory=set)
    """Layouts that were simulated."""
    long: set[tuple[int, Choice]] = field(default_factory=set)
    """Layouts that were not, because that takes minutes."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """Warnings of each run, by the options of its layout."""
    stop: KeyboardInterrupt | None = None
    """The signal that ended the search early."""

    def look(self, say: Progress = lambda _: None) -> None:
        """Finds the layouts with the smallest estimates. Raises `NoLayout` where none fits."""
        core = self.space.parts.space
        self.fitting, self.close, _, self.floor = core.search(
            self.limits, self.job.near, (KEPT, 0), lambda share, _: say(share)
        )
        self.rows = core.fastest(0, core.kept)
        if not self.rows:
            raise NoLayout([_too_large(self.job, self.target, core.least_bytes())])
        self.fastest = self.lowest

    def within(self, most: int, count: int, least: int = 0) -> tuple[list[Row], int]:
        """The layouts that need at most these bytes: those with the smallest estimates, and all
        whose bounds are at most theirs or `least`. The bounds of the others are above the second
        number, ps."""
        core = self.space.parts.space
        surely, perhaps = self.limits
        limits = min(surely, most), min(perhaps, most)
        *_, floor = core.search(limits, self.job.near, (count, least), None)
        return core.fastest(0, core.kept), floor

    def limit(self, most: int) -> None:
        """Searches no layouts that need more bytes."""
        self.most = most
        self.rows, self.floor = self.within(most, KEPT)

    @property
    def lowest(self) -> float:
        """No layout that is searched has a faster step, ns."""
        return min(row[2] for row in self.rows) / PS_PER_NS

    def open_rows(self, step_ns: float) -> list[Row]:
        """Layouts that were not simulated and whose bounds are below a step; of a stopped search,
        those that are known."""
        most = math.ceil(step_ns * PS_PER_NS)
        if most > self.floor and not self.stop:
            # Estimates may be low: every layout whose bound is below the step counts.
            self.rows, self.floor = self.within(self.most or self.limits[1], KEPT, most)
        return [
            row
            for row in self.rows
            if row[2] / PS_PER_NS < step_ns and (row[0], row[1]) not in self.done
        ]

    def prove(
        self,
        say: Progress,
        most: int | None = None,
        below: float = math.inf,
        shown: int = SHOWN,
    ) -> None:
        """Simulates layouts until no other one is much faster: no more than `most`, after the first
        one none whose step is surely not below `below`, in ns, and at least `shown` or all of them.
        Raises `InputError` where each takes minutes."""
        most = self.job.simulations if most is None else most

        def spent() -> bool:
            return len(self.done) + len(self.long) >= most

        def known(row: Row) -> bool:
            return (row[0], row[1]) in self.done | self.long

        for row in self.rows:
            slower = self.best and row[3] / PS_PER_NS >= self.best[0].step_ns
            hopeless = self.best and row[2] / PS_PER_NS >= below
            if (slower and len(self.best) >= shown) or hopeless or spent():
                break
            if not known(row):
                self.run(row)
                say(len(self.done) / most)
        if not self.best:
            raise InputError([_too_long(self)])

        def left() -> list[Row]:
            fastest = min(self.best[0].step_ns, below)
            rows = (row for row in self.open_rows(fastest) if not known(row))
            promising = (row for row in rows if row[2] / PS_PER_NS < fastest * (1 - GAP))
            return sorted(promising, key=lambda row: (row[2], row[0], row[1]))

        while not spent() and (rows := left()):
            self.run(rows[0])
            say(len(self.done) / most)

    def run(self, row: Row) -> None:
        """Simulates a layout."""
        one = self.simulated(row)
        (self.done if one else self.long).add((row[0], row[1]))
        if one is None:
            return
        found = self.best if self.most is None or one.memory_bytes <= self.most else self.others
        found.append(one)
        found.sort(key=lambda each: (each.step_ns, str(sorted(each.options.items()))))

    def simulated(self, row: Row) -> Ranked | None:
        """A layout with its simulated step; none where that would take minutes."""
        group, choice, bound, estimate, size, _, fits = row
        chosen = {**self.space.options(group, choice), **self.job.software}
        run = trial(self.job.model, chosen, self.target, self.backend)
        if run is None:
            return None
        self.warnings[str(chosen)] = list(run.report["warnings"])
        interval = run.interval
        low, high = interval.of(run.step_time_ns) if interval else (None, None)
        return Ranked(
            chosen,
            run.step_time_ns,
            bound / PS_PER_NS,
            estimate / PS_PER_NS,
            size,
            fits,
            run.tokens_per_s,
            run.mfu,
            low,
            high,
        )

    def gap(self, open_: Sequence[Row]) -> float:
        """The share by which a layout that was not simulated can be faster than the best one."""
        step = self.best[0].step_ns
        # Layouts that are not among the rows have bounds above the floor.
        bounds = self.floor, *(row[2] for row in open_)
        return max(0.0, 1 - min(bounds) / PS_PER_NS / step)

    def plan(self, whole: bool = True) -> LayoutPlan:
        """The answer so far; if not `whole`, without refused layouts and the picture of the
        space."""
        fastest = self.best[0]
        refused = (self.late(lambda: _refused(self, fastest)) if whole else None) or []
        front, cells = (self.late(self._picture) if whole else None) or ([], [])
        open_ = self.open_rows(fastest.step_ns)
        return LayoutPlan(
            self.job.model.name,
            self.target.name,
            self.target.npus,
            self.job.global_batch,
            self.job.seq,
            self.space.parts.space.layouts,
            self.fitting,
            self.close,
            separated(self.best),
            self.gap(open_),
            len(open_),
            self.backend or "",
            {name: list(values) for name, values in self.space.axes.items()},
            refused,
            [*self.job.notes, *self._notes(whole), *self.warnings[str(fastest.options)]],
            self.stop is not None,
            front,
            cells,
        )

    def _picture(self) -> tuple[list[OnFront], list[Cell]]:
        job = self.job
        return picture(self.space, self.limits, job.near, job.software, self.best)

    def after(self, plan: LayoutPlan, steps: Sequence[MeasuredStep]) -> LayoutPlan:
        """The plan after measured steps; as it was where the user has stopped the search."""
        found = self.late(lambda: with_steps(plan, self.job, self.target, self.backend, steps))
        if found is None:
            said = "the search was stopped before measured steps were compared"
            return replace(plan, stopped=True, warnings=[*plan.warnings, said])
        more = self.warnings[str(found.winner.options)]
        return replace(found, warnings=list(dict.fromkeys([*found.warnings, *more])))

    def around(self, plan: LayoutPlan) -> LayoutPlan:
        """The plan with other batches, networks and memories; as it was where the user has stopped
        the search."""
        near = Neighbourhood(self.job, self.target, self.backend, self.space, self.limits)
        found = self.late(lambda: near.around(plan.winner))
        return replace(plan, neighbours=found or [], stopped=self.stop is not None)

    def late(self, work: Callable[[], T]) -> T | None:
        """An addition to simulated layouts; none once the user has stopped the search."""
        try:
            return None if self.stop else work()
        except KeyboardInterrupt as stop:
            if not self.best:
                raise
            self.stop = stop
            return None

    def _notes(self, whole: bool) -> list[str]:
        found = []
        if capacity_of(self.target) is None:
            found.append(f"{self.target.name} states no npu.memory.capacity: every layout fits")
        if self.long:
            found.append(
                f"{counted(len(self.long), 'layout')} with small estimates or bounds "
                f"{'was' if len(self.long) == 1 else 'were'} not simulated: a run takes minutes, "
                "because many of its ranks differ"
            )
        if self.stop and whole:
            found.append(
                f"interrupted: {counted(len(self.best), 'layout')} simulated; without the faster "
                "layouts that do not fit, or a picture of the space"
            )
        return found


def search(  # noqa: PLR0913 - keywords of a public function
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform,
    ranks: int | None = None,
    *,
    global_batch: int | None = None,
    seq: int | None = None,
    layout: Mapping[str, object] | None = None,
    framework: str | None = None,
    framework_set: Mapping[str, object] | None = None,
    near: bool = False,
    simulations: int = SIMULATIONS,
    backend: str | None = None,
    measured: str | os.PathLike[str] | Sequence[MeasuredStep] = (),
    sensitivity: bool = False,
    progress: Progress | None = None,
) -> LayoutPlan:
    """The fastest layouts of a decoder on `ranks` NPUs of `platform`.

    `layout` has values of options that are searched instead of the defaults:
    `{"tp": (4, 8), "zero": (1,)}`. `measured` are steps of this job that were measured, or a file
    of them (docs/guides/plan-layouts.md). With `sensitivity`, other batches, networks and memories
    are tried as well. Raises `InputError` for wrong options, and where no layout fits, and
    `SearchInterrupted` after a Ctrl-C, once a layout is simulated."""
    say = progress or (lambda _: None)
    target = Platform.of(platform, settings_of({"framework": framework}), npus=ranks)
    job = Job.of(
        model,
        target.npus,
        global_batch=global_batch,
        seq=seq,
        layout=layout,
        framework=framework,
        framework_set=framework_set,
        near=near,
        simulations=simulations,
        backend=backend,
        measured=measured,
        sensitivity=sensitivity,
    )
    return on_machine(job, target, say)


def on_machine(job: Job, target: Platform, say: Progress) -> LayoutPlan:
    """The fastest layouts of a job on a machine. Raises `InputError`, where no layout fits with the
    fewest NPUs on which one does, and `SearchInterrupted`."""
    steps = known_steps(job, target)
    try:
        found = opened(job, target, say=lambda share: say(0.5 * share))
        found.look(lambda share: say(0.5 + 0.1 * share))
    except NoLayout as error:
        raise InputError(named(error, job, target)) from None
    found.late(lambda: found.prove(lambda share: say(0.6 + 0.4 * share)))
    answer = found.plan()
    if steps:
        answer = found.after(answer, steps)
    if job.sensitivity:
        answer = found.around(answer)
    if found.stop:
        raise SearchInterrupted(answer, found.stop)
    return answer


def opened(
    job: Job, target: Platform, like: Search | None = None, say: Progress = lambda _: None
) -> Search:
    """A search on a machine, with the times of all parts of its layouts; `like` is one of the same
    job on another machine. Raises `NoLayout` where there is none or none can fit, and
    `InputError`."""
    _refuse_hosts(target)
    least = least_bytes(job, target)
    if least is not None and least > _UNSURE * most_bytes(job, target):
        raise NoLayout([_too_large(job, target, least)])
    clock = Clock(target, job.backend or "analytical")
    space = space_of(job, target, clock, None if like is None else like.space)
    space.fill(say)
    if not space.parts.space.layouts:
        raise NoLayout([_none(job, target.npus)])
    return Search(job, target, clock.backend, space, limits(target))


def _refuse_hosts(target: Platform) -> None:
    launch = target.describe()["npu"].get("launch") or {}
    if any(launch.values()):
        said = "is set: no bound knows what hosts add to a step"
        raise InputError([Problem(target.source, "npu.launch", said, "--set npu.launch=null")])


def _refused(search_: Search, winner: Ranked) -> list[Refused]:
    """The layouts that would be faster than the best one, and do not fit."""
    space = search_.space
    rows = space.parts.space.refused(
        search_.limits, search_.job.near, int(winner.step_ns * PS_PER_NS), _REFUSED
    )
    return [_reason(search_, row) for row in rows]


def _reason(search_: Search, row: Row) -> Refused:
    group, choice, _, estimate, size, stage, _ = row
    space = search_.space
    par = space.layout(group, choice)
    held = space.parts.space.held(group, choice)[stage]
    largest = max(range(len(held)), key=lambda part: held[part])
    most = search_.limits[1 if search_.job.near else 0]
    return Refused(
        {**space.options(group, choice), **search_.job.software},
        estimate / PS_PER_NS,
        stage,
        _PARTS[largest],
        held[largest],
        size,
        size - most,
        _change(search_, par, most),
    )


def _change(search_: Search, par: Parallelism, most: int) -> dict[str, object] | None:
    """The change of memory's options after which the layout fits, the one that frees least."""
    space, core = search_.space, search_.space.parts.space
    found = []
    for group, frame in enumerate(space.frames):
        if (frame.tp, frame.cp, frame.pp, frame.ep, frame.etp) != (
            par.tp,
            par.cp,
            par.pp,
            par.ep,
            par.etp,
        ):
            continue
        for at, (zero, shared) in enumerate(space.shards[group]):
            data, counts = space.first[group] + at, space.counts[group]
            same = par.recompute_layers in counts
            count = par.recompute_layers if same else counts[0]
            other = changed(frame, zero=zero, zero_group=shared, recompute_layers=count)
            names = _changed(space.several, par, other)
            if not names:
                continue
            choice, size = core.first_that_fits(group, data, most)
            if same:
                choice = data, counts.index(par.recompute_layers)
                size = max(map(sum, core.held(group, choice)))
            if size <= most:
                layout = space.layout(group, choice)
                found.append((-size, names[-1], {name: getattr(layout, name) for name in names}))
    if not found:
        return None
    return min(found, key=lambda each: (each[0], each[1], str(each[2][each[1]])))[2]


_FREES = ("recompute_modules", "recompute", "recompute_layers", "zero", "zero_group", "sp")
"""Options whose change frees memory."""


def _changed(names: Sequence[str], par: Parallelism, other: Parallelism) -> list[str]:
    """The one option in which another layout differs, if its change may free memory; the number of
    recomputed layers together with full recomputation."""
    found = [name for name in names if getattr(other, name) != getattr(par, name)]
    both = found == ["recompute", "recompute_layers"] and other.recompute_layers is not None
    return found if both or (len(found) == 1 and found[0] in _FREES) else []


def _too_long(search_: Search) -> Problem:
    """Each of the fastest layouts takes minutes to simulate."""
    said = "every layout that was tried takes minutes to simulate, because many of its ranks differ"
    return Problem(search_.job.model.name, "simulations", said, "--layout cp=1, or fewer ranks")


def _none(job: Job, ranks: int) -> Problem:
    said = (
        f"no layout of these values on {counted(ranks, 'rank')} with {job.global_batch} samples a "
        "step"
    )
    allowed = "more values, or another --global-batch or --ranks"
    return Problem(job.model.name, "layout", said, allowed)


def _too_large(job: Job, target: Platform, least: int) -> Problem:
    """No layout fits: the least memory that one needs."""
    surely, perhaps = (most / 1e9 for most in limits(target))
    most = perhaps if job.near else surely
    said = (
        f"no layout fits: each needs {least / 1e9:.1f} GB or more on its fullest rank, and "
        f"{most:.1f} GB of {(capacity_of(target) or 0) / 1e9:.1f} GB are sure to fit"
    )
    near = "--near takes layouts that may fit; " if surely < least / 1e9 <= perhaps else ""
    return Problem(target.source, "memory", said, f"{near}more ranks, or a smaller step")


def named(error: NoLayout, job: Job, target: Platform) -> list[Problem]:
    """The problems, with the fewest NPUs of the platform on which a layout fits."""
    count = fewest(job, target)
    if count is None:
        return error.problems
    more = f"--ranks {count}, the fewest (doubled) on which a layout fits; "
    return [replace(each, help=more + each.help) for each in error.problems]
