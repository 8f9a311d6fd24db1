"""The points of a study: grid and rows, or random draws. What constraints refuse is not among them.

A point is its place in this order and the values of its columns. Rows come first, then parameters
in the study's order, the last one running fastest. Random draws: each parameter has a stream of its
own, seeded by the study's seed and the parameter's name (SHA-256), so that another parameter
changes nothing of the rest. Not here: Optuna's points (`search.py`)."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator
from typing import Any

from ..errors import InputError, Problem
from ..units import counted
from . import domain
from .expression import ExpressionError, value
from .study import MEMORY, MOST_POINTS, SweepStudy

Values = tuple[Any, ...]
Point = tuple[int, Values]

_MISSES = 100_000
"""Random draws without a point, one after the other, after which there is none to be found."""


def admits(study: SweepStudy, values: Values) -> bool:
    """Whether every constraint holds. Raises `InputError` when one has no value."""
    if not study.constraints:
        return True
    scope = dict(study.scope)
    for name, index in study.aliases.items():
        scope[name] = value(values[index])
    for index, constraint, asks_memory in study.ordered:
        try:
            if asks_memory and not _weigh(study, values, scope):
                continue
            if not constraint.holds(scope):
                return False
        except ExpressionError as error:
            shown = ", ".join(
                f"{name}={each}" for name, each in zip(study.columns, values, strict=True)
            )
            place = study.source.place(("constraints", index))
            raise InputError(
                [Problem(study.source.file, place, f"{constraint.text!r} at {shown}: {error}")]
            ) from None
    return True


def _weigh(study: SweepStudy, values: Values, scope: dict[str, Any]) -> bool:
    """Puts what a point's workload needs of an NPU's memory into the scope, unless the workload
    can't be made: then the point has to fail and say why."""
    if MEMORY not in scope:
        try:
            scope[MEMORY] = study.footprints.of(study.at(values))
        except InputError:
            return False
    if scope[MEMORY] is None:
        raise ExpressionError("the memory that this workload needs is unknown before it runs")
    return True


def points(study: SweepStudy) -> tuple[list[Point], int]:
    """All points of a grid or a random search, and how many the constraints refused."""
    candidates = _grid(study) if study.search.kind == "grid" else _draws(study)
    found: list[Point] = []
    refused = misses = 0
    most = study.search.points or MOST_POINTS
    for values in candidates:
        if admits(study, values):
            found.append((len(found), values))
            misses = 0
        else:
            refused, misses = refused + 1, misses + 1
        if len(found) == most or (study.search.kind != "grid" and misses == _MISSES):
            break
    if not found or (study.search.points and len(found) < study.search.points):
        raise _too_few(study, len(found), refused)
    return found, refused


def _too_few(study: SweepStudy, found: int, refused: int) -> InputError:
    wanted = f" of the {study.search.points:,} points" if study.search.points else ""
    place = study.source.place(("constraints",))
    message = f"the constraints leave {found:,}{wanted} of {found + refused:,} combinations"
    return InputError(
        [Problem(study.source.file, place, message, "constraints that some combination fulfils")]
    )


def _grid(study: SweepStudy) -> Iterator[Values]:
    axes = [
        each.domain.grid()
        for each in study.parameters
        if not isinstance(each.domain, domain.Normal)
    ]
    rows = study.rows or ((),)
    size = len(rows)
    for axis in axes:
        size *= len(axis)
    if size > MOST_POINTS:
        problem = Problem(
            study.source.file,
            "parameters",
            f"make {counted(size, 'point')}",
            f"at most {MOST_POINTS:,}",
        )
        raise InputError([problem])
    for row in rows:
        for values in itertools.product(*axes):
            yield row + values


def stream(seed: int, name: str) -> random.Random:
    """The random stream of the parameter `name`."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def _draws(study: SweepStudy) -> Iterator[Values]:
    streams = [stream(study.base["seed"], each.name) for each in study.parameters]
    while True:
        yield tuple(
            each.domain.draw(drawn.random())
            for each, drawn in zip(study.parameters, streams, strict=True)
        )
