"""The order of steps that wait for their operands only, as a compiler that hides communication
would choose it.

    kernels      in the order in which their operands can be there, if nothing else ran
    parameters   gathered one after the other, in the order in which kernels take them

The times behind this order are those of a round number of operations and bytes a second. They
decide nothing else: the platform times each step.

Here: the order. Not here: which steps there are (`fusing.py`, `joining.py`).

Source: openxla/xla, xla/service/latency_hiding_scheduler.h (`LatencyHidingScheduler`), which
begins collectives as early as their results are waited for."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from .steps import Exchange, Step, Steps, Work

_OPERATIONS, _BYTES, _SENT = 1e15, 3e12, 4e11
"""Operations, bytes that kernels move and bytes that collectives move in a second."""


def arranged(found: Steps) -> Steps:
    """The same steps, in the order that a compiler would choose."""
    steps, begins = found.steps, _begins(found.steps)
    before = _gathered(found, begins)
    waits = [{*step.after, *before.get(number, ())} for number, step in enumerate(steps)]
    order = _sorted(waits, begins)
    place = {old: new for new, old in enumerate(order)}
    made = [
        replace(steps[old], after=tuple(sorted(place[at] for at in waits[old]))) for old in order
    ]
    return replace(found, steps=made, flows={}, results=())


def _sorted(waits: Sequence[set[int]], begins: Sequence[float]) -> list[int]:
    """All steps, each behind what it waits for, else by the time when it could begin."""
    followers: list[list[int]] = [[] for _ in waits]
    for number, before in enumerate(waits):
        for each in before:
            followers[each].append(number)
    left = [len(before) for before in waits]
    ready = [(begins[number], number) for number, count in enumerate(left) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(number)
        for each in followers[number]:
            left[each] -= 1
            if not left[each]:
                heapq.heappush(ready, (begins[each], each))
    return order


def _time(step: Step) -> float:
    if isinstance(step, Work):
        return max(step.cost.operations / _OPERATIONS, step.cost.bytes / _BYTES) + 1e-9
    return step.bytes / _SENT + 1e-9


def _begins(steps: list[Step]) -> list[float]:
    """When each step could begin, s."""
    ends: list[float] = []
    begins: list[float] = []
    for step in steps:
        begins.append(max((ends[each] for each in step.after), default=0.0))
        ends.append(begins[-1] + _time(step))
    return begins


def _gathered(found: Steps, begins: list[float]) -> dict[int, tuple[int, ...]]:
    """Gathers of parameters also wait for the one before, by the first kernel that waits."""
    steps = found.steps
    taken = [float("inf")] * len(steps)
    given: list[bool] = []
    for number, step in enumerate(steps):
        for each in step.after:
            taken[each] = min(taken[each], begins[number])
        alone = all(given[each] for each in step.after)
        given.append(alone and isinstance(step, Work) and step.product is None)
    waits: dict[int, tuple[int, ...]] = {}
    last: dict[int, int] = {}
    for number in sorted(range(len(steps)), key=lambda each: (taken[each], each)):
        step = steps[number]
        if not isinstance(step, Exchange) or step.kind != "all_gather":
            continue
        if all(given[each] for each in step.after):
            if step.family in last:
                waits[number] = (last[step.family],)
            last[step.family] = number
    return waits
