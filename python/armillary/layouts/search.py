"""The fastest layouts of a model on one machine, proved by bounds.

Every layout has its memory, a lower bound of its simulated step and an estimate of it. The fastest
by estimate are simulated. The search ends when no other layout has a bound below the best simulated
step, or after a number of simulations. Then the layouts that are left are counted, and the lowest
of their bounds gives the gap. Not here: the parts (`parts.py`), the space (`space.py`), several
machines (`joint.py`)."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..api import simulate
from ..errors import InputError, Problem
from ..model.files import Model
from ..platform import AnyPlatform, Platform
from ..platform.platform import fit_limits
from ..uncertainty.interval import indistinct
from ..units import PS_PER_NS, counted
from ..workload import build
from ..workload.frameworks import settings_of
from ..workload.parallelism import Parallelism
from .job import SIMULATIONS, Job
from .result import LayoutPlan, Ranked, Refused, SearchInterrupted
from .space import SEVERAL, LayoutSpace, space_of
from .timing import Clock

Progress = Callable[[float], None]
T = TypeVar("T")

KEPT = 64
"""Layouts whose estimates are compared."""
GAP = 0.01
"""A search ends early when the rest is proved to be faster by at most this share."""
_REFUSED = 8
_PARTS = ("weights", "gradients", "optimizer state", "activations", "temporary buffers")
_UNLIMITED = 2**63

Row = tuple[int, int, int, int, int, int, str]
"""Group, choice of data parallelism, bound, estimate, bytes, fullest stage, whether it fits."""


@dataclass
class Search:
    """A search on one machine as it goes on."""

    job: Job
    target: Platform
    backend: str | None
    space: LayoutSpace
    capacity: int | None
    """Bytes of an NPU, if the platform states them."""
    limits: tuple[int, int]
    """Bytes up to which a layout surely fits, and up to which it may."""
    fitting: int = 0
    """Layouts that surely fit."""
    close: int = 0
    """Layouts that may fit."""
    floor: int = 0
    """The bounds of all layouts that fit and are not among the rows are above it, ps."""
    rows: list[Row] = field(default_factory=list)
    best: list[Ranked] = field(default_factory=list)
    """Simulated layouts, the fastest first."""
    done: set[tuple[int, int]] = field(default_factory=set)
    """Layouts that were simulated."""
    long: set[tuple[int, int]] = field(default_factory=set)
    """Layouts that were not, because that takes minutes."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """Warnings of each run, by the options of its layout."""
    stop: KeyboardInterrupt | None = None
    """What ended the search early."""

    def look(self, say: Progress) -> None:
        """Finds the layouts with the smallest estimates. Raises `InputError` where none fits."""
        core = self.space.parts.space
        fitting, close, _, floor = core.search(
            self.limits, self.job.near, (KEPT, 0), lambda share, _: say(share)
        )
        self.fitting, self.close, self.floor = fitting, close, floor
        self.rows = core.fastest(0, core.kept)
        if not self.rows:
            raise InputError([_too_large(self)])

    @property
    def lowest(self) -> float:
        """No layout that fits has a faster step, ns."""
        return min(row[2] for row in self.rows) / PS_PER_NS

    def open_rows(self, step_ns: float) -> list[Row]:
        """Layouts that were not simulated and whose bounds are below a step; of a stopped search,
        those that are known."""
        most = math.ceil(step_ns * PS_PER_NS)
        if most > self.floor and not self.stop:
            # Estimates may be low: every layout whose bound is below the step counts.
            core = self.space.parts.space
            *_, self.floor = core.search(self.limits, self.job.near, (KEPT, most), None)
            self.rows = core.fastest(0, core.kept)
        return [
            row
            for row in self.rows
            if row[2] / PS_PER_NS < step_ns and (row[0], row[1]) not in self.done
        ]

    def prove(self, say: Progress, most: int | None = None, below: float = math.inf) -> None:
        """Simulates layouts until no other one is much faster. No more than `most` of them, and
        after the first one none whose step is surely not below `below`, in ns. Raises `InputError`
        where each takes minutes."""
        most = self.job.simulations if most is None else most

        def spent() -> bool:
            return len(self.done) + len(self.long) >= most

        def hopeless(ps: int) -> bool:
            return bool(self.best) and ps / PS_PER_NS >= below

        for row in self.rows:
            slower = self.best and row[3] / PS_PER_NS >= self.best[0].step_ns
            enough = slower and (len(self.best) >= _SHOWN or below < math.inf)
            if enough or spent() or hopeless(row[2]):
                break
            self._run(row)
            say(len(self.done) / most)
        if not self.best:
            raise InputError([_too_long(self)])

        def left() -> list[Row]:
            fastest = min(self.best[0].step_ns, below)
            rows = (row for row in self.open_rows(fastest) if (row[0], row[1]) not in self.long)
            promising = (row for row in rows if row[2] / PS_PER_NS < fastest * (1 - GAP))
            return sorted(promising, key=lambda row: (row[2], row[0], row[1]))

        while not spent() and (rows := left()):
            self._run(rows[0])
            say(len(self.done) / most)

    def _run(self, row: Row) -> None:
        one = self.simulated(row)
        (self.done if one else self.long).add((row[0], row[1]))
        if one:
            self.best.append(one)
            self.best.sort(key=lambda each: (each.step_ns, str(sorted(each.options.items()))))

    def simulated(self, row: Row) -> Ranked | None:
        """A layout with its simulated step; none where that would take minutes."""
        group, data, bound, estimate, size, _, fits = row
        chosen = {**self.space.options(group, data), **self.job.software}
        made = build(self.job.model, **chosen)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="this run simulates")
            try:
                run = simulate(made, self.target, backend=self.backend)
            except UserWarning:
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

    def plan(self) -> LayoutPlan:
        """What was found and proved."""
        fastest = self.best[0]
        refused = self.late(lambda: _refused(self, fastest)) or []
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
            _separated(self.best),
            self.gap(open_),
            len(open_),
            self.backend or "",
            {name: list(values) for name, values in self.space.axes.items()},
            refused,
            [*self.job.notes, *self._notes(), *self.warnings[str(fastest.options)]],
            self.stop is not None,
        )

    def late(self, work: Callable[[], T]) -> T | None:
        """What is added to simulated layouts; none once the user has stopped the search."""
        try:
            return None if self.stop else work()
        except KeyboardInterrupt as stop:
            if not self.best:
                raise
            self.stop = stop
            return None

    def _notes(self) -> list[str]:
        found = []
        if not self.capacity:
            found.append(f"{self.target.name} states no npu.memory.capacity: every layout fits")
        if self.long:
            found.append(
                f"{counted(len(self.long), 'layout')} with small estimates or bounds "
                f"{'was' if len(self.long) == 1 else 'were'} not simulated: a run takes minutes, "
                "because many of its ranks differ"
            )
        if self.stop:
            found.append(
                f"interrupted: {counted(len(self.best), 'layout')} simulated; faster layouts that "
                "do not fit are not listed"
            )
        return found


_SHOWN = 5
"""Least number of layouts that are simulated, if there are enough."""


def search(
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform,
    ranks: int | None = None,
    *,
    global_batch: int | None = None,
    seq: int | None = None,
    layout: Mapping[str, Sequence[object]] | None = None,
    framework: str | None = None,
    framework_set: Mapping[str, object] | None = None,
    near: bool = False,
    simulations: int = SIMULATIONS,
    backend: str | None = None,
    progress: Progress | None = None,
) -> LayoutPlan:
    """The fastest layouts of a decoder on `ranks` NPUs of `platform`.

    `layout` has values of options that are searched instead of the defaults:
    `{"tp": (4, 8), "zero": (1,)}`. Raises `InputError` for wrong options, and where no layout
    fits, and `SearchInterrupted` after a Ctrl-C, once a layout is simulated."""
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
    )
    found = opened(job, target)
    say(0.2)
    found.look(lambda share: say(0.2 + 0.3 * share))
    found.late(lambda: found.prove(lambda share: say(0.5 + share / 2)))
    answer = found.plan()
    if found.stop:
        raise SearchInterrupted(answer, found.stop)
    return answer


def opened(job: Job, target: Platform) -> Search:
    """A search on a machine, with the times of all parts of its layouts. Raises `InputError`."""
    _refuse_hosts(target)
    clock = Clock(target, job.backend or "analytical")
    space = space_of(job, target, clock)
    space.fill()
    if not space.parts.space.layouts:
        raise InputError([_none(job, target.npus)])
    capacity = target.describe()["npu"].get("memory_capacity_bytes")
    limits = fit_limits(capacity) if capacity else (_UNLIMITED, _UNLIMITED)
    return Search(job, target, clock.backend, space, capacity, limits)


def _refuse_hosts(target: Platform) -> None:
    launch = target.describe()["npu"].get("launch") or {}
    if any(launch.values()):
        said = "is set: no bound knows what hosts add to a step"
        raise InputError([Problem(target.source, "npu.launch", said, "--set npu.launch=null")])


def _separated(best: Sequence[Ranked]) -> list[Ranked]:
    """Whether uncertainty separates each from the fastest."""

    def factors(each: Ranked) -> tuple[float, float] | None:
        if each.low_ns is None or each.high_ns is None:
            return None
        return each.low_ns / each.step_ns, each.high_ns / each.step_ns

    first = factors(best[0])
    found = [best[0]]
    for each in best[1:]:
        own = factors(each)
        apart = (
            first is None
            or own is None
            or not indistinct(each.step_ns / best[0].step_ns, first, own)
        )
        found.append(replace(each, separated=apart))
    return found


def _refused(search_: Search, winner: Ranked) -> list[Refused]:
    """The layouts that would be faster than the best one, and do not fit."""
    space = search_.space
    rows = space.parts.space.refused(
        search_.limits, search_.job.near, int(winner.step_ns * PS_PER_NS), _REFUSED
    )
    return [_reason(search_, row) for row in rows]


def _reason(search_: Search, row: Row) -> Refused:
    group, data, _, estimate, size, stage, _ = row
    space = search_.space
    par = space.layout(group, data)
    held = space.parts.space.held(group, data)[stage]
    largest = max(range(len(held)), key=lambda part: held[part])
    most = search_.limits[1 if search_.job.near else 0]
    return Refused(
        {**space.options(group, data), **search_.job.software},
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
    space = search_.space
    wanted = {
        (name, value)
        for name in ("recompute_modules", "recompute", "zero", "sp")
        for value in space.axes[name]
        if value != getattr(par, name)
    }
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
        for at, zero in enumerate(space.stages[group]):
            other = replace(frame, zero=zero)
            changed = [name for name in SEVERAL if getattr(other, name) != getattr(par, name)]
            if len(changed) != 1 or (changed[0], getattr(other, changed[0])) not in wanted:
                continue
            size = max(map(sum, space.parts.space.held(group, space.first[group] + at)))
            if size <= most:
                found.append((-size, changed[0], getattr(other, changed[0])))
    if not found:
        return None
    _, name, value = min(found, key=lambda each: (each[0], each[1], str(each[2])))
    return {name: value}


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


def _too_large(search_: Search) -> Problem:
    """No layout fits: the least memory that one needs."""
    least = search_.space.parts.space.least_bytes()
    capacity = search_.capacity or 0
    said = (
        f"no layout fits: each needs {least / 1e9:.1f} GB or more on its fullest rank, and an NPU "
        f"has {capacity / 1e9:.1f} GB"
    )
    more = "--near takes layouts that may fit; " if search_.close else ""
    return Problem(search_.target.source, "memory", said, f"{more}more ranks, or a smaller step")
