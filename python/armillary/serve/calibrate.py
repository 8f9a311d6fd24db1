"""Host times and rates of an engine from measured requests.

`calibrated` takes a load with some measured requests, and finds factors for the parts of
a step, and a time that each step takes in addition, so that the simulated load has the measured
times. What is made small are logarithms of simulated over measured times, to the first token and to
the end. Every factor is drawn towards 1 as if it had been measured with an error of `PRIOR`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..errors import InputError, Problem
from .deployment import Engines
from .iteration import Term
from .load import Load
from .run import Served, serve

PARTS = ("few_rows", "many_rows", "decode", "prefill", "step")
"""Values that are found: factors of products of few and of many tokens, of attention in decode and
of prompts; and milliseconds that each step takes in addition."""
PRIOR = (0.3, 0.3, 0.3, 0.3, 2.0)
"""Errors of the parts before any measurement."""
NOISE = (0.05, 0.01)
"""Errors of a measured time to the first token, which depends on the moment of an arrival, and of
one to the end."""
FEW, MANY = 64.0, 1024.0
"""Tokens of a step up to which, and from which on, the factors of products hold."""
HALVINGS = 7
"""How often the steps of the search are halved."""
CALIBRATED = "calibrated"
"""Name of the part of a step that a calibration adds."""
LEAST = 5
"""Requests that must be measured."""
_START = (1.0, 1.0, 1.0, 1.0, 0.0)
_STEPS = (0.1, 0.1, 0.1, 0.1, 1.0)
_BOUNDS = ((0.3, 3.0),) * 4 + ((-20.0, 100.0),)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Engines with the times that were found."""

    engines: Engines
    parts: dict[str, float]
    """By name of `PARTS`."""
    requests: int
    """Measured requests."""
    before: float
    """Root mean square of the logarithms of simulated over measured times, before."""
    after: float


def calibrated(engines: Engines, load: Load, requests: int | None = None) -> Calibrated:
    """Engines whose simulated times are those of the first `requests` requests of a load, all that
    were measured if `None`.

    Raises:
        InputError: fewer than 5 measured requests.
    """
    count = len(load.measured) if requests is None else min(requests, len(load.measured))
    if count < LEAST:
        message = f"{count} measured requests"
        raise InputError([Problem("", "requests", message, f"{LEAST} or more")])
    measured = load.measured[:count]

    def residuals(values: Sequence[float]) -> list[float]:
        return _residuals(serve(with_parts(engines, values), load), measured)

    def cost(values: Sequence[float]) -> float:
        return _cost(residuals(values), values)

    before = residuals(_START)
    values = _searched(cost, _START)
    found = residuals(values)
    parts = dict(zip(PARTS, values, strict=True))
    made = with_parts(engines, values)
    return Calibrated(made, parts, count, _root(before), _root(found))


def with_parts(engines: Engines, values: Sequence[float]) -> Engines:
    """Engines with other values of `PARTS`."""
    few, many, decode, prefill, step = values
    terms = [_scaled(term, few, many, decode, prefill) for term in engines.terms]
    terms.append(Term(CALIBRATED, "sequences", (0.0, 1.0), (0.0, step / 1e3)))
    return replace(engines, terms=tuple(terms))


def _scaled(term: Term, few: float, many: float, decode: float, prefill: float) -> Term:
    if term.host:
        return term
    if term.kind in ("rows", "all_rows"):
        seconds = [
            time * _between(rows, few, many)
            for rows, time in zip(term.at, term.seconds, strict=True)
        ]
        return replace(term, seconds=tuple(seconds))
    factor = {"decode": decode, "prefill": prefill, "sampled": few}.get(term.kind, 1.0)
    return replace(term, seconds=tuple(factor * time for time in term.seconds))


def _between(rows: float, few: float, many: float) -> float:
    part = math.log(max(rows, FEW) / FEW) / math.log(MANY / FEW)
    return few + min(part, 1.0) * (many - few)


def _residuals(served: Served, measured: Sequence[tuple[float, float]]) -> list[float]:
    """Logarithms of simulated over measured times: to the first token, and after it."""
    found = []
    for answer, (ttft, latency) in zip(served.answers, measured, strict=False):
        pairs = ((answer.ttft, ttft), (answer.latency, latency))
        found += [math.log(max(ours, 1e-9) / max(theirs, 1e-9)) for ours, theirs in pairs]
    return found


def _pulls(values: Sequence[float]) -> list[float]:
    return [
        (value - start) / prior for value, start, prior in zip(values, _START, PRIOR, strict=True)
    ]


def _cost(residuals: Sequence[float], values: Sequence[float]) -> float:
    near = sum(_loss(each / NOISE[at % 2]) for at, each in enumerate(residuals))
    return near + sum(each**2 for each in _pulls(values))


def _loss(error: float) -> float:
    """The square, and above two errors only the size."""
    return min(error**2, 4 * abs(error) - 4)


def _searched(cost: Callable[[Sequence[float]], float], start: Sequence[float]) -> list[float]:
    """The values of least cost by pattern search (Hooke and Jeeves 1961, Journal of the ACM 8(2)):
    each value up or down by its step, then the whole change again, then half the steps. Costs jump
    where a request moves to another step of the engine, so slopes are of little use."""
    values, least = list(start), cost(start)
    steps = list(_STEPS)
    for _ in range(HALVINGS):
        while True:
            tried, found = _explored(cost, values, least, steps)
            if found >= least:
                break
            while found < least:
                further = [2 * new - old for new, old in zip(tried, values, strict=True)]
                values, least = tried, found
                further = _bounded(further)
                tried, found = _explored(cost, further, cost(further), steps)
        steps = [step / 2 for step in steps]
    return values


def _explored(
    cost: Callable[[Sequence[float]], float],
    start: Sequence[float],
    least: float,
    steps: Sequence[float],
) -> tuple[list[float], float]:
    values = list(start)
    for at, step in enumerate(steps):
        for change in (step, -step):
            tried = list(values)
            tried[at] += change
            tried = _bounded(tried)
            found = cost(tried)
            if found < least:
                values, least = tried, found
                break
    return values, least


def _bounded(values: Sequence[float]) -> list[float]:
    return [min(max(value, low), high) for value, (low, high) in zip(values, _BOUNDS, strict=True)]


def _root(residuals: Sequence[float]) -> float:
    return math.sqrt(sum(each**2 for each in residuals) / len(residuals))
