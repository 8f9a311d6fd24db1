"""Checks a design by simulation: its step time next to the model's, and what causes the difference.

The model knows bandwidth, latencies and the filling of pipelines. Where a simulated step differs by
more than 2 %, two more runs split the difference: one without latencies and delays, one with
collectives in sixteen times the number of chunks. The rest is order: collectives that wait for one
another, groups that share links, overlap that the model states as a share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .. import run_warnings
from ..api import simulate
from ..estimate.terms import Timing, step_model
from ..platform import Platform
from ..uncertainty import Interval
from ..units import NS_PER_S
from . import timing
from .solving import Design
from .task import Task

TOLERANCE = 0.02
"""Gap above which its causes are listed."""
_FINER = 16


_ONE_WAY = {"collectives.rings": "one_way"}
"""The model of a step counts one link of a ring."""


@dataclass(frozen=True, slots=True)
class Check:
    """One workload on one design."""

    workload: str
    backend: str
    model: float
    """Seconds."""
    simulated: float
    """Seconds."""
    effects: Mapping[str, float]
    """Seconds the model lacks (negative: has too much), by cause; they add up to the difference.
    Empty within 2 %. """
    interval: Interval | None = None
    """Factors on the simulated step between which measured steps like it lie, where any were
    measured."""
    warnings: tuple[str, ...] = ()
    """Warnings and assumptions of the simulation."""

    @property
    def gap(self) -> float:
        """Simulated over model, less one."""
        return self.simulated / self.model - 1


def platform(
    task: Task,
    design: Design,
    settings: Mapping[str, object] | None = None,
    latency: list[str] | None = None,
) -> Platform:
    """The design as a platform; `latency` by dimension where it is not the task's."""
    per = ["link" if each == "Ring" else "npu" for each in design.topology.blocks]
    return Platform(
        str(design.topology),
        bandwidth=[f"{max(1, int(each))} B/s" for each in design.bandwidth],
        latency=latency or timing.latencies(task, design.topology),
        per=per,
        settings={**_ONE_WAY, **task.settings, **(settings or {})},
    )


def check(task: Task, design: Design) -> list[Check]:
    """Simulates every workload on a design, on every backend of the task. Raises `InputError`,
    `StalledError`."""
    found = []
    for job, time in zip(design.choice.jobs, design.times, strict=True):
        for backend in task.backends:
            result = simulate(job.workload, platform(task, design), backend=backend)
            seconds = result.step_time_ns / NS_PER_S
            warnings = tuple(run_warnings.of(result.report))
            found.append(Check(job.name, backend, time, seconds, {}, result.interval, warnings))
    return found


def explained(task: Task, design: Design, checks: Sequence[Check]) -> list[Check]:
    """Checks with the effects of those that are farther off. Raises `InputError`,
    `StalledError`."""
    names = [job.name for job in design.choice.jobs]
    return [
        each
        if abs(each.gap) <= TOLERANCE
        else replace(
            each,
            effects=_effects(
                task, design, names.index(each.workload), each.backend, each.simulated
            ),
        )
        for each in checks
    ]


def _effects(
    task: Task, design: Design, index: int, backend: str, seconds: float
) -> dict[str, float]:
    """Parts of the difference between simulation and model that go away with their cause; they add
    up to it."""
    job = design.choice.jobs[index]
    still = {"scheduler.endpoint_delay": "0 ns"}
    none = ["0 ns"] * len(design.topology)

    def run(settings: Mapping[str, object]) -> float:
        return (
            simulate(
                job.workload, platform(task, design, settings, none), backend=backend
            ).step_time_ns
            / NS_PER_S
        )

    def model(chunks: int) -> float:
        pace = Timing(chunks, (0.0,) * len(design.topology), 0.0, task.pace[2])
        found = step_model(job, design.topology, None if task.paper else pace)
        return design.times[index] if found is None else found.time(design.bandwidth)

    chunks = task.pace[0]
    without, finer = run(still), run({**still, "scheduler.chunks": chunks * _FINER})
    bare, fine = model(chunks), model(chunks * _FINER)
    return {
        "latency": (seconds - without) - (design.times[index] - bare),
        "bubbles": (without - finer) - (bare - fine),
        "order and shared links": finer - fine,
    }
