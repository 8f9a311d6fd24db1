"""A training job on nodes that fail: what a user states of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from ..errors import InputError, Problem

DAY_S = 86_400.0
LAWS = ("exponential", "weibull", "gamma", "recorded")
"""Laws of the time between failures of the cluster."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Nodes, their failures, checkpoints and repairs. Times are seconds."""

    nodes: int
    """Nodes that the job needs."""
    mtbf_s: float
    """Mean time between failures of one node."""
    law: Literal["exponential", "weibull", "gamma", "recorded"] = "exponential"
    shape: float = 1.0
    """Shape of `weibull`; coefficient of variation of the gaps of `gamma`."""
    gaps: tuple[float, ...] = ()
    """Recorded gaps between failures of a cluster, for `recorded`: drawn again, with the mean that
    `mtbf_s` and `nodes` give."""
    observed: int = 0
    """Failures that `mtbf_s` was counted from: its uncertainty. 0: it is taken as exact."""
    step_s: float = 0.0
    """Time of a training step; 0 where it does not matter."""
    checkpoint_s: float = 60.0
    """Time for which a checkpoint stops the training."""
    write_s: float = 0.0
    """Time after that until the checkpoint can be loaded: written while training goes on."""
    interval_s: float | None = None
    """Training between two checkpoints; `None`: the best one is found."""
    detect_s: float = 60.0
    """From a failure until it is noticed."""
    restart_s: float = 300.0
    """From then until training goes on: processes, loading."""
    spares: int = 0
    """Nodes that take the place of failed ones at once."""
    repair_s: float = 0.0
    """Mean time of a repair, exponential. A job without a spare node waits for one; 0: it never
    waits."""
    days: float = 30.0
    """Time that is looked at."""

    @property
    def gap_s(self) -> float:
        """Mean time between failures of the cluster."""
        return self.mtbf_s / self.nodes

    @property
    def down_s(self) -> float:
        """Time after a failure until training goes on, if no node is waited for."""
        return self.detect_s + self.restart_s


_RANGES: dict[str, tuple[float, float]] = {
    "nodes": (1, 10_000_000),
    "mtbf_s": (1.0, 1e12),
    "shape": (0.05, 20.0),
    "observed": (0, 10_000_000),
    "step_s": (0.0, 1e6),
    "checkpoint_s": (0.0, 1e6),
    "write_s": (0.0, 1e7),
    "interval_s": (0.1, 1e9),
    "detect_s": (0.0, 1e7),
    "restart_s": (0.0, 1e7),
    "spares": (0, 100_000),
    "repair_s": (0.0, 1e9),
    "days": (1e-3, 10_000.0),
}
_MOST_FAILURES = 200_000
"""Failures of a run."""


def check(job: Job) -> None:
    """Raises `InputError` for each value out of range, and for values that do not fit together."""
    problems = []
    for each in fields(job):
        value = getattr(job, each.name)
        if each.name not in _RANGES or value is None:
            continue
        least, most = _RANGES[each.name]
        if not (math.isfinite(value) and least <= value <= most):
            name = each.name.removesuffix("_s")
            allowed = f"{least:g} to {most:g}{' seconds' if each.name.endswith('_s') else ''}"
            problems.append(Problem("", name, f"invalid {name}: {value:g}", allowed))
    if job.law not in LAWS:
        problems.append(Problem("", "law", f"unknown law: {job.law!r}", ", ".join(LAWS)))
    if (job.law == "recorded") != bool(job.gaps):
        said = "recorded gaps and the law `recorded` belong together"
        problems.append(Problem("", "gaps", said, "both, or none of them"))
    if any(not (math.isfinite(gap) and gap >= 0) for gap in job.gaps) or (
        job.gaps and sum(job.gaps) <= 0
    ):
        said = "gaps are times of at least 0, and not all 0"
        problems.append(Problem("", "gaps", said, "seconds between failures"))
    if not problems and job.days * DAY_S / job.gap_s > _MOST_FAILURES:
        count = job.days * DAY_S / job.gap_s
        said = f"about {count:,.0f} failures in {job.days:g} days"
        allowed = f"at most {_MOST_FAILURES:,}: fewer days or nodes, or a longer time between them"
        problems.append(Problem("", "days", said, allowed))
    if problems:
        raise InputError(problems)
