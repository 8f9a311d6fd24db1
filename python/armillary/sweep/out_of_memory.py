"""Points that don't fit in memory, or may not: how many, which of them would have been the best,
what would make it fit.

The smallest change is the point that fits and differs from it in the fewest parameters, the best
one of those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..report.quantity import number, size
from .frame import Frame
from .view import View, said

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PointsOutOfMemory:
    """Points of a sweep that ran in the simulator, but don't fit in the memory of their NPUs."""

    view: View
    count: int
    of: int
    """Points that ran."""
    best: Row | None
    """The best of them, where it is better than all that fit."""
    instead: Row | None
    """The point that fits and differs least from `best`."""
    least: Row
    """The one that lacks the smallest share of the memory it needs."""

    def __str__(self) -> str:
        """Description for people, in a sentence or two."""
        return " ".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        """How many, and what could be done."""
        if self.count == self.of:
            few = (
                f"None of the {number(self.of)} points fits in memory."
                if self.of > 1
                else "The point does not fit."
            )
            yield f"{few} Closest is point {self.least['index']}, which {_needs(self.least)}."
            return
        yield f"{number(self.count)} of {number(self.of)} points do not fit in memory."
        if self.best is not None:
            value = said(self.view.objective.name, float(self.best[self.view.objective.name]))
            yield (
                f"Point {self.best['index']} would be the best ({value}), but {_needs(self.best)}."
            )
        if self.best is not None and self.instead is not None:
            value = said(self.view.objective.name, float(self.instead[self.view.objective.name]))
            yield (
                f"The smallest change that fits: {self._changes()} (point "
                f"{self.instead['index']}, {value})."
            )

    def _changes(self) -> str:
        best, instead = self.best or {}, self.instead or {}
        names = [name for name in self.view.columns if best[name] != instead[name]]
        return ", ".join(
            f"{self.view.short[name]} {best[name]} -> {instead[name]}" for name in names
        )


def points_out_of_memory(view: View) -> PointsOutOfMemory | None:
    """Facts about the points that don't fit, or nothing where there are none."""
    out = view.out_of_memory
    if not out.height:
        return None
    fitting = view.fitting
    best = _best_of(view, out, fitting)
    instead = _nearest(view, fitting, best) if fitting.height and best is not None else None
    least = min(out.rows(), key=lambda row: row["memory_bytes"] / row["memory_capacity_bytes"])
    return PointsOutOfMemory(view, out.height, view.measured.height, best, instead, least)


def near(view: View) -> str | None:
    """Sentences about the points that may not fit, or nothing where there are none."""
    close = view.close
    if not close.height:
        return None
    said_ = (
        f"{number(close.height)} of {number(view.measured.height)} points may not fit: what they "
        "need is closer to the memory of an NPU than it is known."
    )
    best = _best_of(view, close, view.fitting)
    if best is None or view.include_infeasible or view.near:
        return said_
    name = view.objectives[0][0]
    value = said(name, float(best[name]))
    return f"{said_} Point {best['index']} would be the best ({value}), and {_needs(best)}."


def near_best(view: View) -> int | None:
    """The point that may not fit and would be better than all that do."""
    best = _best_of(view, view.close, view.fitting) if view.close.height else None
    return None if best is None else int(best["index"])


def _best_of(view: View, out: Frame, fitting: Frame) -> Row | None:
    """The best of `out` where it is better than all that fit."""
    name, more = view.objectives[0]
    best = _first(out, name, more)
    beaten = fitting.height and not view.objective.better(
        float(best[name]), float(_first(fitting, name, more)[name])
    )
    return None if beaten else best


def _first(frame: Frame, name: str, more: bool) -> Row:
    return frame.ordered(name, more).row(0)


def _nearest(view: View, fitting: Frame, best: Row) -> Row:
    def changed(row: Row) -> int:
        return sum(row[name] != best[name] for name in view.columns)

    return min(fitting.ordered(*view.objectives[0]).rows(), key=changed)


def _needs(row: Row) -> str:
    return (
        f"needs {size(float(row['memory_bytes']))} of an NPU's "
        f"{size(float(row['memory_capacity_bytes']))}"
    )
