"""The layouts of a search after steps of the same job were measured: intervals that are closer, and
a new order.

Not here: the file of steps (`measured_file.py`), the statistics (`uncertainty/after_steps.py`)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..api import simulate
from ..errors import InputError, Problem
from ..platform import Platform
from ..uncertainty.after_steps import after, middle
from ..units import NS_PER_S
from ..workload import build
from ..workload.parallelism import Parallelism
from ..workload.parallelism_reader import parallelism
from .job import Job
from .measured_file import MeasuredStep, read_steps
from .result import LayoutPlan, MeasuredLayout, Ranked, separated
from .space import several


def known_steps(job: Job, target: Platform) -> list[MeasuredStep]:
    """The measured steps of a job, read if they are a file, with all options. Raises `InputError`
    for steps of another job."""
    steps = job.measured
    if isinstance(steps, str | os.PathLike):
        steps = read_steps(steps, job.model, target.npus)
    problems: list[Problem] = []
    found = []
    for each in steps:
        whole = replace(each, options={**_of_job(job), **each.options})
        try:
            problems += _other_job(job, target, _layout(job, whole.options), each.place)
        except InputError as error:
            problems += [replace(one, file=each.place) for one in error.problems]
        found.append(whole)
    if problems:
        raise InputError(problems)
    return found


def with_steps(
    plan: LayoutPlan,
    job: Job,
    target: Platform,
    backend: str | None,
    steps: Sequence[MeasuredStep],
) -> LayoutPlan:
    """The plan after these steps of the job, as `known_steps` gives them. Raises `InputError` where
    nothing is known of the uncertainty of steps."""
    found = _simulated(job, target, backend, steps)
    if any(each.low_ns is None or each.high_ns is None for each in plan.best):
        said = "no interval is known for steps of this model"
        raise InputError([Problem(job.model.name, "measured", said, "leave it out")])
    logs = [math.log(each.measured_ns / each.simulated_ns) for _, each in found]
    own = {_searched(job, par): each.measured_ns for par, each in found}
    best = [
        _known(each, own.get(_searched(job, _layout(job, each.options))), logs)
        for each in plan.best
    ]
    order = sorted(best, key=lambda each: each.expected_ns or math.inf)
    moved = [each.options for each in order] != [each.options for each in plan.best]
    noted = [note for each in steps for note in each.notes]
    return replace(
        plan,
        best=separated(order),
        measured=[each for _, each in found],
        moved=moved,
        warnings=[*plan.warnings, *dict.fromkeys(noted)],
    )


def _known(each: Ranked, measured: float | None, logs: Sequence[float]) -> Ranked:
    """A layout with what is expected of it: what was measured, or what follows from other steps."""
    if measured is not None:
        return replace(each, expected_ns=measured, low_ns=measured, high_ns=measured)
    assert each.low_ns is not None and each.high_ns is not None
    before = each.low_ns / each.step_ns, each.high_ns / each.step_ns
    low, high = (each.step_ns * factor for factor in after(before, logs))
    expected = each.step_ns * middle(before, logs)
    return replace(each, expected_ns=expected, low_ns=low, high_ns=high)


def _simulated(
    job: Job, target: Platform, backend: str | None, steps: Sequence[MeasuredStep]
) -> list[tuple[Parallelism, MeasuredLayout]]:
    """The measured layouts with their simulated steps, steps of the same layout as one."""
    found: dict[Parallelism, tuple[Mapping[str, object], list[float]]] = {}
    for each in steps:
        par = _layout(job, each.options)
        found.setdefault(par, (each.options, []))[1].append(math.log(each.step_s))
    rows = []
    for par, (options, times) in found.items():
        run = simulate(build(job.model, **options), target, backend=backend)
        seconds = math.exp(sum(times) / len(times))
        row = MeasuredLayout(options, seconds * NS_PER_S, run.step_time_ns, len(times))
        rows.append((par, row))
    return rows


def _of_job(job: Job) -> dict[str, object]:
    """Options that all layouts of a job have."""
    names = several(job.layout)
    one = {name: values[0] for name, values in job.layout.items() if name not in names}
    return {**job.software, **one, "global_batch": job.global_batch, "seq": job.seq}


def _layout(job: Job, options: Mapping[str, object]) -> Parallelism:
    return parallelism(job.shape, job.model.name, options)


def _searched(job: Job, par: Parallelism) -> tuple[object, ...]:
    """The options that make one layout of a search."""
    return tuple(getattr(par, name) for name in several(job.layout))


def _other_job(job: Job, target: Platform, par: Parallelism, place: str) -> list[Problem]:
    """Why a step is not of this job."""
    wanted = (
        ("ranks", par.world, target.npus),
        ("global_batch", par.global_batch, job.global_batch),
        ("seq", par.seq, job.seq),
    )
    return [
        Problem(place, name, f"{value}, but layouts are planned for {planned}", str(planned))
        for name, value, planned in wanted
        if value != planned
    ]
