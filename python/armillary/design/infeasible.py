"""Which constraints contradict one another: an irreducible set, by name.

A set is irreducible when it can't be fulfilled but would be without any one of its members. Found
by deletion (Chinneck and Dravnieks, ORSA Journal on Computing 1991): leave out one member after
another, and keep out those without which it still can't. Linear members are decided by a linear
program (HiGHS), time limits by the convex one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from .model import StepModel
from .optimal import Constraint, NoSolution, Question, optimise

_EASE = 1e-7
"""Relative excess of a time over its limit that does not count yet."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A workload's longest time, s."""

    name: str
    model: StepModel
    seconds: float


def feasible(
    constraints: Sequence[Constraint], dimensions: int, limits: Sequence[Limit] = ()
) -> bool:
    """Whether there are bandwidths that fulfil everything."""
    if not _linear(constraints, dimensions):
        return False
    return not limits or _in_time(constraints, dimensions, limits)


def conflict(
    constraints: Sequence[Constraint], dimensions: int, limits: Sequence[Limit] = ()
) -> list[str]:
    """Names of an irreducible set of what can't be fulfilled together; empty where all can."""
    if feasible(constraints, dimensions, limits):
        return []
    kept: list[Constraint | Limit] = [*constraints, *limits]
    for each in list(kept):
        rest = [other for other in kept if other is not each]
        if not feasible(_constraints(rest), dimensions, _limits(rest)):
            kept = rest
    return list(dict.fromkeys(each.name for each in kept))


def _constraints(members: Sequence[Constraint | Limit]) -> list[Constraint]:
    return [each for each in members if isinstance(each, Constraint)]


def _limits(members: Sequence[Constraint | Limit]) -> list[Limit]:
    return [each for each in members if isinstance(each, Limit)]


def _in_time(constraints: Sequence[Constraint], dimensions: int, limits: Sequence[Limit]) -> bool:
    """Whether bandwidths within the constraints keep every time limit; those without a limit may be
    as large as need be."""
    models = tuple(each.model for each in limits)
    ample = sum(float(np.sum(each.model.loads)) / each.seconds for each in limits) * 1e6 + 1.0
    free = [d for d in range(dimensions) if not any(each.coefficients[d] for each in constraints)]
    huge = [Constraint("", tuple(float(d == at) for d in range(dimensions)), ample) for at in free]
    seconds = tuple(each.seconds * (1 + _EASE) for each in limits)
    weights = tuple(1 / each for each in seconds)
    try:
        times = optimise(Question(models, weights, (*constraints, *huge), limits=seconds))
    except NoSolution:
        return False
    return all(
        model.time(times.bandwidth) <= each * (1 + _EASE)
        for model, each in zip(models, seconds, strict=True)
    )


def _linear(constraints: Sequence[Constraint], dimensions: int) -> bool:
    """Whether there are bandwidths, none negative, that fulfil the constraints."""
    if not constraints:
        return True
    scale = max((abs(each.limit) for each in constraints), default=1.0) or 1.0
    less = [each for each in constraints if not each.equal]
    equal = [each for each in constraints if each.equal]
    found = linprog(
        np.zeros(dimensions),
        A_ub=[each.coefficients for each in less] or None,
        b_ub=[each.limit / scale for each in less] or None,
        A_eq=[each.coefficients for each in equal] or None,
        b_eq=[each.limit / scale for each in equal] or None,
        bounds=(0, None),
        method="highs",
    )
    return bool(found.status != 2)
