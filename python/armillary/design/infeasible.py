"""Which constraints contradict one another: an irreducible set, by name.

A set is irreducible when it can't be fulfilled but would be without any one of its members. Found by deletion (Chinneck
and Dravnieks, ORSA Journal on Computing 1991): leave out one member after another, and keep out those without which it
still can't. Linear members are decided by a linear program (HiGHS), time limits by the convex one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from .model import StepModel, slowest
from .optimal import Constraint, NoSolution, Question, optimise

_EASE = 1e-9
"""By how much, relatively, a time may exceed its limit before that counts."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A workload's longest time, s."""

    name: str
    model: StepModel
    seconds: float


def feasible(constraints: Sequence[Constraint], dimensions: int, limits: Sequence[Limit] = ()) -> bool:
    """Whether there are bandwidths that fulfil everything."""
    if not _linear(constraints, dimensions):
        return False
    if not limits:
        return True
    model = slowest([each.model for each in limits], [1 / each.seconds for each in limits])
    try:
        least = _fastest(model, constraints, dimensions)
    except NoSolution:
        return False
    return least <= 1 + _EASE


def conflict(constraints: Sequence[Constraint], dimensions: int, limits: Sequence[Limit] = ()) -> list[str]:
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


def _fastest(model: StepModel, constraints: Sequence[Constraint], dimensions: int) -> float:
    """The least time, which bandwidths without any limit only approach."""
    unlimited = [d for d in range(dimensions) if not any(each.coefficients[d] for each in constraints)]
    if len(unlimited) == dimensions:
        return float(np.max(model.seconds))
    huge = [
        Constraint("", tuple(float(d == at) for d in range(dimensions)), float(np.sum(model.loads)) * 1e12 + 1.0)
        for at in unlimited
    ]
    return optimise(Question((model,), (1.0,), (*constraints, *huge))).value


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
