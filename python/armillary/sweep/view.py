"""What the page of a sweep shows, found in its table: points that ran, parameters by influence, objectives, the front.

Not here: charts of it (`charts.py`), the page (`page.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import InputError, Problem
from ..report.quantity import time
from .axis import Axis, axis, explained

if TYPE_CHECKING:
    import polars as pl

Objectives = tuple[tuple[str, bool], ...]
"""Columns of results and whether more is better."""

STEP_TIME: Objectives = (("step_time_ns", False),)
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_RESOURCES = (("ranks", "NPUs"), ("memory_bytes", "memory of an NPU (GB)"))


@dataclass(frozen=True)
class Measure:
    """Numbers to draw, one a point that ran: `values * scale` is what `label` says."""

    name: str
    label: str
    values: Sequence[float]
    more: bool
    scale: float = 1.0

    def text(self, value: float) -> str:
        """A value of the table for people."""
        return time(value) if self.name.endswith("_ns") else f"{value:,.4g}"

    def shown(self) -> list[float]:
        """The values in the label's unit, to six digits."""
        return [float(f"{value * self.scale:.6g}") for value in self.values]

    def better(self, one: float, other: float) -> bool:
        """Whether `one` is better than `other`."""
        return one > other if self.more else one < other


@dataclass(frozen=True)
class View:
    """A sweep's table as its page sees it."""

    name: str
    table: pl.DataFrame
    objectives: Objectives = STEP_TIME

    @cached_property
    def ran(self) -> pl.DataFrame:
        """Points that ran and have every objective."""
        frame = self.table.filter(self.table["error"].is_null())
        return frame.drop_nulls([name for name, _ in self.objectives if name in frame.columns])

    @cached_property
    def columns(self) -> list[str]:
        """The parameters, in the study's order."""
        return self.table.columns[1 : self.table.columns.index("step_time_ns")]

    @cached_property
    def short(self) -> dict[str, str]:
        """Names of parameters for people: the part after the last dot where that is unique."""
        last = [name.rpartition(".")[2] for name in self.columns]
        named = zip(self.columns, last, strict=True)
        return {name: tail if last.count(tail) == 1 else name for name, tail in named}

    @cached_property
    def axes(self) -> list[Axis]:
        """Parameters that vary among the points that ran, the most influential first."""
        found = [axis(name, self.ran[name]) for name in self.columns if self.ran[name].n_unique() > 1]
        return sorted(found, key=lambda each: -self.influence(each))

    def influence(self, of: Axis) -> float:
        """How much of the first objective a parameter explains, 0 to 1."""
        return explained(of, self.objective.values)

    @cached_property
    def objective(self) -> Measure:
        """The first objective."""
        return self.measure(*self.objectives[0])

    def measure(self, name: str, more: bool) -> Measure:
        """A column of results. Raises `InputError` where the table has no such numbers."""
        if name not in self.table.columns or not self.table[name].dtype.is_numeric():
            named = [each for each in self.table.columns if self.table[each].dtype.is_numeric()]
            raise InputError([Problem(self.name, name, "is no column of numbers in this table", ", ".join(named))])
        values = [float(value) for value in self.ran[name].to_list()]
        if not name.endswith("_ns"):
            return Measure(name, name.replace("_", " "), values, more)
        least = min(values, default=1.0)
        scale, unit = next(((scale, unit) for scale, unit in _TIMES if least >= scale), _TIMES[-1])
        return Measure(name, f"{name.removesuffix('_ns').replace('_', ' ')} ({unit})", values, more, 1 / scale)

    @cached_property
    def against(self) -> Measure | None:
        """What the first objective is traded for: the second one, else the bandwidths that vary, NPUs or memory."""
        if len(self.objectives) > 1:
            return self.measure(*self.objectives[1])
        bandwidths = [each.numbers for each in self.axes if each.unit == "B/s" and each.numbers is not None]
        if bandwidths:
            total = [sum(of_point) for of_point in zip(*bandwidths, strict=True)]
            what = "bandwidths that vary, sum" if len(bandwidths) > 1 else "bandwidth"
            return Measure("bandwidth", f"{what} (GB/s)", total, False, 1e-9)
        for name, label in _RESOURCES:
            if self.ran[name].null_count() == 0 and self.ran[name].n_unique() > 1:
                values = [float(value) for value in self.ran[name].to_list()]
                return Measure(name, label, values, False, 1e-9 if name == "memory_bytes" else 1.0)
        return None

    @cached_property
    def ranking(self) -> list[int]:
        """Rows of `ran`, the best first; equals in the order of points."""
        sign = -1 if self.objective.more else 1
        values = self.objective.values
        return sorted(range(self.ran.height), key=lambda row: sign * values[row])

    def front(self, other: Measure) -> list[int]:
        """Rows that no other beats in the first objective and in `other`: the Pareto front, by `other`."""
        signs = [-1.0 if each.more else 1.0 for each in (self.objective, other)]
        cost = [(signs[1] * b, signs[0] * a) for a, b in zip(self.objective.values, other.values, strict=True)]
        found: list[int] = []
        for row in sorted(range(len(cost)), key=cost.__getitem__):
            if not found or cost[row][1] < cost[found[-1]][1]:
                found.append(row)
        return found


def spread(rows: Sequence[int], most: int) -> list[int]:
    """At most `most` of `rows`, evenly over their order, both ends among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(at * (len(rows) - 1) / (most - 1))] for at in range(most)]
