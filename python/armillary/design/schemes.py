"""The paper's closed forms: EqualBW, MessageBW, SmartBW (LIBRA, arXiv:2109.11762 v1, equations (1)
to (7)), for one workload or a set.

Not here: the optimum under constraints (`optimal.py`).

    EqualBW    bw_d = B / D                               (1)
    MessageBW  bw_d = B M_d / sum M                       (2)
    SmartBW    x = BW(MP), y = BW(DP) minimise M/x + N/y  (3) where M, N are their bytes

Without a shared dimension x + y = B (4), so x : y = sqrt M : sqrt N (5), (6). With one, which
carries the shares r of M and s of N, (1 - r) x + (1 - s) y + max(r x, s y) = B (7), whose solution
the paper omits. The left side is convex and the objective falls in x and y, so the optimum is where
one of three cases holds:

    r x > s y   x : y = sqrt M : sqrt(N / (1 - s))        the budget is x + (1 - s) y
    r x < s y   x : y = sqrt(M / (1 - r)) : sqrt N        the budget is (1 - r) x + y
    otherwise   x : y = s : r                             the kink; the budget is x + (1 - s) y

The first two hold where their x and y fulfil their own condition; at most one does, and if none
does the optimum is the kink. Within MP and DP each dimension gets what lets all end together; the
shared one the larger of its two needs.

A set of workloads is one step that holds every collective of theirs as often as the objective
weighs it: M and N of equation (3) become a sum over all of them. Where they share more than the
closed forms allow, the program that equations (3), (4) and (7) state is solved by numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..estimate.step_model import StepModel, Vector, serial
from .optimal import Constraint, Question, optimise

SCHEMES = ("EqualBW", "MessageBW", "SmartBW")


def equal(budget: float, dimensions: int) -> Vector:
    """Equation (1): the same for every dimension."""
    return np.full(dimensions, budget / dimensions)


def message(budget: float, volume: Vector) -> Vector:
    """Equation (2): in proportion to the bytes through each dimension."""
    total = float(np.sum(volume))
    return equal(budget, len(volume)) if total == 0 else volume * (budget / total)


def plain(models: Sequence[StepModel], weights: Sequence[float]) -> StepModel:
    """A set of workloads as SmartBW sees it: all collectives of all steps one after another, no
    latencies."""
    terms = [
        (f"{model.name} {name}", weight * load)
        for model, weight in zip(models, weights, strict=True)
        for name, load in zip(model.terms[: model.own], model.loads, strict=False)
    ]
    compute = sum(weight * each.compute for each, weight in zip(models, weights, strict=True))
    return serial("all", compute, terms, models[0].dimensions)


def smart_of(budget: float, model: StepModel) -> Vector:
    """SmartBW of a `plain` step, in closed form where there is one. Raises `NoSolution`."""
    closed = smart(budget, model)
    if closed is not None:
        return closed
    whole = Constraint("total", (1.0,) * model.dimensions, budget, True)
    found = optimise(Question((model,), (1.0,), (whole,))).bandwidth
    return found * (budget / float(np.sum(found)))


def smart(budget: float, model: StepModel) -> Vector | None:
    """Equations (3) to (7); nothing where they don't apply.

    They do for terms one after another that share no dimension, and for two terms that share one.
    Latencies are not theirs."""
    if len(model.parts) > 1 or any(
        np.any(each.counts != 1) or np.any(each.offsets) for each in model.parts
    ):
        return None
    loads = model.loads[np.sum(model.loads, axis=1) > 0]
    shared = np.flatnonzero(np.sum(loads > 0, axis=0) > 1)
    if len(shared) == 0:
        return _apart(budget, loads)
    return _sharing(budget, loads, int(shared[0])) if len(shared) == 1 and len(loads) == 2 else None


def _apart(budget: float, loads: Vector) -> Vector:
    """Bandwidth of a term as the root of its bytes, within the term in proportion to them."""
    if len(loads) == 0:
        return equal(budget, loads.shape[1])
    totals = np.sum(loads, axis=1, keepdims=True)
    roots = np.sqrt(totals)
    found: Vector = np.sum(loads / totals * roots, axis=0) * (budget / float(np.sum(roots)))
    return found


def _sharing(budget: float, loads: Vector, shared: int) -> Vector:
    totals = np.sum(loads, axis=1)
    r, s = (float(each) for each in loads[:, shared] / totals)
    x, y = split(budget, float(totals[0]), float(totals[1]), r, s)
    found: Vector = loads[0] / totals[0] * x + loads[1] / totals[1] * y
    found[shared] = max(r * x, s * y)
    return found


def split(budget: float, first: float, second: float, r: float, s: float) -> tuple[float, float]:
    """`BW(MP)` and `BW(DP)` for `first` and `second` bytes, when one dimension carries the shares
    `r` and `s` of them, 0 < r, s <= 1."""
    if s < 1:
        x, y = _in_ratio(budget, math.sqrt(first), math.sqrt(second / (1 - s)), 1, 1 - s)
        if r * x > s * y:
            return x, y
    if r < 1:
        x, y = _in_ratio(budget, math.sqrt(first / (1 - r)), math.sqrt(second), 1 - r, 1)
        if r * x < s * y:
            return x, y
    return _in_ratio(budget, s, r, 1, 1 - s)


def _in_ratio(
    budget: float, x: float, y: float, price_x: float, price_y: float
) -> tuple[float, float]:
    """The multiples of `x` and `y` that use up the budget."""
    scale = budget / (price_x * x + price_y * y)
    return x * scale, y * scale
