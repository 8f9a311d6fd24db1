"""`goodput`: the answer for a job. The main path of this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from .job import DAY_S, Job, check

if TYPE_CHECKING:
    from .simulate import Runs

SCHEMA = "armillary.goodput/1"
RUNS = 1000
_WIDE, _FINE = 9, 6
"""Intervals that are tried from a sixteenth to 16 times Daly's, and then around the best one."""
_LESS = 1e-4
"""Goodput that another spare node must add to be worth a row."""
_MOST_SPARES = 4096

Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class Spread:
    """A mean over runs, and the interval that holds 95 % of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Tried:
    """A value that was tried, and the mean goodput with it."""

    value: float
    goodput: float


@dataclass(frozen=True)
class Goodput:
    """Use of the time of a job."""

    job: Job
    """The job with the interval that was used."""
    runs: int
    seed: int
    goodput: Spread
    """Part of the time that trains and is kept."""
    failures: Spread
    """Failures in the time that was looked at."""
    parts: dict[str, float]
    """Mean part of the time: `trained`, `checkpoints`, `lost`, `down`, `waiting`."""
    effective_step_s: float | None
    """Time of a step over the goodput, if the step is stated."""
    intervals: list[Tried]
    """Training between checkpoints that was tried, seconds, the shortest first; empty if it is
    stated."""
    young_s: float
    """Training between checkpoints by Young, seconds."""
    daly_s: float
    """The same by Daly's higher order."""
    daly_goodput: float | None
    """Daly's closed form; `None` where it does not hold: other laws, waits for repairs, or
    checkpoints that are written while training goes on."""
    exponential: tuple[Spread, Spread] | None
    """Goodput and failures if failures were exponential, for other laws."""
    spares: list[Tried]
    """Spare nodes that were tried, until one more adds less than 0.01 %; empty where the job waits
    for no repair."""
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = asdict(self)
        found["job"]["gaps"] = len(self.job.gaps)
        return {"schema": SCHEMA, **found}


def goodput(
    job: Job, *, runs: int = RUNS, seed: int = 0, progress: Progress | None = None
) -> Goodput:
    """The goodput of a job, by `runs` runs. Without an interval of checkpoints the best one is
    found. Runs of one seed have the same failures, so that differences are not chance. Raises
    `InputError` for values out of range."""
    from ..errors import InputError, Problem
    from . import formulas
    from .simulate import simulate

    check(job)
    if not 10 <= runs <= 1_000_000 or not 0 <= seed < 2**63:
        raise InputError([Problem("", "runs", f"invalid runs: {runs}", "10 to 1000000")])
    steps = _Steps(job, progress)
    young = formulas.young(job.checkpoint_s, job.gap_s)
    daly = formulas.daly(job.checkpoint_s, job.gap_s)

    def tried(some: Job, interval: float) -> Runs:
        found = simulate(some, interval, runs, seed)
        steps.one(some.days * DAY_S)
        return found

    intervals: list[Tried] = []
    interval = job.interval_s
    if interval is None:
        interval, intervals = _best(lambda each: float(tried(job, each).goodput.mean()), daly)
    used = replace(job, interval_s=interval)
    found = tried(used, interval)
    other = tried(replace(used, law="exponential", gaps=()), interval) if _differs(job) else None
    return Goodput(
        used,
        runs,
        seed,
        _spread(found.goodput),
        _spread(found.failures),
        {name: float(seconds.mean()) / (job.days * DAY_S) for name, seconds in found.parts.items()},
        job.step_s / float(found.goodput.mean()) if job.step_s and found.goodput.mean() else None,
        intervals,
        young,
        daly,
        _closed(used, interval),
        (_spread(other.goodput), _spread(other.failures)) if other else None,
        _spares(used, lambda some: float(tried(some, interval).goodput.mean())),
        _warnings(job),
    )


class _Steps:
    """Simulations that are done, of those that are expected."""

    def __init__(self, job: Job, progress: Progress | None) -> None:
        self.progress = progress
        self.total = 2 + (_WIDE + _FINE if job.interval_s is None else 0)
        self.total += 6 if job.repair_s else 0
        self.done = 0

    def one(self, now_s: float) -> None:
        """Another one is done."""
        self.done += 1
        if self.progress is not None:
            self.progress(min(0.99, self.done / self.total), now_s * 1e9)


def _best(goodput_of: Callable[[float], float], daly: float) -> tuple[float, list[Tried]]:
    """The best interval, and those that were tried."""
    start = max(daly, 1.0)
    values = [start * 2 ** (8 * at / (_WIDE - 1) - 4) for at in range(_WIDE)]
    found = {value: goodput_of(value) for value in values}
    best = max(found, key=lambda value: (found[value], -value))
    for at in range(_FINE):
        # Between the best one and its neighbours, ever closer.
        ratio = 2 ** (0.5 / 2 ** (at // 2) * (1 if at % 2 else -1))
        value = best * ratio
        found[value] = goodput_of(value)
        best = max(found, key=lambda each: (found[each], -each))
    return best, [Tried(value, found[value]) for value in sorted(found)]


def _spread(values: Any) -> Spread:  # noqa: ANN401 - an array of numpy
    import numpy as np

    low, high = np.quantile(values, [0.025, 0.975])
    return Spread(float(np.mean(values)), float(low), float(high))


def _differs(job: Job) -> bool:
    return job.law != "exponential"


def _closed(job: Job, interval: float) -> float | None:
    """Daly's goodput where his assumptions hold."""
    from . import formulas

    if _differs(job) or job.repair_s or job.write_s or job.observed:
        return None
    return formulas.goodput(interval, job.checkpoint_s, job.down_s, job.gap_s)


def _spares(job: Job, goodput_of: Callable[[Job], float]) -> list[Tried]:
    """Numbers of spare nodes, doubling, until more of them add nothing."""
    if not job.repair_s:
        return []
    found = [Tried(0, goodput_of(replace(job, spares=0)))]
    count = 1
    while count <= _MOST_SPARES:
        found.append(Tried(count, goodput_of(replace(job, spares=count))))
        if count > 1 and found[-1].goodput - found[-2].goodput < _LESS:
            break
        count *= 2
    return found


def _warnings(job: Job) -> list[str]:
    found = []
    if not job.observed:
        found.append(
            "the time between failures is taken as exact: --observed states from how many failures "
            "it was counted"
        )
    if job.write_s and job.interval_s is not None and job.write_s > job.interval_s:
        found.append("a checkpoint is still being written when the next one begins")
    return found
