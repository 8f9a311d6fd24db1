"""The best bandwidths: a small convex program, and a certificate that needs no trust in its solver.

Here: the program, its dual bound, shadow prices. Not here: the time model
(`estimate/step_model.py`), what a user's constraints are in numbers (`constraints.py`), which of
them conflict (`infeasible.py`).

    minimise   price . bw + sum_w weight_w T_w
    subject to T_w >= compute_w + sum over its parts p of x_p
               x_p >= offset_k + sum_g count_kg t_g                   for every line k
               t_g >= loads_gd u_d + fixed_gd
                      + fill sum_(e < d) (loads_ge u_e + fixed_ge)    for every dimension d
               bw_d u_d >= 1,   T_w <= limit_w,   A bw <= b (or =)

All is linear but `bw_d u_d >= 1`, a rotated second-order cone; larger u never helps, so u_d = 1 /
bw_d at the optimum. With multipliers lambda >= 0 of these rows, y of the constraints (any sign for
equalities), the load on a dimension is `L_d = sum lambda loads`, its price `g = price + A^T y`, and
for every feasible bw (2 sqrt(L g) = min L / bw + g bw)

    objective >= sum lambda (compute, offset, fixed) - sum_w (lambda_w - weight_w) limit_w - b . y
                 + sum_d 2 sqrt(L_d g_d)

`_bound` computes that from the solver's multipliers after making them feasible, so that the gap is
a proof whatever the solver did. Source: Boyd and Vandenberghe, Convex Optimization, sections 4.4
and 5; solver: Clarabel (Goulart and Chen, arXiv:2405.12762)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .. import _core
from ..estimate.step_model import StepModel, Vector

_FINE = 1e-8
"""Gap above which a program is solved again, scaled by its first answer."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """`coefficients . bw <= limit`, or `==`; bandwidths in bytes a second."""

    name: str
    coefficients: tuple[float, ...]
    limit: float
    equal: bool = False

    def slack(self, bandwidth: Sequence[float] | Vector) -> float:
        """Distance to the limit, negative where it is exceeded (for `==` minus the distance)."""
        left = self.limit - float(np.dot(self.coefficients, bandwidth))
        return -abs(left) if self.equal else left

    def is_broken(self, bandwidth: Sequence[float] | Vector) -> bool:
        """Whether the limit is exceeded by more than rounding."""
        size = abs(self.limit) + float(
            np.dot(np.abs(self.coefficients), np.abs(np.asarray(bandwidth)))
        )
        return self.slack(bandwidth) < -1e-6 * size


@dataclass(frozen=True, eq=False)
class Question:
    """Objective to minimise, and the bandwidths to choose."""

    models: tuple[StepModel, ...]
    weights: tuple[float, ...]
    """Weight of each model's time in the objective, 1/s."""
    constraints: tuple[Constraint, ...]
    price: Vector | None = None
    """[D] added to the objective for a byte a second; none where only time counts."""
    limits: tuple[float | None, ...] = ()
    """Longest time of each model, s; empty where there is none."""

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return self.models[0].dimensions

    def value(self, bandwidth: Sequence[float] | Vector) -> float:
        """The objective."""
        times = sum(weight * model.time(bandwidth) for weight, model in self._pairs() if weight)
        return times + (float(np.dot(self.price, bandwidth)) if self.price is not None else 0.0)

    def _pairs(self) -> list[tuple[float, StepModel]]:
        return list(zip(self.weights, self.models, strict=True))


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best bandwidths, and how it is known that there are no better ones."""

    bandwidth: Vector
    """[D] bytes a second."""
    value: float
    bound: float
    """No feasible bandwidths have a smaller objective than this."""
    marginal: Vector
    """[D] by how much the objective falls for another byte a second in a dimension that costs and
    displaces nothing."""
    multipliers: dict[str, float] = field(default_factory=dict)
    """Decrease of the objective for each constraint when its limit is one byte a second (or one
    unit of what it limits) higher."""

    @property
    def gap(self) -> float:
        """Duality gap over the objective."""
        return max(0.0, self.value - self.bound) / abs(self.value) if self.value else 0.0


class Solution(NamedTuple):
    """Answer of the solver."""

    status: str
    x: list[float]
    """Variables."""
    z: list[float]
    """Multipliers of the rows."""


class NoSolution(Exception):
    """There are no such bandwidths (`infeasible.conflict` says why), or the solver failed."""


def optimise(question: Question) -> Optimum:
    """The optimum. Raises `NoSolution`."""
    units, span = _units(question)
    best = _solved(question, np.full(question.dimensions, units), span)
    if best.gap > _FINE:  # again, in units in which the answer is near 1
        floor = float(np.max(best.bandwidth)) * 1e-9
        again = _solved(question, np.maximum(best.bandwidth, floor), max(best.value, 1e-12))
        value, bound = min(best.value, again.value), max(best.bound, again.bound)
        best = again if again.value <= best.value else best
        best = Optimum(best.bandwidth, value, min(value, bound), again.marginal, again.multipliers)
    return best


def _solved(question: Question, band: Vector, span: float) -> Optimum:
    form = _Form(question, band, span)
    solved = form.solve()
    bandwidth = form.bandwidth(solved)
    duals = form.duals(solved)
    load = duals.load(question)
    bound = _bound(question, duals, load)
    with np.errstate(divide="ignore", invalid="ignore"):
        marginal = np.where(load > 0, load / bandwidth**2, 0.0)
    value = question.value(bandwidth)
    prices: dict[str, float] = {}
    for each, price in zip(question.constraints, duals.constraints.tolist(), strict=True):
        prices[each.name] = prices.get(each.name, 0.0) + price
    return Optimum(bandwidth, value, min(bound, value), marginal, prices)


@dataclass(eq=False)
class _Duals:
    """Multipliers, in the question's own units."""

    times: list[float]
    """Multiplier of each model: its weight, or more where its time is limited."""
    lines: list[list[Vector]]
    """Multipliers of the lines, for each model and part, [K]."""
    terms: list[Vector]
    """Multipliers of the terms, for each model, [G, D]."""
    constraints: Vector

    def load(self, question: Question) -> Vector:
        """[D] bytes that weigh on each dimension."""
        found = np.zeros(question.dimensions)
        for model, terms in zip(question.models, self.terms, strict=True):
            found += (_filled(terms, model) * model.loads).sum(axis=0)
        return found


def _filled(terms: Vector, model: StepModel) -> Vector:
    """[G, D] how much of each term's work on each dimension the multipliers of its rows add up
    to."""
    outer = terms.sum(axis=1, keepdims=True) - terms.cumsum(axis=1)
    found: Vector = terms + model.fill * outer
    return found


def _bound(question: Question, duals: _Duals, load: Vector) -> float:
    """The dual objective, a lower bound of the primal one; minus infinity where the multipliers
    prove nothing."""
    total = 0.0
    for index, model in enumerate(question.models):
        total += duals.times[index] * model.compute
        total += sum(
            float(own @ each.offsets)
            for own, each in zip(duals.lines[index], model.parts, strict=True)
        )
        total += float((_filled(duals.terms[index], model) * model.fixed).sum())
        limit = question.limits[index] if question.limits else None
        if limit is not None:
            total -= max(0.0, duals.times[index] - question.weights[index]) * limit
    matrix = np.array([each.coefficients for each in question.constraints]).reshape(
        -1, question.dimensions
    )
    limits = np.array([each.limit for each in question.constraints])
    multipliers = _priced(duals.constraints, matrix, question)
    prices = matrix.T @ multipliers + (question.price if question.price is not None else 0.0)
    if ((prices < 0) & (load >= 0)).any():
        return -math.inf
    return total - float(limits @ multipliers) + float((2 * np.sqrt(load * prices)).sum())


def _priced(multipliers: Vector, matrix: Vector, question: Question) -> Vector:
    """Multipliers under which no dimension has a negative price: rounding is mended by a limit that
    all share."""
    own = question.price if question.price is not None else np.zeros(question.dimensions)
    prices = matrix.T @ multipliers + own
    if (prices >= 0).all():
        return multipliers
    whole = [index for index, row in enumerate(matrix) if np.all(row > 0)]
    if not whole:
        return multipliers
    mended = multipliers.copy()
    mended[whole[0]] += float(np.max(-prices / matrix[whole[0]])) * (1 + 1e-12)
    return mended


class _Rows:
    """The rows of the program, which depend on neither prices nor weights.

    Columns: bw [D], u [D], t of every model [G], its x [P], T [W], in units that make all of them
    near 1."""

    def __init__(
        self,
        models: tuple[StepModel, ...],
        constraints: tuple[Constraint, ...],
        limits: tuple[float | None, ...],
        band: tuple[float, ...],
        span: float,
    ) -> None:
        self.models, self.constraints, self.limits = models, constraints, limits
        self.band, self.span, self.dims = band, span, len(band)
        terms = [len(model.terms) for model in models]
        parts = [len(model.parts) for model in models]
        self.first_term = 2 * self.dims + np.cumsum([0, *terms])
        self.first_part = int(self.first_term[-1]) + np.cumsum([0, *parts])
        self.first_time = int(self.first_part[-1])
        self.columns = self.first_time + len(models)
        self.used = np.any([np.any(model.loads > 0, axis=0) for model in models], axis=0)
        self.sizes = [self._size(each) for each in constraints]
        self.entries: list[tuple[int, int, float]] = []
        """Row, column and value of the coefficients."""
        self.right: list[float] = []
        equal = self._bandwidth_rows(True)
        more = self._bandwidth_rows(False) + self._floors() + self._time_rows()
        self.counts = (equal, more, self._hyperbolas())
        """Equations, inequalities and cones."""

    def _bandwidth_rows(self, equal: bool) -> int:
        chosen = [
            (each, size)
            for each, size in zip(self.constraints, self.sizes, strict=True)
            if each.equal is equal
        ]
        for each, size in chosen:
            row = {
                d: value * self.band[d] / size for d, value in enumerate(each.coefficients) if value
            }
            self._add(row, each.limit / size)
        return len(chosen)

    def _size(self, constraint: Constraint) -> float:
        """Divisor of a constraint's row."""
        scaled = np.array(constraint.coefficients) * np.array(self.band)
        return float(np.max(np.abs(scaled))) or 1.0

    def _floors(self) -> int:
        for d in range(self.dims):
            self._add({d: -1.0}, 0.0)
        return self.dims

    def _time_rows(self) -> int:
        before = len(self.right)
        for index, model in enumerate(self.models):
            time, first, part = (
                self.first_time + index,
                int(self.first_term[index]),
                int(self.first_part[index]),
            )
            held = {part + p: 1.0 for p in range(len(model.parts))}
            self._add({**held, time: -1.0}, -model.compute / self.span)
            for p, each in enumerate(model.parts):
                for offset, counts in zip(each.offsets.tolist(), each.counts.tolist(), strict=True):
                    row = {first + g: value for g, value in enumerate(counts) if value}
                    self._add({**row, part + p: -1.0}, -offset / self.span)
            for g, loads in enumerate(model.loads.tolist()):
                for d in range(self.dims):
                    self._add(*self._term_row(model, g, d, loads, first + g))
            if self.limits and self.limits[index] is not None:
                self._add({time: 1.0}, float(self.limits[index] or 0.0) / self.span)
        return len(self.right) - before

    def _term_row(
        self, model: StepModel, g: int, d: int, loads: list[float], time: int
    ) -> tuple[dict[int, float], float]:
        """Time of a term if dimension `d` is the slowest."""
        shares = [1.0 if e == d else model.fill if e < d else 0.0 for e in range(self.dims)]
        row = {
            self.dims + e: loads[e] * share / self.band[e] / self.span
            for e, share in enumerate(shares)
            if loads[e] * share
        }
        return {**row, time: -1.0}, -float(np.dot(model.fixed[g], shares)) / self.span

    def _hyperbolas(self) -> int:
        """`bw u >= 1` as `|(bw - u, 2)| <= bw + u`, for the dimensions that carry anything."""
        dims = [d for d in range(self.dims) if self.used[d]]
        for d in dims:
            self._add({d: -1.0, self.dims + d: -1.0}, 0.0)
            self._add({d: -1.0, self.dims + d: 1.0}, 0.0)
            self._add({}, 2.0)
        return len(dims)

    def _add(self, row: dict[int, float], right: float) -> None:
        index = len(self.right)
        self.entries += [(index, column, value) for column, value in row.items()]
        self.right.append(right)


_rows = lru_cache(8)(_Rows)
"""Rows of the latest questions: a front asks one with many prices."""


class _Form:
    """The program of a question, in units that make all variables near 1."""

    def __init__(self, question: Question, band: Vector, span: float) -> None:
        self.question, self.band, self.span = question, band, span
        self.dims, self.size = question.dimensions, 1.0
        self.rows = _rows(
            question.models, question.constraints, question.limits, tuple(band.tolist()), span
        )

    def solve(self) -> Solution:
        """Runs the solver. Raises `NoSolution` unless it found an optimum."""
        rows, objective = self.rows, self._objective().tolist()
        solved = Solution(*_core.cones(objective, rows.entries, rows.right, rows.counts))
        if not np.isfinite(solved.x).all() or "Infeasible" in solved.status:
            raise NoSolution(solved.status)
        return solved

    def bandwidth(self, solved: Solution) -> Vector:
        """[D] bytes a second, within limits that all dimensions share."""
        found: Vector = np.maximum(np.array(solved.x[: self.dims]), 0.0) * self.band
        for each in self.question.constraints:
            taken = float(np.dot(each.coefficients, found))
            if min(each.coefficients) > 0 and (each.equal or taken > each.limit) and taken > 0:
                found *= each.limit / taken
        return found

    def duals(self, solved: Solution) -> _Duals:
        """The multipliers, made feasible: none negative, those of a model's terms adding up to
        those of its paths."""
        z = np.array(solved.z) * self.size
        equal = [index for index, each in enumerate(self.question.constraints) if each.equal]
        less = [index for index, each in enumerate(self.question.constraints) if not each.equal]
        prices = np.zeros(len(self.question.constraints))
        prices[equal] = z[: len(equal)]
        prices[less] = np.maximum(z[len(equal) : len(equal) + len(less)], 0.0)
        prices = prices * self.span / np.array(self.rows.sizes)
        at = len(equal) + len(less) + self.dims
        found = _Duals([], [], [], prices)
        for index, model in enumerate(self.question.models):
            limited = bool(self.question.limits) and self.question.limits[index] is not None
            weight = self.question.weights[index]
            found.times.append(max(weight, float(z[at])) if limited else weight)
            at += 1
            own: list[Vector] = []
            for part in model.parts:
                own.append(_summing(z[at : at + len(part.offsets)], found.times[-1]))
                at += len(part.offsets)
            found.lines.append(own)
            width = len(model.terms)
            each = np.maximum(z[at : at + width * self.dims].reshape(width, self.dims), 0.0)
            at += width * self.dims + (1 if limited else 0)
            held = sum(
                (line @ part.counts for line, part in zip(own, model.parts, strict=True)),
                np.zeros(width),
            )
            found.terms.append(_balanced(each, held))
        return found

    def _objective(self) -> Vector:
        found = np.zeros(self.rows.columns)
        if self.question.price is not None:
            found[: self.dims] = self.question.price * self.band / self.span
        found[self.rows.first_time :] = self.question.weights
        self.size = float(np.abs(found).max()) or 1.0
        scaled: Vector = found / self.size
        return scaled


def _units(question: Question) -> tuple[float, float]:
    """A bandwidth and a time that are typical of the question: its tightest limit, and its loads
    over that."""
    limits = [
        each.limit / sum(each.coefficients)
        for each in question.constraints
        if min(each.coefficients) > 0 and each.limit > 0
    ]
    load = sum(float(np.sum(model.loads)) for model in question.models)
    seconds = max((model.compute for model in question.models), default=0.0)
    times = [each for each in question.limits if each]
    if limits:
        band = min(limits)
    elif times:
        band = max(load, 1.0) / min(times)
    else:
        single = [each.limit for each in question.constraints if each.limit > 0]
        band = min(single, default=1e9)
    return band, max(load / band, seconds, 1e-12)


def _summing(lines: Vector, total: float) -> Vector:
    """Multipliers of a part's lines: they add up to that of its model."""
    kept: Vector = np.maximum(lines, 0.0)
    whole = float(kept.sum())
    return kept * (total / whole) if whole > 0 else np.full(len(kept), total / len(kept))


def _balanced(terms: Vector, wanted: Vector) -> Vector:
    """Multipliers of a term's dimensions: they add up to what the paths hold of the term."""
    sums = terms.sum(axis=1, keepdims=True)
    shares = np.where(sums > 0, terms, 1.0)
    found: Vector = shares / shares.sum(axis=1, keepdims=True) * wanted[:, None]
    return found
