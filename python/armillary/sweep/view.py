"""View of a sweep, derived from its table: points that ran and fit, parameters by influence,
objectives, front.

Points whose workload needs more memory than an NPU has can't be run as they are, and those that
need about as much may not. Both are left out unless asked for. Not here: what is said of those
(`out_of_memory.py`), charts (`charts.py`), the page (`page.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import InputError, Problem
from ..platform.platform import Fits
from ..report.quantity import Quantity, operations, share, size, time
from ..uncertainty import Factors, indistinct
from ..units import TIMES, counted
from .axis import Axis, axis, explained
from .frame import Frame

Objectives = tuple[tuple[str, bool], ...]
"""Columns of results and whether more is better."""

STEP_TIME: Objectives = (("step_time_ns", False),)
OF_STEP = {"step_time_ns", "samples_per_s", "tflops_per_npu", "mfu"}
"""Objectives whose errors are those of the step time."""
_RESOURCES = (("ranks", "NPUs"), ("memory_bytes", "memory of an NPU (GB)"))
_UNITS = {
    "mfu": ("%", 100.0),
    "samples_per_s": ("samples/s", 1.0),
    "tflops_per_npu": ("TFLOP/s", 1.0),
}


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
        return said(self.name, value)

    def shown(self) -> list[float]:
        """The values in the label's unit, to six digits."""
        return [float(f"{value * self.scale:.6g}") for value in self.values]

    def better(self, one: float, other: float) -> bool:
        """Whether `one` is better than `other`."""
        return one > other if self.more else one < other


def said(name: str, value: float) -> str:
    """A number of the column `name` with its unit."""
    if name.endswith("_ns"):
        return time(value)
    if name.endswith("_bytes"):
        return size(value)
    if name == "model_flops":
        return operations(value)
    if name in ("mfu", "bubble") or name.endswith("_utilisation"):
        return share(value)
    unit = _UNITS.get(name, ("", 1.0))[0]
    return Quantity(f"{value:,.4g} {unit}".strip(), value)


@dataclass(frozen=True)
class View:
    """A sweep's table as its page sees it."""

    name: str
    table: Frame
    objectives: Objectives = STEP_TIME
    include_infeasible: bool = False
    """Whether points that don't fit in memory count as the others."""
    near: bool = False
    """Whether points that may not fit count as the others."""
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Texts of each parameter in the study's order."""
    subject: str = ""
    """The model and the platform, for the title; empty where unknown."""

    @cached_property
    def measured(self) -> Frame:
        """Points that ran and have every objective."""
        named = [name for name, _ in self.objectives if name in self.table.columns]
        return self.table.where(
            row["error"] is None and all(row[name] is not None for name in named)
            for row in self.table.rows(("error", *named))
        )

    @cached_property
    def out_of_memory(self) -> Frame:
        """Those that don't fit in memory."""
        return self._those("no")

    @cached_property
    def close(self) -> Frame:
        """Points that may not fit in memory: the error of what they need decides."""
        return self._those("near")

    def _those(self, answer: Fits) -> Frame:
        """Points that ran and have this `answer`."""
        return self.measured.where(each == answer for each in _answers(self.measured))

    @cached_property
    def ran(self) -> Frame:
        """Points to be ranked and drawn: they ran, have every objective, and fit in memory unless
        others count too."""
        return self.measured.where(self.counted)

    @cached_property
    def fitting(self) -> Frame:
        """Points that ran and are not known to need as much memory as there is."""
        return self.measured.where(each == "yes" for each in _answers(self.measured))

    @cached_property
    def fits(self) -> list[Fits]:
        """Whether each row of `ran` fits, as far as is known."""
        return _answers(self.ran)

    @cached_property
    def counted(self) -> list[bool]:
        """Whether each measured point is ranked and drawn."""
        taken = {"yes", *(["near"] if self.near else [])}
        return [self.include_infeasible or each in taken for each in _answers(self.measured)]

    @property
    def is_marked(self) -> bool:
        """Whether there are points among those ranked that don't fit, or may not."""
        return any(each != "yes" for each in self.fits)

    @cached_property
    def unknown(self) -> int:
        """Number of points that may or may not fit; their memory is unknown."""
        return (
            self.measured["fits"].count(None)
            if "fits" in self.measured.columns
            else self.measured.height
        )

    @cached_property
    def columns(self) -> list[str]:
        """The parameters, in the study's order."""
        return self.table.columns[1 : self.table.columns.index("step_time_ns")]

    @cached_property
    def short(self) -> dict[str, str]:
        """Names of parameters for people: the shortest end that begins after a dot and is
        unique."""
        tails = [_tails(name) for name in self.columns]
        often = Counter(tail for some in tails for tail in some)
        named = zip(self.columns, tails, strict=True)
        return {
            name: next((tail for tail in some if often[tail] == 1), name) for name, some in named
        }

    @cached_property
    def axes(self) -> list[Axis]:
        """Parameters that vary among the points that ran, the most influential first."""
        found = [self.axis(name, self.ran) for name in self.columns if self.ran.varies(name)]
        return sorted(found, key=lambda each: -self.influence(each))

    def axis(self, name: str, points: Frame) -> Axis:
        """A parameter among some of the points."""
        return axis(name, points[name], self.orders.get(name, ()))

    def influence(self, of: Axis) -> float:
        """How much of the first objective a parameter explains, 0 to 1."""
        return explained(of, self.objective.values)

    @cached_property
    def objective(self) -> Measure:
        """The first objective."""
        return self.measure(*self.objectives[0])

    def measure(self, name: str, more: bool) -> Measure:
        """A column of results. Raises `InputError` where the table has no such numbers."""
        if name not in self.table.columns or not self.table.is_numeric(name):
            named = [each for each in self.table.columns if self.table.is_numeric(each)]
            raise InputError(
                [
                    Problem(
                        self.name,
                        name,
                        "is not a column of numbers in this table",
                        ", ".join(named),
                    )
                ]
            )
        values = [float(value) for value in self.ran[name]]
        if not name.endswith("_ns"):
            return self._plain_measure(name, values, more)
        least = min(values, default=1.0)
        scale, unit = next(((scale, unit) for scale, unit in TIMES if least >= scale), TIMES[-1])
        return Measure(
            name, f"{name.removesuffix('_ns').replace('_', ' ')} ({unit})", values, more, 1 / scale
        )

    @staticmethod
    def _plain_measure(name: str, values: Sequence[float], more: bool) -> Measure:
        if name.endswith("_bytes"):
            return Measure(
                name, f"{name.removesuffix('_bytes').replace('_', ' ')} (GB)", values, more, 1e-9
            )
        unit, scale = ("%", 100.0) if name.endswith("_utilisation") else _UNITS.get(name, ("", 1.0))
        words = (
            name.removesuffix("_per_npu").replace("_", " ")
            if not unit
            else name.partition("_per_")[0]
        )
        shown = "MFU" if name == "mfu" else words.replace("_", " ")
        label = f"{shown} ({unit})" if unit else shown
        return Measure(name, label, values, more, scale)

    @cached_property
    def against(self) -> Measure | None:
        """Measure that the first objective is traded for: the second one, else the bandwidths that
        vary, NPUs or memory."""
        if len(self.objectives) > 1:
            return self.measure(*self.objectives[1])
        bandwidths = [
            each.numbers for each in self.axes if each.unit == "B/s" and each.numbers is not None
        ]
        if bandwidths:
            total = [sum(of_point) for of_point in zip(*bandwidths, strict=True)]
            what = "bandwidths that vary, sum" if len(bandwidths) > 1 else "bandwidth"
            return Measure("bandwidth", f"{what} (GB/s)", total, False, 1e-9)
        for name, label in _RESOURCES:
            if self.ran.is_whole(name) and self.ran.varies(name):
                values = [float(value) for value in self.ran[name]]
                return Measure(name, label, values, False, 1e-9 if name == "memory_bytes" else 1.0)
        return None

    @cached_property
    def ranking(self) -> list[int]:
        """Rows of `ran`, the best first; equals in the order of points."""
        sign = -1 if self.objective.more else 1
        values = self.objective.values
        return sorted(range(self.ran.height), key=lambda row: sign * values[row])

    @cached_property
    def alike(self) -> list[int]:
        """Rows of `ran` next to the best one, the best first, whose difference to it lies within
        the interval of one of both. None where the first objective is not the step's, or where
        intervals are unknown."""
        frame, values = self.ran, self.objective.values
        known = {"step_low_ns", "step_high_ns"} <= set(frame.columns)
        if not self.ranking or self.objective.name not in OF_STEP or not known:
            return []
        best, *others = self.ranking
        columns = ("step_time_ns", "step_low_ns", "step_high_ns")
        rows = list(zip(*(frame[name] for name in columns), strict=True))
        if None in rows[best] or not all(values) or not all(row[0] for row in rows):
            return []

        def factors(row: int) -> Factors:
            step, low, high = rows[row]
            return low / step, high / step

        def within(row: int) -> bool:
            one, other = (best, row) if not self.objective.more else (row, best)
            return None not in rows[row] and indistinct(
                values[other] / values[one], factors(one), factors(other)
            )

        return [row for row in others if within(row)]

    @property
    def said_alike(self) -> str | None:
        """Meaning of `alike` for a choice, as a sentence; nothing where there are none."""
        if not self.alike:
            return None
        best = self.ran.row(self.ranking[0])
        low, high = (best[f"step_{end}_ns"] / best["step_time_ns"] for end in ("low", "high"))
        many = counted(len(self.alike), "other point")
        return (
            f"The uncertainty of predictions does not separate {many} from the best: 80 % of "
            f"measured steps like it would be within {low:.2f} to {high:.2f} times the prediction."
        )

    def front(self, other: Measure) -> list[int]:
        """Rows that no other beats in the first objective and in `other`: the Pareto front, by
        `other`."""
        signs = [-1.0 if each.more else 1.0 for each in (self.objective, other)]
        cost = [
            (signs[1] * b, signs[0] * a)
            for a, b in zip(self.objective.values, other.values, strict=True)
        ]
        found: list[int] = []
        for row in sorted(range(len(cost)), key=cost.__getitem__):
            if not found or cost[row][1] < cost[found[-1]][1]:
                found.append(row)
        return found


def _answers(frame: Frame) -> list[Fits]:
    """Answer of each row whether it fits; `yes` where that is unknown."""
    if "fits" not in frame.columns:
        return ["yes"] * frame.height
    return [each or "yes" for each in frame["fits"]]


def _tails(name: str) -> list[str]:
    """`c`, `b.c` and `a.b.c` of `a.b.c`."""
    parts = name.split(".")
    return [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]


def spread(rows: Sequence[int], most: int) -> list[int]:
    """At most `most` of `rows`, evenly over their order, both ends among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(at * (len(rows) - 1) / (most - 1))] for at in range(most)]
