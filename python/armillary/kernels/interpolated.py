"""Times between measured kernels (docs/models/kernels.md, measured tables).

What is interpolated is ln(measured / formula), over the logarithms of the numbers of a shape,
between rows of the same words. It is kriging around the mean of the nearest rows, with an
exponential covariance: between two rows that differ in one number, nearly the straight line.
Outside of the range of a number the ratio is that of the nearest end of the range. The interval
follows from rows of the table that are left out, together with all rows nearer to them than the
nearest row is to the kernel in question.

Source: N. Cressie, "Statistics for Spatial Data" (1993), chapter 3."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..uncertainty import LEVEL
from ..uncertainty.interval import quantile
from .measured_file import Numbers, Rows, fields

NEIGHBOURS = 16
"""Rows that an interpolation rests on at most. A choice: with 8 or 32 the errors are the same."""
_REACH = 5.0
"""Distance over which ratios resemble each other, in natural logarithms. A choice: 2 and 10 give
the same errors."""
_NOISE = 0.1
"""Part of the variance of ratios that even equal kernels have. A choice, as before."""
_AROUND = 96
"""Rows around a kernel that its interval follows from."""
_FEWEST = 8
"""Errors that make an interval."""
_REPEATS = 0.05
"""ln(measured again / measured) of four measurements in five at most, where the table has few
repeats: that of the laboratory's tables."""
_WIDEST = 100.0
"""ln of the largest end of an interval."""

Formula = Callable[[Sequence[Numbers]], list[float]]
"""Times by the formula, us; NaN where it has none."""
How = Literal["formula", "measured", "interpolated", "outside"]


@dataclass(frozen=True, slots=True)
class Found:
    """A time from measured kernels."""

    how: How
    us: float
    rows: int
    """Rows that it rests on."""
    outside: tuple[str, ...] = ()
    """Numbers outside of the measured range, with the range."""


class Measured:
    """The measured kernels of one kind with the same words."""

    def __init__(self, rows: Rows, formula: Formula) -> None:
        repeats: dict[Numbers, list[float]] = {}
        for numbers, us in rows.times():
            repeats.setdefault(numbers, []).append(us)
        self._formula = formula
        self._repeats = repeats
        self._names = fields(rows.kind)[1]
        self._rows = list(repeats)
        self._index = {numbers: at for at, numbers in enumerate(self._rows)}
        self._us = [statistics.median(each) for each in repeats.values()]
        self._columns = list(zip(*(_logs(each) for each in self._rows), strict=True))
        self._ratios: dict[int, float] = {}

    def time(self, numbers: Numbers, ours: float) -> Found | None:
        """The time of a kernel that takes `ours` us by the formula; `None` where no row helps."""
        exact = self._index.get(numbers)
        if exact is not None:
            return Found("measured", self._us[exact], len(self._repeats[numbers]))
        place = self._within(numbers)
        near = self._near(place, NEIGHBOURS)
        if not near:
            return None
        us = ours * math.exp(self._ratio(place, near))
        outside = self._outside(numbers)
        return Found("outside" if outside else "interpolated", us, len(near), outside)

    def interval(self, numbers: Numbers) -> tuple[float, float, int] | None:
        """Factors on `time` between which `LEVEL` of the measurements should lie, and how many
        errors they follow from; `None` for a table that is too small."""
        if numbers in self._index:
            return self._of_repeats()
        place = self._within(numbers)
        around = self._near(place, _AROUND)
        beyond = _distance(_logs(numbers), place)
        apart = beyond + (around[0][0] if around else 0.0)
        rows = [at for _, at in around]
        places = [self._place(at) for at in rows]
        distances = [[_distance(one, other) for other in places] for one in places]
        errors = self._left_out(rows, distances, 0.0, ())
        far = self._left_out(rows, distances, apart, self._unseen(numbers))
        if len(errors) < _FEWEST:
            return None
        low, high = _ends(errors)
        if len(far) >= _FEWEST:
            lower, higher = _ends(far)
            low, high = min(low, lower), max(high, higher)
        wider = math.sqrt(1 + beyond)
        low, high = max(wider * low, -_WIDEST), min(wider * high, _WIDEST)
        return math.exp(low), math.exp(high), len(errors)

    def _of_repeats(self) -> tuple[float, float, int]:
        return math.exp(-self._spread), math.exp(self._spread), len(self._repeated)

    @cached_property
    def _repeated(self) -> list[float]:
        """ln(measured / median) of all rows that are repeated, without signs."""
        groups = [each for each in self._repeats.values() if len(each) > 1]
        return sorted(abs(math.log(us / statistics.median(each))) for each in groups for us in each)

    @cached_property
    def _spread(self) -> float:
        found = self._repeated
        if len(found) < _FEWEST:
            return _REPEATS
        return found[min(math.ceil(LEVEL * (len(found) + 1)), len(found)) - 1]

    def _within(self, numbers: Numbers) -> tuple[float, ...]:
        """The logarithms of a shape, moved into the measured range."""
        logs = _logs(numbers)
        return tuple(
            min(max(log, min(c)), max(c)) for log, c in zip(logs, self._columns, strict=True)
        )

    def _outside(self, numbers: Numbers) -> tuple[str, ...]:
        found = []
        for name, number, column in zip(
            self._names, numbers, zip(*self._rows, strict=True), strict=True
        ):
            least, most = min(column), max(column)
            if not least <= number <= most:
                said = f"{least}" if least == most else f"{least} to {most}"
                found.append(f"{name} {said}")
        return tuple(found)

    def _near(self, place: Sequence[float], most: int) -> list[tuple[float, int]]:
        """The nearest rows that the formula times, nearest first: distance and index."""
        apart = [0.0] * len(self._rows)
        for column, at in zip(self._columns, place, strict=True):
            apart = [sum_ + abs(each - at) for sum_, each in zip(apart, column, strict=True)]
        near = heapq.nsmallest(most, zip(apart, range(len(apart)), strict=True))
        self._time(at for _, at in near)
        return [(distance, at) for distance, at in near if not math.isnan(self._ratios[at])]

    def _time(self, rows: Iterable[int]) -> None:
        """Finds the ratios of rows."""
        missing = [at for at in rows if at not in self._ratios]
        times = self._formula([self._rows[at] for at in missing]) if missing else []
        for at, ours in zip(missing, times, strict=True):
            self._ratios[at] = math.log(self._us[at] / ours)

    def _place(self, at: int) -> list[float]:
        return [column[at] for column in self._columns]

    def _ratio(self, place: Sequence[float], near: Sequence[tuple[float, int]]) -> float:
        """ln(measured / formula) at a place, from the rows near it."""
        rows = [self._place(at) for _, at in near]
        alike = [[_alike(_distance(one, other)) for other in rows] for one in rows]
        values = [self._ratios[at] for _, at in near]
        return _kriged(alike, [_alike(distance) for distance, _ in near], values)

    def _unseen(self, numbers: Numbers) -> tuple[int, ...]:
        """Places of the numbers that no row has."""
        columns = enumerate(zip(*self._rows, strict=True))
        return tuple(at for at, column in columns if numbers[at] not in column)

    def _left_out(
        self,
        rows: Sequence[int],
        distances: Sequence[Sequence[float]],
        apart: float,
        unseen: Sequence[int],
    ) -> list[float]:
        """ln(measured / predicted) of all repeats of rows, whose `distances` are given. Each row is
        predicted from those of the others that are not nearer to it than `apart`, and that differ
        in all `unseen` numbers."""
        errors: list[float] = []
        for one, (row, away) in enumerate(zip(rows, distances, strict=True)):
            mine = self._rows[row]
            others = (
                (distance, other)
                for other, distance in enumerate(away)
                if other != one
                and distance >= apart
                and all(self._rows[rows[other]][at] != mine[at] for at in unseen)
            )
            near = [other for _, other in heapq.nsmallest(NEIGHBOURS, others)]
            if near:
                alike = [[_alike(distances[one][other]) for other in near] for one in near]
                values = [self._ratios[rows[other]] for other in near]
                ratio = _kriged(alike, [_alike(away[other]) for other in near], values)
                repeats = self._repeats[mine]
                error = self._ratios[row] - ratio - math.log(self._us[row])
                errors += [error + math.log(us) for us in repeats]
        return errors


def _kriged(alike: list[list[float]], like: Sequence[float], values: Sequence[float]) -> float:
    """The value at a place. `alike` are the covariances of the rows with each other, `like` with
    the place, and `values` are theirs."""
    for at, line in enumerate(alike):
        line[at] += _NOISE
    mean = statistics.fmean(values)
    weights = _solved(alike, like)
    return mean + sum(
        weight * (value - mean) for weight, value in zip(weights, values, strict=True)
    )


def _alike(distance: float) -> float:
    """Covariance of two ratios, over their variance."""
    return math.exp(-distance / _REACH)


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(map(abs, map(float.__sub__, one, other)))


def _logs(numbers: Numbers) -> tuple[float, ...]:
    """Logarithms; 0 counts as a half."""
    return tuple(math.log(number or 0.5) for number in numbers)


def _ends(errors: Sequence[float]) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2 * len(errors) / (len(errors) + 1)
    weighted = [(error, 1.0) for error in sorted(errors)]
    return min(quantile(weighted, tail), 0.0), max(quantile(weighted, 1 - tail), 0.0)


def _solved(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """The solution of equations with a positive definite matrix, by Cholesky's method. In Python,
    because the last bits of numpy's depend on the processor; there are at most 16 equations."""
    size = len(right)
    lower: list[list[float]] = []
    for row in range(size):
        line: list[float] = []
        for column in range(row):
            known = sum(map(float.__mul__, line, lower[column]))
            line.append((matrix[row][column] - known) / lower[column][column])
        line.append(math.sqrt(matrix[row][row] - sum(each * each for each in line)))
        lower.append(line)
    found = list(right)
    for row in range(size):
        known = sum(map(float.__mul__, lower[row][:row], found[:row]))
        found[row] = (found[row] - known) / lower[row][row]
    for row in reversed(range(size)):
        known = sum(lower[at][row] * found[at] for at in range(row + 1, size))
        found[row] = (found[row] - known) / lower[row][row]
    return found
