"""A study: what is simulated, what varies and how. Not here: reading one (`reader.py`), its points
(`points.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ..declared import Source
from . import domain
from .expression import Expression
from .footprint import Footprints

MEMORY = "memory"
"""Name in constraints for the bytes that the most heavily loaded NPU needs."""
MOST_POINTS = 1_000_000
Kind = Literal["grid", "random", "optuna"]
KINDS: tuple[Kind, ...] = ("grid", "random", "optuna")


@dataclass(frozen=True, slots=True)
class SweepParameter:
    """Something that varies: its name is a column of the table, its targets are what it sets."""

    name: str
    targets: tuple[str, ...]
    domain: domain.Domain


@dataclass(frozen=True, slots=True)
class SweepSearch:
    """How points are chosen. `objectives` are columns and whether more is better; `batch` are asked
    for at once."""

    kind: Kind = "grid"
    points: int = 0
    objectives: tuple[tuple[str, bool], ...] = ()
    batch: int = 8


@dataclass(frozen=True)
class SweepStudy:
    """A study, read and checked."""

    name: str
    source: Source
    base: Mapping[str, Any]
    """Fixed settings, by target: `workload.tp`, `platform.npus`, `backend`."""
    parameters: tuple[SweepParameter, ...]
    columns: tuple[str, ...]
    """Names of the parameters, those of `rows` first."""
    targets: tuple[tuple[str, ...], ...]
    """Targets that each column sets."""
    rows: tuple[tuple[Any, ...], ...]
    """Values of the columns that `rows` names, row by row."""
    constraints: tuple[Expression, ...]
    scope: Mapping[str, Any]
    """Names that constraints can use in addition to parameters."""
    aliases: Mapping[str, int]
    """Names by which constraints may call a column."""
    search: SweepSearch

    @cached_property
    def ordered(self) -> tuple[tuple[int, Expression, bool], ...]:
        """Constraints with their place, and whether they ask for memory: those that do come last,
        because memory takes a while to compute."""
        known = {*self.scope, *self.aliases}
        asks = [MEMORY in each.names and MEMORY not in known for each in self.constraints]
        return tuple(
            sorted(
                zip(range(len(asks)), self.constraints, asks, strict=True), key=lambda each: each[2]
            )
        )

    @cached_property
    def footprints(self) -> Footprints:
        """Memory that the workloads of its points need."""
        return Footprints(self.source.folder)

    def at(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Everything a point sets, by target; what is not there has its default."""
        found = dict(self.base)
        for targets, each in zip(self.targets, values, strict=True):
            found.update(dict.fromkeys(targets, each))
        return found
