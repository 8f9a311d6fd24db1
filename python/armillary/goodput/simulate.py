"""A job with failures, run many times: what becomes of its time.

All runs go from failure to failure together. Between two failures everything follows in closed
form: training and checkpoints take turns, and what was trained since the last checkpoint that can
be loaded is lost. A failure during a restart begins it anew. A failed node is repaired, and the job
waits where no spare is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .job import DAY_S, Job

Floats = NDArray[np.float64]
PARTS = ("trained", "checkpoints", "lost", "down", "waiting")
"""Parts of the time: training that is kept, checkpoints, training that is lost, detection and
restarts, waiting for repairs."""
_BATCH = 256
"""Gaps that are drawn at a time."""


@dataclass(frozen=True)
class Runs:
    """Results of all runs."""

    parts: dict[str, Floats]
    """Seconds of each part in each run; together the time that was looked at."""
    failures: NDArray[np.int64]
    """Failures of each run."""

    @property
    def goodput(self) -> Floats:
        """Part of the time of each run that trains and is kept."""
        whole = sum(self.parts.values())
        return np.asarray(self.parts["trained"] / whole)


def gaps(job: Job, runs: int, random: np.random.Generator) -> Callable[[], Floats]:
    """A source of gaps between failures of the cluster, seconds [runs, 256] at a time. The rate of
    each run is drawn by the failures that it was counted from."""
    mean = np.full((runs, 1), job.gap_s)
    if job.observed:
        # Counts of n failures with this variation have a relative deviation of variation / sqrt(n).
        n = max(job.observed / variation(job) ** 2, 0.5)
        mean = job.gap_s / random.gamma(n, 1 / n, (runs, 1))

    def draw() -> Floats:
        size = (runs, _BATCH)
        if job.law == "weibull":
            from math import gamma

            return np.asarray(mean * random.weibull(job.shape, size) / gamma(1 + 1 / job.shape))
        if job.law == "gamma":
            k = 1 / job.shape**2
            return np.asarray(mean * random.gamma(k, 1 / k, size))
        if job.law == "recorded":
            known = np.array(job.gaps)
            return np.asarray(mean * random.choice(known / known.mean(), size))
        return np.asarray(mean * random.exponential(1.0, size))

    return draw


def variation(job: Job) -> float:
    """Coefficient of variation of the gaps."""
    from math import gamma

    if job.law == "weibull":
        first, second = gamma(1 + 1 / job.shape), gamma(1 + 2 / job.shape)
        return float((second / first**2 - 1) ** 0.5)
    if job.law == "gamma":
        return job.shape
    if job.law == "recorded":
        known = np.array(job.gaps)
        return float(known.std() / known.mean())
    return 1.0


def simulate(job: Job, interval_s: float, runs: int, seed: int) -> Runs:
    """Runs a job with checkpoints after each `interval_s` of training. Runs of one seed have the
    same failures and repairs, whatever the interval and the number of spares."""
    failing, repairing = (np.random.default_rng([seed, each]) for each in (0, 1))
    draw = gaps(job, runs, failing)
    end = job.days * DAY_S
    state = _State(runs, job.spares)
    while state.open.any():
        batch = draw()
        away = repairing.exponential(1.0, (runs, _BATCH)) * job.repair_s
        for at in range(_BATCH):
            fails = np.minimum(state.now + batch[:, at], end)
            state.goes_on(job, interval_s, fails, end)
            state.fails(job, fails, end, away[:, at])
            if not state.open.any():
                break
    return Runs(state.parts, state.failures)


class _State:
    """All runs at their last failure, or at the beginning."""

    def __init__(self, runs: int, spares: int) -> None:
        self.parts = {name: np.zeros(runs) for name in PARTS}
        self.failures = np.zeros(runs, np.int64)
        self.open = np.ones(runs, bool)
        """Runs that have not come to their end."""
        self.now = np.zeros(runs)
        self.came = np.zeros(runs)
        """When a node was there in place of the failed one."""
        self.ready = np.zeros(runs)
        """When training goes on."""
        self.spares = np.zeros((runs, spares))
        """From when on each spare node can be used."""
        self.rows = np.arange(runs)

    def goes_on(self, job: Job, interval: float, until: Floats, end: float) -> None:
        """Adds what happens until the next failure, or the end."""
        begin = np.clip(self.ready, self.now, until)
        noticed = np.minimum(self.now + job.detect_s, begin)
        waits = np.clip(np.minimum(self.came, begin) - noticed, 0.0, None)
        trains = until - begin
        cycle = interval + job.checkpoint_s
        done = np.floor(trains / cycle)
        rest = trains - done * cycle
        # A checkpoint counts once it can be loaded.
        kept = np.clip(np.floor((trains - job.write_s) / cycle), 0.0, done)
        open_work = np.minimum(rest, interval)
        lives = until >= end
        trained = np.where(lives, done * interval + open_work, kept * interval)
        self._add("trained", trained)
        self._add("lost", done * interval + open_work - trained)
        self._add("checkpoints", done * job.checkpoint_s + rest - open_work)
        self._add("down", begin - self.now - waits)
        self._add("waiting", waits)

    def fails(self, job: Job, at: Floats, end: float, away: Floats) -> None:
        """A node of each run fails, unless the run is at its end."""
        self.open &= at < end
        self.failures += self.open
        back = at + away
        if job.spares:
            slot = self.spares.argmin(axis=1)
            spare = self.spares[self.rows, slot]
            came = np.maximum(at, np.minimum(spare, back))
            # The later one of the two stays as a spare.
            later = np.maximum(spare, back)
            self.spares[self.rows, slot] = np.where(self.open, later, spare)
        else:
            came = back
        self.came = np.where(self.open, came, self.came)
        ready = np.maximum(at + job.detect_s, came) + job.restart_s
        self.ready = np.where(self.open, ready, self.ready)
        self.now = np.where(self.open, at, self.now)

    def _add(self, part: str, seconds: Floats) -> None:
        self.parts[part] += np.where(self.open, seconds, 0.0)
