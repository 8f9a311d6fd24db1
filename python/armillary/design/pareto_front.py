"""Front of step time against cost, and the best performance per cost, with proofs.

For mu >= 0 the program `minimise T + mu cost` gives a point of the front and a line `T + mu cost >=
v` that no design is below. Step time is convex in the bandwidths and cost is linear, so the front
is convex and the lines close in on it. Their corners bound what weighted sums can't say: the
product T x cost, whose inverse is performance per cost, is quasi-concave, so over all that lies
above the lines its least value is at a corner. Each new line is drawn through the corner with the
least product, until that is as large as the best design found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..estimate.step_model import Vector
from .optimal import NoSolution, Optimum, Question, optimise

_CLOSE = 1e-7
_MOST_LINES = 60
_SLOW = 8.0
"""A front ends where steps take this many times as long as the fastest."""


@dataclass(frozen=True, eq=False)
class Point:
    """A design on the front."""

    bandwidth: Vector
    time: float
    """Weighted step time, s."""
    cost: float
    """Dollars."""
    rate: float
    """Seconds that another dollar buys, as the slope of the line through the point."""


@dataclass(frozen=True, slots=True)
class _Line:
    """`time + rate cost >= value`."""

    rate: float
    value: float


@dataclass(frozen=True, eq=False)
class Best:
    """The least product of time and cost."""

    point: Point
    bound: float
    """No design has a smaller product."""

    @property
    def value(self) -> float:
        """Time times cost, dollar seconds."""
        return self.point.time * self.point.cost


def least_product(question: Question, price: Vector) -> Best:
    """The design with the most performance per cost. Raises `NoSolution`."""
    search = _Search(question, price)
    search.start()
    for _ in range(_MOST_LINES):
        corner, bound = search.corner()
        if bound >= search.best * (1 - _CLOSE):
            break
        before = len(search.lines)
        search.draw(corner[1] / corner[0])
        if len(search.lines) == before:
            break
    point = min(search.points, key=lambda each: each.time * each.cost)
    return Best(point, min(search.corner()[1], point.time * point.cost))


def front(question: Question, price: Vector, points: int = 24) -> list[Point]:
    """`points` designs from the cheapest to the fastest, none both slower and dearer than another.
    Raises `NoSolution`."""
    search = _Search(question, price)
    search.start()
    while len(search.points) < points:
        widest = search.widest()
        if widest is None:
            break
        before = len(search.lines)
        search.draw(widest)
        if len(search.lines) == before:
            break
    return search.near()


class _Search:
    """Lines and points so far, lines by ascending rate."""

    def __init__(self, question: Question, price: Vector) -> None:
        self.question, self.price = question, price
        self.lines: list[_Line] = []
        self.points: list[Point] = []
        self.least_cost = 0.0

    @property
    def best(self) -> float:
        """The least product so far."""
        return min(each.time * each.cost for each in self.points)

    def start(self) -> None:
        """The fastest design, the cheapest, and the line between them."""
        fastest = optimise(replace(self.question, price=None))
        self._keep(fastest, 0.0)
        cheapest = _cheapest(self.question, self.price)
        self.least_cost = max(0.0, cheapest.bound)
        self._keep_point(cheapest.bandwidth, 0.0)
        at = self.points[0]
        if at.cost > 0:
            self.draw(at.time / at.cost)

    def draw(self, rate: float) -> None:
        """The line of slope `-rate` that touches the front, unless it is known."""
        if any(abs(each.rate - rate) <= 1e-12 * rate for each in self.lines):
            return
        try:
            self._keep(optimise(replace(self.question, price=self.price * rate)), rate)
        except NoSolution:
            return

    def corner(self) -> tuple[tuple[float, float], float]:
        """The corner above all lines with the least product, as (cost, time), and that product."""
        corners = self._corners()
        products = [cost * time for cost, time in corners]
        best = int(np.argmin(products))
        return corners[best], products[best]

    def widest(self) -> float | None:
        """The slope between the two neighbours on the front that are farthest apart."""
        points = self.near()
        spans = [
            (b.cost / a.cost * (a.time / b.time), a, b)
            for a, b in itertools.pairwise(points)
            if a.cost > 0
        ]
        if not spans:
            return None
        _, a, b = max(spans, key=lambda each: each[0])
        return (a.time - b.time) / (b.cost - a.cost) if b.cost > a.cost else None

    def near(self) -> list[Point]:
        """The points whose time is not out of all proportion; the slowest of the others where there
        is only one."""
        points = _undominated(self.points)
        kept = [each for each in points if each.time <= points[-1].time * _SLOW]
        return kept if len(kept) > 1 else points[-2:]

    def _corners(self) -> list[tuple[float, float]]:
        """Where neighbouring lines of the upper envelope meet, from the left end, which is the
        least cost."""
        at, found = self.least_cost, []
        time = max(line.value - line.rate * at for line in self.lines)
        found.append((at, time))
        active = max(self.lines, key=lambda line: (line.value - line.rate * at, -line.rate))
        while True:
            ahead = [
                ((active.value - line.value) / (active.rate - line.rate), line)
                for line in self.lines
                if line.rate < active.rate
            ]
            if not ahead:
                return found
            at, active = min(ahead, key=lambda each: (each[0], each[1].rate))
            found.append((at, active.value - active.rate * at))

    def _keep(self, optimum: Optimum, rate: float) -> None:
        self.lines.append(_Line(rate, optimum.bound))
        self._keep_point(optimum.bandwidth, rate)

    def _keep_point(self, bandwidth: Vector, rate: float) -> None:
        time = replace(self.question, price=None).value(bandwidth)
        if np.isfinite(time):
            self.points.append(Point(bandwidth, time, float(self.price @ bandwidth), rate))


def _cheapest(question: Question, price: Vector) -> Optimum:
    """The cheapest bandwidths that the constraints and time limits allow."""
    return optimise(
        Question(
            question.models,
            (0.0,) * len(question.models),
            question.constraints,
            price,
            question.limits,
        )
    )


def _undominated(points: Sequence[Point]) -> list[Point]:
    """Points by ascending cost, each faster than all cheaper ones."""
    found: list[Point] = []
    for each in sorted(points, key=lambda point: (point.cost, point.time)):
        if not found or each.time < found[-1].time * (1 - 1e-9):
            found.append(each)
    return found
