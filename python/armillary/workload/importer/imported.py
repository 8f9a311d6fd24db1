"""The result of an import. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..workload import Workload
from ..xla import ModuleCoverage
from . import coverage
from .coverage import Coverage
from .flight_alignment import Missing


@dataclass(frozen=True)
class Imported:
    """A workload, what it covers of each recorded rank, and what to know about it."""

    workload: Workload
    ranks: tuple[Coverage, ...]
    """Recorded ranks; empty when there were no durations (execution traces alone)."""
    notes: tuple[str, ...]
    missing: tuple[Missing, ...] = ()
    """Calls that some ranks had not made although others waited, of dumps of flight recorders."""
    module: ModuleCoverage | None = None
    """The part of a module of XLA that is in it."""

    @property
    def total(self) -> Coverage | None:
        """All recorded ranks together."""
        return coverage.total(self.ranks) if self.ranks else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        whole = self.total
        return {
            "ranks": self.workload.ranks,
            "programs": self.workload.programs,
            "operations": self.workload.operations,
            "notes": list(self.notes),
            "missing": [each.as_dict() for each in self.missing],
            "total": whole.as_dict() if whole else None,
            "recorded": [entry.as_dict() for entry in self.ranks],
            "module": self.module.as_dict() if self.module else None,
        }
