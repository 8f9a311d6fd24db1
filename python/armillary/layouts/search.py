"""The fastest layouts of a model on a platform, proved by bounds.

Every layout has its memory, a lower bound of its simulated step and an estimate of it. The fastest
by estimate are simulated. The search ends when no other layout has a bound below the best simulated
step, or after a number of simulations. Then the layouts that are left are counted, and the lowest
of their bounds gives the gap. Not here: the parts (`parts.py`), the space (`space.py`)."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..api import simulate
from ..errors import InputError, Problem
from ..model.decoder_reader import decoder
from ..model.files import Model, load_model
from ..platform import AnyPlatform, Platform
from ..platform.platform import fit_limits
from ..uncertainty.interval import indistinct
from ..units import PS_PER_NS, counted
from ..workload import build
from ..workload.frameworks import load_framework, settings_of
from ..workload.parallelism import Parallelism
from ..workload.parallelism_reader import filled_in
from . import axes as axes_
from .parts import Parts
from .result import LayoutPlan, Ranked, Refused
from .space import SEVERAL, LayoutSpace
from .timing import Clock

Progress = Callable[[float], None]

SIMULATIONS = 32
"""Most simulations of a search."""
KEPT = 64
"""Layouts whose estimates are compared."""
GAP = 0.01
"""A search ends early when the rest is proved to be faster by at most this share."""
_TOKENS, _TOKENS_OF_RANK = 1 << 22, 1 << 10
"""Tokens of a step where none are given: these in all, or these for each rank if that is more."""
_REFUSED = 8
_PARTS = ("weights", "gradients", "optimizer state", "activations", "temporary buffers")
_UNLIMITED = 2**63


@dataclass
class _Search:
    """A search as it goes on."""

    name: Model
    target: Platform
    backend: str | None
    space: LayoutSpace
    limits: tuple[int, int]
    common: Mapping[str, object]
    """Options that make the framework of all layouts."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """Warnings of each run, by the options of its layout."""
    notes: list[str] = field(default_factory=list)
    """Warnings of the search."""

    def simulated(self, row: Row) -> Ranked | None:
        """A layout with its simulated step; none where that would take minutes."""
        group, data, bound, estimate, size, _, fits = row
        chosen = {**self.space.options(group, data), **self.common}
        made = build(self.name, **chosen)
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


Row = tuple[int, int, int, int, int, int, str]


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
    fits."""
    say = progress or (lambda _: None)
    loaded = load_model(model)
    shape = decoder(loaded)
    software = {
        key: value
        for key, value in (("framework", framework), ("framework_set", framework_set))
        if value is not None
    }
    target = Platform.of(platform, settings_of(software), npus=ranks)
    _refuse(target, simulations)
    count = target.npus
    length = shape.sequence if seq is None else seq
    notes: list[str] = []
    batch = _batch(length, count, notes) if global_batch is None else global_batch
    own = {"global_batch": batch, "seq": length, "framework_set": framework_set or {}}
    base = filled_in(shape, loaded.name, own)
    given = dict(layout or {})
    described = target.describe()
    node = described["fabric"]["dims"][0]["size"]
    flash = base.attention == "flash" and given.get("attention", ("flash",)) == ("flash",)
    axes = {**axes_.defaults(shape, count, node, flash), **{k: tuple(v) for k, v in given.items()}}
    one = {name: values[0] for name, values in axes.items() if name not in SEVERAL}
    several = [name for name, values in axes.items() if name not in SEVERAL and len(values) > 1]
    if several:
        said = f"several values of {several[0]}"
        raise InputError([Problem("--layout", several[0], said, "one value of this option")])
    base = replace(base, **one)  # type: ignore[arg-type]
    clock = Clock(target, backend or "analytical")
    space = LayoutSpace(
        shape,
        Parts(shape, clock),
        base,
        axes,
        count,
        frozenset(given),
        None if framework is None else load_framework(framework),
        framework_set or {},
    )
    space.fill()
    say(0.2)
    core = space.parts.space
    if not core.layouts:
        raise InputError([_none(loaded.name, count, batch)])
    capacity = described["npu"].get("memory_capacity_bytes")
    if not capacity:
        notes.append(f"{target.name} states no npu.memory.capacity: every layout fits")
    limits = fit_limits(capacity) if capacity else (_UNLIMITED, _UNLIMITED)
    fitting, close, _, floor = core.search(
        limits, near, (KEPT, 0), lambda share, _: say(0.2 + 0.3 * share)
    )
    found = _Search(loaded, target, clock.backend, space, limits, software)
    if not core.kept:
        raise InputError([_too_large(found, capacity, close)])
    best, gap, left = _proved(found, simulations, near, floor, lambda share: say(0.5 + share / 2))
    notes += [*found.notes, *found.warnings[str(best[0].options)]]
    return LayoutPlan(
        loaded.name,
        target.name,
        count,
        batch,
        length,
        core.layouts,
        fitting,
        close,
        _separated(best),
        gap,
        left,
        clock.backend or "",
        {name: list(values) for name, values in axes.items()},
        _refused(found, best[0], near),
        notes,
    )


def _refuse(target: Platform, simulations: int) -> None:
    problems = []
    if not 1 <= simulations <= 100_000:
        problems.append(
            Problem("", "simulations", f"invalid number: {simulations}", "1 to 100,000")
        )
    described = target.describe()
    launch = described["npu"].get("launch") or {}
    if any(launch.values()):
        said = "is set: no bound knows what hosts add to a step"
        problems.append(Problem(target.source, "npu.launch", said, "--set npu.launch=null"))
    if problems:
        raise InputError(problems)


def _batch(seq: int, ranks: int, notes: list[str]) -> int:
    tokens = max(_TOKENS, _TOKENS_OF_RANK * ranks)
    batch = max(1, tokens // seq)
    notes.append(
        f"assumed: a step of {counted(batch, 'sample')} of {seq} tokens; --global-batch sets it"
    )
    return batch


def _proved(
    search_: _Search, simulations: int, near: bool, floor: int, say: Progress
) -> tuple[list[Ranked], float, int]:
    """Simulated layouts, the fastest first; the gap; the layouts that are left."""
    core = search_.space.parts.space
    rows = core.fastest(0, core.kept)
    best: list[Ranked] = []
    done: set[tuple[int, int]] = set()
    long: set[tuple[int, int]] = set()

    def run(row: Row) -> None:
        one = search_.simulated(row)
        (done if one else long).add((row[0], row[1]))
        if one:
            best.append(one)
            best.sort(key=lambda each: (each.step_ns, str(sorted(each.options.items()))))
        say(len(done) / simulations)

    def known(row: Row) -> bool:
        return (row[0], row[1]) in done | long

    for row in rows:
        slower = best and row[3] / PS_PER_NS >= best[0].step_ns and len(best) >= _SHOWN
        if slower or len(done) + len(long) >= simulations:
            break
        run(row)
    if not best:
        raise InputError([_too_long(search_)])
    step = math.ceil(best[0].step_ns * PS_PER_NS)
    if step > floor:
        # Estimates may be low: every layout whose bound is below the step counts.
        core.search(search_.limits, near, (KEPT, step), None)
        rows = core.fastest(0, core.kept)

    def lower() -> list[Row]:
        fastest = best[0].step_ns * PS_PER_NS * (1 - GAP)
        open_ = (row for row in rows if row[2] < fastest and not known(row))
        return sorted(open_, key=lambda row: (row[2], row[0], row[1]))

    while (left := lower()) and len(done) + len(long) < simulations:
        run(left[0])
    open_ = [
        row for row in rows if (row[0], row[1]) not in done and row[2] / PS_PER_NS < best[0].step_ns
    ]
    lowest = min((row[2] / PS_PER_NS for row in open_), default=best[0].step_ns)
    if long:
        search_.notes.append(
            f"{counted(len(long), 'layout')} with small estimates or bounds "
            f"{'was' if len(long) == 1 else 'were'} not simulated: a run takes minutes, because "
            "many of its ranks differ"
        )
    return best, max(0.0, 1 - lowest / best[0].step_ns), len(open_)


_SHOWN = 5
"""Least number of layouts that are simulated, if there are enough."""


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


def _refused(search_: _Search, winner: Ranked, near: bool) -> list[Refused]:
    """The layouts that would be faster than the best one, and do not fit."""
    space = search_.space
    rows = space.parts.space.refused(
        search_.limits, near, int(winner.step_ns * PS_PER_NS), _REFUSED
    )
    return [_reason(search_, row, near) for row in rows]


def _reason(search_: _Search, row: Row, near: bool) -> Refused:
    group, data, _, estimate, size, stage, _ = row
    space = search_.space
    par = space.layout(group, data)
    held = space.parts.space.held(group, data)[stage]
    largest = max(range(len(held)), key=lambda part: held[part])
    most = search_.limits[1 if near else 0]
    return Refused(
        {**space.options(group, data), **search_.common},
        estimate / PS_PER_NS,
        stage,
        _PARTS[largest],
        held[largest],
        size,
        size - most,
        _change(search_, par, most),
    )


def _change(search_: _Search, par: Parallelism, most: int) -> dict[str, object] | None:
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


def _too_long(search_: _Search) -> Problem:
    """Each of the fastest layouts takes minutes to simulate."""
    said = "every layout that was tried takes minutes to simulate, because many of its ranks differ"
    return Problem(search_.name.name, "simulations", said, "--layout cp=1, or fewer ranks")


def _none(name: str, ranks: int, batch: int) -> Problem:
    said = f"no layout of these values on {counted(ranks, 'rank')} with {batch} samples a step"
    return Problem(name, "layout", said, "more values, or another --global-batch or --ranks")


def _too_large(search_: _Search, capacity: int, close: int) -> Problem:
    """No layout fits: the least memory that one needs."""
    least = search_.space.parts.space.least_bytes()
    said = (
        f"no layout fits: each needs {least / 1e9:.1f} GB or more on its fullest rank, and an NPU "
        f"has {capacity / 1e9:.1f} GB"
    )
    more = "--near takes layouts that may fit; " if close else ""
    return Problem(search_.target.source, "memory", said, f"{more}more ranks, or a smaller step")
