"""Which of several plans has the fastest step when it is simulated.

Not here: which plans these are (`candidates.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import backends, run_warnings
from ..api import simulate
from ..errors import InputError, StalledError
from ..model.files import Model
from ..model.sharding_plan import ShardingPlan, Tier
from ..platform import Platform
from ..result import Result
from ..uncertainty import Factors, alike
from ..workload.dlrm import dlrm, sharding_plan
from .candidates import Candidate

MOST_EVENTS = 300_000_000
"""Events of all simulations of a choice, about: two minutes. The best plan by costs is simulated
whatever it takes, then the simple ones, then the others."""


@dataclass(frozen=True)
class Simulated:
    """Plans in the order of `candidates`, and the one whose step is the fastest."""

    steps: tuple[float | None, ...]
    """Nanoseconds of a step; `None` where it was not simulated."""
    fastest: int = 0
    """The number of the plan; of equal ones that with the lowest costs."""
    warnings: tuple[str, ...] = ()
    """Warnings of the fastest plan's simulation."""
    failed: str = ""
    """Why no plan could be simulated."""
    alike: int | None = None
    """How many other plans the uncertainty of predictions does not separate from the fastest;
    `None` where it is unknown."""


def backend_of(platform: Platform, wanted: str | None) -> str:
    """The network backend for the simulations: the one that is `wanted`, or the platform's, if it
    carries whole messages, or else the analytical one, which takes less time than any other."""
    if wanted is not None:
        return wanted
    return platform.backend if platform.backend in backends.MESSAGES else backends.DEFAULT


@dataclass(frozen=True)
class Step:
    """A training step that is simulated as `armillary run` does."""

    model: Model
    platform: Platform
    backend: str
    options: dict[str, Any]
    """Options of the workload, without a plan. With `passes`, a step is the mean of that number."""

    @property
    def passes(self) -> int:
        """Steps in a row."""
        return int(self.options.get("passes", 1))

    def run(self, plan: ShardingPlan, progress: Callable[[float], None]) -> Result:
        """The steps with a plan; `progress` gets the share that is done."""
        workload = dlrm(self.model, **self.options, plan=plan)
        return simulate(
            workload,
            self.platform,
            backend=self.backend,
            progress=lambda share, _: progress(share),
        )

    def own(self, scheme: str, tier: Tier) -> ShardingPlan:
        """The simulator's own plan. Raises `InputError`."""
        return sharding_plan(self.model, **self.options, sharding=scheme, tier=tier)


def compared(
    plans: Sequence[Candidate], step: Step, progress: Callable[[float], None]
) -> Simulated:
    """Simulates the plans, the best one by costs first, as long as there are not more events than
    `MOST_EVENTS`."""
    steps: list[float | None] = [None] * len(plans)
    spent, best = 0, None
    intervals: dict[int, Factors | None] = {}
    for done, at in enumerate(sorted(range(len(plans)), key=lambda at: _turn(plans, at))):
        if spent + spent / max(done, 1) > MOST_EVENTS:
            break
        try:
            found = step.run(plans[at].sharding, partial(_said, progress, done, len(plans)))
        except (InputError, StalledError) as error:
            if best is None:
                return Simulated(tuple(steps), failed=str(error).replace("\n", "; "))
            continue
        steps[at] = found.step_time_ns / step.passes
        interval = found.interval
        intervals[at] = None if interval is None else interval.factors
        spent += found.cost["events"]
        if best is None or found.step_time_ns < best.step_time_ns:
            best = found
    assert best is not None
    known = [
        (step, plans[at].placed.highest, at) for at, step in enumerate(steps) if step is not None
    ]
    fastest = [at for _, _, at in sorted(known)]
    return Simulated(
        tuple(steps),
        fastest[0],
        tuple(run_warnings.of(best.report)),
        alike=alike([(steps[at] or 0.0, intervals[at]) for at in fastest]),
    )


def _said(progress: Callable[[float], None], done: int, plans: int, share: float) -> None:
    progress((done + share) / plans)


def _turn(plans: Sequence[Candidate], at: int) -> tuple[bool, bool, float, int]:
    """The best by costs first, which is plan 0; then simple ones, then others, each by costs."""
    return (at > 0, not plans[at].simple, plans[at].placed.highest, at)
