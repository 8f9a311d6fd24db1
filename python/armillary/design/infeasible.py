"""Which constraints contradict one another: an irreducible set, by name.

A set is irreducible when it can't be fulfilled but would be without any one of its members. Found
by deletion (Chinneck and Dravnieks, ORSA Journal on Computing 1991): leave out one member after
another, and keep out those without which it still can't. Linear members are decided by the least
excess over them that some bandwidths reach (the first phase of a linear program, which always has a
solution), time limits by the convex program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import _core
from ..estimate.step_model import StepModel, Vector
from .optimal import Constraint, NoSolution, Question, optimise

_EASE = 1e-7
"""Relative excess of a time over its limit, and of a sum of bandwidths over its own, that does not
count yet."""


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
    return _excess(*_scaled(constraints, dimensions)) <= _EASE


def _scaled(constraints: Sequence[Constraint], dimensions: int) -> tuple[Vector, Vector]:
    """Rows of `matrix . bw <= right`, in units in which limits and entries are near 1."""
    signs = [
        (each, sign) for each in constraints for sign in ((1.0, -1.0) if each.equal else (1.0,))
    ]
    matrix = np.array([sign * np.array(each.coefficients) for each, sign in signs])
    right = np.array([sign * each.limit for each, sign in signs])
    size = np.abs(right)
    limited = size > 0
    matrix[limited] /= size[limited, None]
    entries = np.max(np.abs(matrix[limited]), axis=0, initial=0.0)
    matrix /= np.where(entries > 0, entries, np.max(entries, initial=0.0) or 1.0)
    unlimited = matrix[~limited]
    least = np.min(np.where(unlimited, np.abs(unlimited), np.inf), axis=1, initial=np.inf)
    matrix[~limited] = unlimited / least[:, None]
    return matrix.reshape(-1, dimensions), np.sign(right)


def _excess(matrix: Vector, right: Vector) -> float:
    """Least excess over all rows that some bandwidths, none negative, reach."""
    height, width = matrix.shape
    entries = [(int(row), int(d), float(matrix[row, d])) for row, d in np.argwhere(matrix)]
    entries += [(row, width, -1.0) for row in range(height)]
    entries += [(height + column, column, -1.0) for column in range(width + 1)]
    limits = [*right.tolist(), *[0.0] * (width + 1)]
    _, x, _ = _core.cones([*[0.0] * width, 1.0], entries, limits, (0, len(limits), 0))
    bandwidth = np.maximum(np.array(x[:width]), 0.0)
    return float(np.max(matrix @ bandwidth - right, initial=0.0))
