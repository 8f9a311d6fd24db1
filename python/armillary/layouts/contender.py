"""A machine in a search over several: its bounds, its simulated layouts, its value.

Not here: which one is the best (`joint.py`), which are on the front (`front.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..units import counted
from .goal import Goal
from .machines import Machine
from .search import Search


@dataclass
class Contender:
    """A machine in the search."""

    machine: Machine
    goal: Goal
    search: Search | None = None
    least: int = 0
    """The least memory of the fullest rank."""
    why: str = ""
    """Why it has no layout, or no simulation."""

    @property
    def name(self) -> str:
        """For people."""
        return f"{counted(self.machine.ranks, 'NPU')} of {self.machine.name}"

    @property
    def step(self) -> float:
        """The fastest simulated step, ns."""
        return self.search.best[0].step_ns if self.search and self.search.best else math.inf

    @property
    def lowest(self) -> float:
        """No step is faster, ns."""
        return self.search.lowest if self.search else math.inf

    @property
    def in_time(self) -> bool:
        """Whether its fastest simulated step is in time."""
        return self.step <= self.goal.limit_ns

    def value(self, step_ns: float) -> tuple[int, float]:
        """The value that the objective makes least."""
        bytes_ = self.least if self.goal.objective == "memory" else 0
        return bytes_, self.goal.weight(self.machine) * step_ns

    def beaten_at(self, best: tuple[int, float]) -> float:
        """The step, in ns, from which on the machine is not better than a value."""
        bytes_, value = best
        if self.goal.objective == "memory" and self.least != bytes_:
            return math.inf if self.least < bytes_ else 0.0
        return min(value / self.goal.weight(self.machine), self.goal.limit_ns)
