"""Which design is the best when it is simulated, and how safe that order is.

The model ranks designs; the simulator may rank them otherwise. So designs are simulated in the
model's order until none that is left could be better than the best one simulated. Two things say
so:

- *Proof.* The floor (`floor.py`) is a true lower bound of a simulated step. A design whose value
  under its floor is not below the best simulated value can't be better. The floor of a whole set of
  topologies is found by the same branch and bound as the model's optimum. With the objective `cost`
  the model's order is the order of costs, and a proof itself.
- *Rule.* Let `r` be simulated over model values of the `n` designs so far, at least `simulate` of
  them. The rest may simulate faster than the model by as much as `low = min r - max((max r - min r)
  / (n - 1), 1 % of min r)`: the lower end of an even distribution, estimated from `n` of its
  values. The search stops at the first design whose model value times `low` is not below the best
  simulated value. That is a heuristic, and is called one.

Where the rule stops, the designs that the floor does not exclude are counted; if the budget allows
they are simulated, too, and the order is proved. All of this is about the bandwidths that the model
finds best on each topology."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from ..errors import InputError
from ..estimate.floor import Floor
from ..estimate.step_model import StepModel
from ..estimate.terms import Job
from ..estimate.topology import Topology
from ..uncertainty import Factors, alike
from . import search
from .check import Check, check
from .search import Searcher
from .solving import Design
from .task import ParallelismChoice, Task

PROVED, RULE, BUDGET, MODEL = "proved", "rule", "budget", "model"
"""How the order is known: by the floor; by the rule; not, as the budget ended; not at all, nothing
was simulated."""
_LEAST_MARGIN = 0.01
_REFITS = 5
_EVEN = 1e-9
Progress = Callable[[float], None]
_Key = tuple[ParallelismChoice, Topology]


@dataclass(frozen=True, eq=False)
class SimulatedDesign:
    """A design, simulated."""

    design: Design
    checks: tuple[Check, ...]
    time: float
    """Weighted sum of the simulated step times, s, on the first backend."""
    value: float
    """The objective with simulated step times."""
    own: tuple[Check, ...]
    """Checks of each workload on the first backend."""
    late: tuple[str, ...] = ()
    """Workloads whose simulated step exceeds its time bound."""

    @property
    def ratio(self) -> float:
        """Simulated over model value."""
        return self.value / self.design.value if self.design.value else 1.0

    @property
    def factors(self) -> Factors | None:
        """Factors on `time` between which measured steps like these lie: those of the workloads,
        weighted by their times; nothing where one has none."""
        weighted = [
            (job.weight * each.simulated, each.interval)
            for job, each in zip(self.design.choice.jobs, self.own, strict=True)
            if each.interval is not None
        ]
        if len(weighted) < len(self.own) or not self.time:
            return None
        low = sum(time * interval.low for time, interval in weighted)
        high = sum(time * interval.high for time, interval in weighted)
        return low / self.time, high / self.time


@dataclass(frozen=True, eq=False)
class Order:
    """Designs by simulation."""

    trials: tuple[SimulatedDesign, ...]
    """Best first; of a front cheapest first."""
    status: str
    """`PROVED`, `RULE`, `BUDGET` or `MODEL`."""
    excluded: int = 0
    """Designs that were not simulated as their floor shows that they are no better."""
    open: int | None = None
    """Designs that are neither simulated nor excluded; nothing where there are more than the budget
    could simulate."""
    reach: float = 1.0
    """Least value that the rule expects of a simulation, over the model's."""
    room: float = 0.0
    """By how much another design may be better by the rule, relatively."""

    @property
    def alike(self) -> int | None:
        """How many simulated designs the uncertainty of predictions does not separate from the
        best: the difference of their times lies within the interval of one of both. Nothing where
        intervals are unknown."""
        tried = [each for each in self.trials if not each.late and each.value > 0]
        return alike([(each.value, each.factors) for each in tried])


def ranked(task: Task, searcher: Searcher, progress: Progress | None = None) -> Order:
    """Simulates designs of a search that has found its first ones. Raises `InputError`,
    `StalledError`."""
    if task.simulate == 0:
        return Order((), MODEL)
    ranker = _Ranker(task, searcher, progress)
    return ranker.front() if task.objective == "pareto" else ranker.run()


class _Ranker:
    def __init__(self, task: Task, searcher: Searcher, progress: Progress | None) -> None:
        self.task, self.searcher, self.progress = task, searcher, progress
        self.trials: list[SimulatedDesign] = []
        self.tried: set[tuple[int, Topology]] = set()
        self.excluded = 0
        self.following = math.inf
        """The value of the next design in the model's order."""
        self.floors: dict[int, Floor] = {}
        self.begin = monotonic()

    def run(self) -> Order:
        status, left = self.descend(), None
        if self.task.objective == "cost":
            status = PROVED if status == RULE else status
        elif status != PROVED:
            left = self.not_excluded()
            if left is not None and not self.spent:
                for each in left:
                    self.attempt(each)
                left = []
            status = PROVED if left == [] else status
        open_ = 0 if status == PROVED else None if left is None else len(left)
        ordered = sorted(self.trials, key=lambda each: (bool(each.late), each.value))
        return Order(tuple(ordered), status, self.excluded, open_, self.reach, self.room(status))

    def room(self, status: str) -> float:
        """How much better the next design in the model's order may be, where the budget ended
        before it."""
        if status != BUDGET or not math.isfinite(self.best):
            return 0.0
        return max(0.0, 1 - min(self.following, self.searcher.bound) * self.reach / self.best)

    def front(self) -> Order:
        """A front is simulated as far as the budget goes; its order is that of costs."""
        for each in self.searcher.designs:
            if self.spent:
                return Order(tuple(self.trials), BUDGET)
            self.attempt(each)
        return Order(tuple(self.trials), RULE)

    def descend(self) -> str:
        """Simulates in the model's order; why that ended."""
        index = 0
        while True:
            design = (
                self.searcher.designs[index]
                if index < len(self.searcher.designs)
                else self.searcher.more()
            )
            index += 1
            self.following = design.value if design else math.inf
            if design is None:
                return PROVED if self.searcher.programs < self.task.most else BUDGET
            if len(self.trials) >= self.task.simulate and design.value * self.reach >= self.best * (
                1 - _EVEN
            ):
                return RULE
            if self.spent:
                return BUDGET
            if len(self.trials) >= self.task.simulate and self.under_floor(design) >= self.best * (
                1 - _EVEN
            ):
                self.excluded += 1
                self.tried.add(_key(design))
            else:
                self.attempt(design)

    @property
    def best(self) -> float:
        """The best simulated value so far."""
        return min((each.value for each in self.trials if not each.late), default=math.inf)

    @property
    def reach(self) -> float:
        """Smallest expected ratio of a simulated value to the model's, by the rule; exactly 1 for
        costs."""
        if self.task.objective == "cost" or not self.trials:
            return 1.0
        ratios = [each.ratio for each in self.trials]
        low = min(ratios)
        return max(
            0.0, low - max((max(ratios) - low) / max(len(ratios) - 1, 1), _LEAST_MARGIN * low)
        )

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        late = self.task.seconds is not None and monotonic() - self.begin > self.task.seconds
        return len(self.trials) >= self.task.budget or (
            late and len(self.trials) >= self.task.simulate
        )

    def attempt(self, design: Design) -> None:
        """Simulates a design."""
        before = self.best
        found = self.in_time(design)
        self.trials.append(found)
        self.tried.add(_key(design))
        if found.value < before or len(self.trials) <= self.task.simulate:
            for job in design.choice.jobs:
                self.floor(job).show(design.topology, [float(each) for each in design.bandwidth])
        if self.progress is not None:
            self.progress(len(self.trials) / self.task.budget)

    def in_time(self, design: Design) -> SimulatedDesign:
        """A design simulated, with the model's time bounds tightened until the simulated steps keep
        the user's."""
        found = self.simulated(design)
        tight = design.choice
        for _ in range(_REFITS):
            if not found.late:
                break
            tight = _tightened(tight, design.choice, found)
            try:
                again = search.solve(self.task, tight, design.topology)
            except InputError:
                break
            found = self.simulated(replace(again, choice=design.choice))
        return found

    def simulated(self, design: Design) -> SimulatedDesign:
        """A design simulated as it is."""
        checks = tuple(check(self.task, design))
        own = tuple(each for each in checks if each.backend == self.task.backends[0])
        jobs = design.choice.jobs
        time = sum(job.weight * each.simulated for job, each in zip(jobs, own, strict=True))
        late = tuple(
            job.name
            for job, each in zip(jobs, own, strict=True)
            if job.limit is not None and each.simulated > job.limit * (1 + 1e-6)
        )
        return SimulatedDesign(design, checks, time, self.value(time, design), own, late)

    def value(self, time: float, design: Design) -> float:
        """The objective for a step of `time` seconds."""
        if self.task.objective == "cost":
            return design.cost or 0.0
        return (
            time * (design.cost or 0.0) if self.task.objective == "performance_per_cost" else time
        )

    def floor(self, job: Job) -> Floor:
        """The floor of a workload under one parallelisation."""
        if id(job) not in self.floors:
            self.floors[id(job)] = Floor(job, self.task.settings)
        return self.floors[id(job)]

    def under_floor(self, design: Design) -> float:
        """The least value that a simulation of a design can have; minus infinity where that is not
        known."""
        total = 0.0
        for job in design.choice.jobs:
            model = self.under(job, design.topology)
            if model is None:
                return -math.inf
            total += job.weight * model.time(design.bandwidth)
        return self.value(total, design)

    def under(self, job: Job, topology: Topology) -> StepModel | None:
        return self.floor(job).model(topology)

    def not_excluded(self) -> list[Design] | None:
        """Designs that are not simulated and that the floor does not exclude; nothing where they
        are more than the budget is for."""
        below = Searcher(self.task, make=self.under)
        below.start()
        left: list[Design] = []
        while below.heap and below.bound < self.best * (1 - _EVEN):
            found = below.more()
            if found is None or found.value >= self.best * (1 - _EVEN):
                break
            if _key(found) in self.tried:
                continue
            try:
                design = search.solve(self.task, found.choice, found.topology)
            except InputError:
                continue
            if self.under_floor(design) < self.best * (1 - _EVEN):
                left.append(design)
            else:
                self.excluded += 1
            if len(left) + len(self.trials) > self.task.budget or below.programs >= self.task.most:
                return None
        return left


def _key(design: Design) -> tuple[int, Topology]:
    return id(design.choice), design.topology


def _tightened(
    tight: ParallelismChoice, asked: ParallelismChoice, found: SimulatedDesign
) -> ParallelismChoice:
    """Bounds that are shorter by what the simulation was longer."""
    jobs = []
    for job, wanted, each in zip(tight.jobs, asked.jobs, found.own, strict=True):
        over = each.simulated / wanted.limit if wanted.limit is not None else 0.0
        shorter = job.limit / over * (1 - 1e-4) if job.limit is not None and over > 1 else job.limit
        jobs.append(replace(job, limit=shorter))
    return replace(tight, jobs=tuple(jobs))
