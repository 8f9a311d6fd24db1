"""Task of a design: a specification, read. Data only; `reader.py` makes it, `search.py` answers
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..declared import Amount
from ..estimate.terms import Job
from ..estimate.topology import Space, Topology
from .constraints import Written
from .cost import CostTable
from .memory_cost import PoolParts

Objective = Literal["step_time", "performance_per_cost", "cost", "pareto"]


@dataclass(frozen=True, eq=False)
class ParallelismChoice:
    """One way to run every workload: with a parallelisation each."""

    jobs: tuple[Job, ...]
    name: str = ""
    """The parallelisations that were chosen, for people; empty where there is no choice."""


@dataclass(frozen=True, eq=False)
class BandwidthRange:
    """Range of an NPU's bandwidth in a dimension, bytes a second."""

    least: Amount = 0.0
    most: Amount | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """A design problem."""

    name: str
    npus: int
    choices: tuple[ParallelismChoice, ...]
    spaces: tuple[Space, ...]
    """Topologies to be tried."""
    total: float | None
    """Bandwidth of an NPU over all dimensions, bytes a second."""
    total_is_most: bool
    """Whether less than `total` will do."""
    ranges: tuple[BandwidthRange, ...]
    """Range of each dimension; the last one represents the rest; empty without ranges."""
    caps: Mapping[str, BandwidthRange]
    """Range of each technology."""
    written: tuple[Written, ...]
    objective: Objective
    costs: CostTable | None
    order: tuple[str, ...]
    """Technologies, innermost first; empty for the table's own order."""
    latencies: Mapping[str, str]
    """Latency of one link of each technology; before `latency`."""
    latency: tuple[str, ...]
    """Latency of one link of each dimension; the last one represents the rest."""
    settings: Mapping[str, object]
    """Keys of a platform file for every platform that is made."""
    pace: tuple[int, float, float]
    """Chunks, endpoint delay (s), seconds to reduce a byte."""
    paper: bool = False
    """Whether the model of a step is the paper's, without latencies and filling of pipelines."""
    top: int = 10
    simulate: int = 3
    """Designs that are simulated at least; none: the model alone ranks."""
    budget: int = 20
    """Designs that are simulated at most."""
    seconds: float | None = None
    """No more designs are simulated after so long; nothing: the count alone decides."""
    backends: tuple[str, ...] = ("analytical",)
    most: int = 100_000
    """Topologies that are solved before the search stops."""
    sweep: tuple[float, ...] = ()
    """Totals that the plots vary, bytes a second."""
    notes: tuple[str, ...] = ()
    origin: str = ""
    pool: PoolParts | None = None
    """Links and switches of the pool, where memory has prices."""

    @property
    def priced(self) -> bool:
        """Whether it matters to the best bandwidths what they cost."""
        return self.objective != "step_time" or any(each.costs for each in self.written)

    @property
    def monotone(self) -> bool:
        """Whether a topology that is nowhere dearer fulfils every constraint that another does."""
        return all(each.caps_cost for each in self.written if each.costs)

    def stack(self, topology: Topology) -> tuple[str, ...]:
        """Technology of each dimension."""
        if self.costs is None:
            names = self.order or ("any",)
            inner = (names[0],) * max(0, len(topology) - len(names))
            return inner + names[max(0, len(names) - len(topology)) :]
        return self.costs.stack(len(topology), self.order)
