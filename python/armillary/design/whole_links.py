"""Bandwidths that can be bought: whole links of the speeds on sale, the best ones found exactly.

An NPU has `k` links of one speed `s` in a dimension: to a Switch `k` of them, in a Ring `k` to each
neighbour, in a FullyConnected of `n` NPUs `k` to each of the `n - 1` others. So a dimension has a
finite list of bandwidths, in the counting of `cost.py`: `k s`, `k s` (of one link of the ring), and
`k s (n - 1)`.

The best choice is found by branch and bound. A box of choices is bounded by the convex program over
all bandwidths inside it (`optimal.py`, `pareto_front.py`), whose bound is proved. A box is split
where that program's answer lies between two bandwidths on sale. Small boxes are tried completely.
Nothing is cut off that could be better, so the result is the optimum of the model among all that
can be bought.

A total that is to be met exactly can't be, as a rule, with whole links. It then holds to within the
steps of the dimension that is sold in the finest ones: links of it fill what the others leave."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..estimate.step_model import StepModel, Vector
from ..estimate.topology import StackDimension
from . import pareto_front
from .optimal import Constraint, NoSolution, Question, optimise

_SMALL = 4096
"""Choices of a box that are tried out rather than bounded."""
_EVEN = 1e-9
_SLACK = 1e-9
"""Relative excess over a limit that does not count yet."""


@dataclass(frozen=True, slots=True)
class Links:
    """Links of an NPU in a dimension."""

    count: int
    """Links of an NPU in all."""
    speed: float
    """Speed of one link, bytes a second."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Bandwidths on sale for a dimension."""

    bandwidths: tuple[float, ...]
    """Bandwidths of an NPU, bytes a second, ascending."""
    links: tuple[Links, ...]
    """Links that make up each bandwidth."""


@dataclass(frozen=True, eq=False)
class Whole:
    """The best whole links."""

    bandwidth: Vector
    """[D] bytes a second."""
    links: tuple[Links, ...]
    value: float
    bound: float
    """No choice of links has a smaller value."""
    marginal: Vector
    """[D] seconds of weighted step time that the next size up saves for each byte a second it adds,
    limits left aside. """


def ports(dimension: StackDimension) -> int:
    """Links of an NPU that a dimension takes at least."""
    return {"Switch": 1, "Ring": min(2, dimension.size - 1), "FullyConnected": dimension.size - 1}[
        dimension.block
    ]


def offer(dimension: StackDimension, speeds: Sequence[float], most: int) -> Offer:
    """Bandwidths that links of these speeds, up to `most` for each NPU, give a dimension; the
    fewest links for each bandwidth."""
    taken, wide = ports(dimension), dimension.size - 1 if dimension.block == "FullyConnected" else 1
    made: dict[float, Links] = {}
    for speed in sorted(speeds, reverse=True):
        for times in range(1, most // taken + 1):
            made.setdefault(times * speed * wide, Links(times * taken, speed))
    ordered = sorted(made.items(), key=lambda each: each[0])
    return Offer(tuple(each for each, _ in ordered), tuple(each for _, each in ordered))


def relaxed(
    constraints: Sequence[Constraint], offers: Sequence[Sequence[Offer]]
) -> tuple[Constraint, ...]:
    """The constraints for whole links, `offers` by dimension and block: totals met to within a
    step, and no dimension without a link or with more than are on sale."""
    dims = len(offers)
    found: list[Constraint] = []
    for each in constraints:
        factor = each.coefficients[0]
        total = each.equal and factor > 0 and all(other == factor for other in each.coefficients)
        found.append(replace(each, equal=False) if total else each)
        if total:
            least = min(
                _least_total(each.limit / factor, some) for some in itertools.product(*offers)
            )
            found.append(Constraint(each.name, (-1.0,) * dims, -least))
    for d, some in enumerate(offers):
        own = tuple(float(at == d) for at in range(dims))
        found.append(
            Constraint(
                f"links on sale for dimension {d}: most",
                own,
                max(each.bandwidths[-1] for each in some),
            )
        )
        least = min(each.bandwidths[0] for each in some)
        found.append(
            Constraint(
                f"links on sale for dimension {d}: least", tuple(-one for one in own), -least
            )
        )
    return tuple(found)


def _least_total(total: float, offers: Sequence[Offer]) -> float:
    """How much of a total whole links can always make: all but a step of the finest dimension that
    reaches it, or else all but the largest step."""
    sold = [[each for each in offer.bandwidths if each <= total] for offer in offers]
    if not all(sold):
        return 0.0
    steps = [max((b - a for a, b in itertools.pairwise(some)), default=math.inf) for some in sold]
    least, most = sum(some[0] for some in sold), sum(some[-1] for some in sold)
    fine = [
        step
        for some, step in zip(sold, steps, strict=True)
        if step < math.inf and least - some[0] + some[-1] >= total - step
    ]
    if fine:
        return total - min(fine)
    return min(most, total - max((step for step in steps if step < math.inf), default=0.0))


def best(question: Question, offers: Sequence[Offer], product: Vector | None = None) -> Whole:
    """The best whole links; with `product`, prices, those of the least product of time and cost.

    Raises `NoSolution` where none fulfil the constraints.
    """
    search = _Search(question, offers, product)
    search.run()
    if search.best is None:
        raise NoSolution("no whole links fulfil the constraints")
    chosen = [
        offer.bandwidths.index(float(part)) for offer, part in zip(offers, search.best, strict=True)
    ]
    links = tuple(offer.links[index] for offer, index in zip(offers, chosen, strict=True))
    bound = min(search.value, search.left)
    return Whole(search.best, links, search.value, bound, search.marginal(search.best, chosen))


Box = tuple[tuple[int, int], ...]
"""The first and the last bandwidth on sale, for each dimension."""


class _Search:
    def __init__(self, question: Question, offers: Sequence[Offer], product: Vector | None) -> None:
        self.question, self.product = question, product
        self.sold = [np.array(each.bandwidths) for each in offers]
        self.best: Vector | None = None
        self.value = self.left = math.inf
        """The best value so far, and the least bound of what was left as no better."""

    def run(self) -> None:
        start = self.within(tuple((0, len(each) - 1) for each in self.sold))
        number = itertools.count()
        heap: list[tuple[float, int, Box]] = [(-math.inf, next(number), start)] if start else []
        while heap:
            bound, _, box = heapq.heappop(heap)
            if bound >= self.value * (1 - _EVEN):
                self.left = min(self.left, bound)
                return
            for part, least in self.parts(box):
                heapq.heappush(heap, (max(bound, least), next(number), part))

    def parts(self, box: Box) -> Iterator[tuple[Box, float]]:
        """Parts of a box that are left to be searched, with their bounds."""
        if math.prod(last - first + 1 for first, last in box) <= _SMALL:
            self.try_all(box)
            return
        try:
            answer, bound = self.relaxation(box)
        except NoSolution:
            return
        self.try_near(box, answer)
        d, at = self.between(box, answer)
        first, last = box[d]
        for side in ((first, at), (at + 1, last)):
            part = self.within((*box[:d], side, *box[d + 1 :]))
            if part is not None:
                yield part, bound

    def within(self, box: Box) -> Box | None:
        """The box less what no choice of the other dimensions makes room for; nothing where that is
        all."""
        low = [self.sold[d][first] for d, (first, _) in enumerate(box)]
        found = list(box)
        for each in self.question.constraints:
            if min(each.coefficients) < 0 or not any(each.coefficients):
                continue
            spent = float(np.dot(each.coefficients, low))
            for d, value in enumerate(each.coefficients):
                if value > 0:
                    room = (each.limit + _SLACK * abs(each.limit) - spent) / value + low[d]
                    last = int(np.searchsorted(self.sold[d], room, side="right")) - 1
                    found[d] = (found[d][0], min(found[d][1], last))
        return None if any(last < first for first, last in found) else tuple(found)

    def relaxation(self, box: Box) -> tuple[Vector, float]:
        """The best bandwidths of any size in a box, and a bound. Raises `NoSolution`."""
        dims = len(box)
        walls = []
        for d, (first, last) in enumerate(box):
            own = tuple(float(at == d) for at in range(dims))
            walls.append(Constraint(f"box {d}", own, float(self.sold[d][last])))
            walls.append(
                Constraint(
                    f"box {d} least", tuple(-one for one in own), -float(self.sold[d][first])
                )
            )
        inside = replace(self.question, constraints=(*self.question.constraints, *walls))
        if self.product is None:
            found = optimise(inside)
            return found.bandwidth, found.bound
        least = pareto_front.least_product(inside, self.product)
        return least.point.bandwidth, least.bound

    def between(self, box: Box, answer: Vector) -> tuple[int, int]:
        """The dimension to split and the last bandwidth of its lower half: where the answer lies
        farthest from what is on sale, or else at the widest side."""
        gaps = []
        for d, (first, last) in enumerate(box):
            at = int(
                np.clip(
                    np.searchsorted(self.sold[d], answer[d], side="right") - 1,
                    first,
                    max(first, last - 1),
                )
            )
            low, high = self.sold[d][at], self.sold[d][min(at + 1, last)]
            apart = min(answer[d] - low, high - answer[d]) / answer[d] if high > low else 0.0
            gaps.append((max(0.0, float(apart)) if last > first else -1.0, last - first, d, at))
        _, _, d, at = max(gaps)
        return d, at

    def try_near(self, box: Box, answer: Vector) -> None:
        """Tries what is on sale just below and above an answer, which mostly gives a good choice
        early."""
        sides = []
        for d, (first, last) in enumerate(box):
            at = int(
                np.clip(np.searchsorted(self.sold[d], answer[d], side="right") - 1, first, last)
            )
            sides.append((max(first, at - 1), min(last, at + 1)))
        self.try_all(tuple(sides))

    def try_all(self, box: Box) -> None:
        """Tries every choice of a box."""
        axes = [self.sold[d][first : last + 1] for d, (first, last) in enumerate(box)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(box))
        grid = grid[self.allowed(grid)]
        if not len(grid):
            return
        values = self.values(grid)
        at = int(np.argmin(values))
        if values[at] < self.value:
            self.best, self.value = grid[at], float(values[at])

    def allowed(self, grid: Vector) -> np.ndarray:
        """Which choices fulfil the constraints."""
        kept = np.ones(len(grid), dtype=bool)
        for each in self.question.constraints:
            left = each.limit - grid @ np.array(each.coefficients)
            room = _SLACK * (abs(each.limit) + grid @ np.abs(np.array(each.coefficients)))
            kept &= np.abs(left) <= room if each.equal else left >= -room
        for model, limit in zip(self.question.models, self.question.limits, strict=False):
            if limit is not None:
                kept &= times(model, grid) <= limit * (1 + _SLACK)
        return kept

    def values(self, grid: Vector) -> Vector:
        """The objective of every choice."""
        total = np.zeros(len(grid))
        for weight, model in zip(self.question.weights, self.question.models, strict=True):
            if weight:
                total += weight * times(model, grid)
        if self.product is not None:
            return total * (grid @ self.product)
        return total if self.question.price is None else total + grid @ self.question.price

    def marginal(self, bandwidth: Vector, chosen: Sequence[int]) -> Vector:
        """Savings from the next larger bandwidth of each dimension, for each byte a second."""
        found = np.zeros(len(chosen))
        only_time = replace(self.question, price=None)
        for d, at in enumerate(chosen):
            if at + 1 < len(self.sold[d]):
                larger = bandwidth.copy()
                larger[d] = self.sold[d][at + 1]
                saved = only_time.value(bandwidth) - only_time.value(larger)
                found[d] = saved / (larger[d] - bandwidth[d])
        return found


def times(model: StepModel, grid: Vector) -> Vector:
    """[M] seconds of a step for each of the bandwidths [M, D]."""
    busy = model.loads[None, :, :] / grid[:, None, :] + model.fixed[None, :, :]
    filled = busy + model.fill * (np.cumsum(busy, axis=2) - busy)
    terms = np.max(filled, axis=2, initial=0.0)
    total = np.full(len(grid), model.compute)
    for each in model.parts:
        total += np.max(each.offsets[None, :] + terms @ each.counts.T, axis=1)
    return total
