"""A study: what is simulated, what varies and how. Not here: reading one (`reader.py`), its points
(`points.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from ..declared import Allowed, Made, Several, Source, Within, Wrong
from . import domain
from .columns import ALIASES, is_result
from .expression import Expression
from .footprint import Footprints

MEMORY = "memory"
"""Name in constraints for the bytes that the most heavily loaded NPU needs."""
MOST_POINTS = 1_000_000


@dataclass(frozen=True, slots=True)
class SweepParameter:
    """Something that varies: its name is a column of the table, its targets are what it sets."""

    name: str
    targets: tuple[str, ...]
    domain: domain.Domain


def _column(raw: object) -> str:
    """A column that can be an objective."""
    column = ALIASES.get(raw, raw) if isinstance(raw, str) else ""
    if not is_result(column, numbers=True):
        raise Wrong(f"{raw!r} is not a column of numbers")
    return column


_Columns = Annotated[
    tuple[Annotated[str, Made(_column)], ...],
    Several(),
    Allowed("step_time_ns, mfu, memory, ...: docs/guides/sweep.md"),
]


@dataclass(frozen=True, slots=True)
class SweepSearch:
    """How points are chosen."""

    kind: Literal["grid", "random", "optuna"] = "grid"
    points: Annotated[int, Within(1, MOST_POINTS)] | None = None
    batch: Annotated[int, Within(1, 1024)] | None = None
    """Points that are asked for at once."""
    minimize: _Columns = ()
    maximize: _Columns = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.objectives]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            key = "maximize" if twice in self.maximize else "minimize"
            raise Wrong(f"{twice} is there twice", "each column once", key)
        if self.kind == "grid" and self.points is not None:
            raise Wrong("go with random and optuna, not with grid", "steps of ranges", "points")
        if self.kind != "grid" and self.points is None:
            raise Wrong("is missing", f"a whole number from 1 to {MOST_POINTS:,}", "points")
        if self.kind != "optuna" and self.batch is not None:
            raise Wrong(f"goes with optuna, not with {self.kind}", "no batch", "batch")
        if self.kind == "optuna" and not names:
            raise Wrong("has no objective", "minimize: step_time_ns")

    @property
    def objectives(self) -> tuple[tuple[str, bool], ...]:
        """Columns to make small or large, and whether more is better."""
        return (
            *((each, False) for each in self.minimize),
            *((each, True) for each in self.maximize),
        )


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
