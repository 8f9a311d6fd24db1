"""The front of speed, tokens for a dollar and memory of the fullest rank.

It has the simulated layouts that no other simulated one beats in all of them. For each machine,
a layout of less memory is simulated, too. What bounds prove of a point is its gap. Not here:
the best value of one objective (`joint.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..units import NS_PER_S, PS_PER_NS
from .contender import Contender
from .goal import Goal, dollars_per_ns
from .machine_plan import FrontPoint
from .result import Ranked

_FAR = 2.0
"""Layouts that are slower than the fastest by more than this factor are left out."""
Progress = Callable[[float], None]
Values = tuple[float, float, float]
"""Step, dollars for a step (0 where machines have no prices), bytes: less is better."""


def points(every: Sequence[Contender], goal: Goal, say: Progress) -> list[FrontPoint]:
    """The front, the fastest first."""
    simulated = [each for each in every if each.search and each.search.best]
    for at, each in enumerate(simulated):
        _more_points(each)
        say(at / len(simulated))
    priced = _priced(every)
    found = [
        (_values(each, one.step_ns, one.memory_bytes, priced), at, one)
        for at, each in enumerate(every)
        for one in _simulated(each)
    ]
    kept = [point for point in found if not any(_beats(other[0], point[0]) for other in found)]
    kept.sort(key=lambda point: (point[0], point[1], str(point[2].options)))
    return [_point(every, goal, *point) for point in kept]


def beaten(each: Contender, tried: Sequence[Contender]) -> bool:
    """Whether a simulated layout is better in everything than any layout of a machine can be."""
    priced = _priced([each, *tried])
    ideal = _values(each, each.search.fastest if each.search else math.inf, each.least, priced)
    return any(
        _beats(_values(other, one.step_ns, one.memory_bytes, priced), ideal)
        for other in tried
        for one in _simulated(other)
    )


def _simulated(each: Contender) -> list[Ranked]:
    return [*each.search.best, *each.search.others] if each.search else []


def _priced(every: Sequence[Contender]) -> bool:
    return all(each.machine.price is not None for each in every)


def _values(each: Contender, step_ns: float, memory: int, priced: bool) -> Values:
    return step_ns, dollars_per_ns(each.machine) * step_ns if priced else 0.0, memory


def _beats(one: Values, other: Values) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _more_points(each: Contender) -> None:
    """Simulates the layout with the smallest estimate of any memory, and of memory half-way (on a
    scale of ratios) from the least, if that is not far slower."""
    search = each.search
    assert search is not None
    most = search.limits[1 if search.job.near else 0]
    fastest = search.best[0].memory_bytes if search.most is None else most
    for limit in (fastest, math.isqrt(each.least * fastest)):
        row = search.within(limit, 1)[0][0]
        near = row[3] / PS_PER_NS <= _FAR * search.fastest
        if near and (row[0], row[1]) not in search.done | search.long:
            search.run(row)


def _point(
    every: Sequence[Contender], goal: Goal, values: Values, at: int, one: Ranked
) -> FrontPoint:
    step, dollars, memory = values
    gap = 0.0
    for each in every:
        if each.search is None or each.least > memory:
            continue
        rows, floor = each.search.within(one.memory_bytes, 1)
        open_ = (row[2] for row in rows if (row[0], row[1]) not in each.search.done)
        lowest = min((floor, *open_)) / PS_PER_NS
        faster = 1 - lowest / step
        cheaper = 1 - dollars_per_ns(each.machine) * lowest / dollars if dollars else faster
        gap = max(gap, min(faster, cheaper))
    machine = every[at].machine
    return FrontPoint(
        at,
        one.options,
        one.step_ns,
        goal.step_tokens / (one.step_ns / NS_PER_S),
        goal.tokens_per_dollar(machine, one.step_ns),
        one.memory_bytes,
        gap,
    )
