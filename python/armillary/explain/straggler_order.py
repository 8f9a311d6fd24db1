"""The order of operations in a recorded step, and when steps end.

Operations of a rank stand in streams: passes and what comes before and after them, messages of each
direction, and collectives of sharded parameters that run next to passes. An operation starts when
the one before it in its stream has ended, and what it needs: a pass its input, a message its pass,
a reduction the last pass of its part. A transfer or a collective begins when all of its sides have
started. Steps with equal structure are computed together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, Problem
from .step_trace import ALL, COMPUTE, ENDS, MESSAGES, SHARDED, Operation, StepTrace

Floats = NDArray[np.float64]


@dataclass
class Shape:
    """Steps of one structure: what waits for what, by numbers of operations in a step."""

    steps: list[int] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    """Operations that run together, in an order in which each comes behind what it waits for."""
    waits: list[list[int]] = field(default_factory=list)
    """Operations that each one waits for in its own rank."""

    def ends(self, durations: Floats) -> Floats:
        """When each step ends, by `durations` of operations [operations, ...]; seconds [...]."""
        ends = np.zeros_like(durations)
        for group in self.groups:
            before = {each for member in group for each in self.waits[member]}
            start = np.zeros(durations.shape[1:])
            for each in before:
                np.maximum(start, ends[each], out=start)
            for member in group:
                np.add(start, durations[member], out=ends[member])
        return np.asarray(ends.max(axis=0))


def shapes(trace: StepTrace) -> list[Shape]:
    """The structures of all steps. Steps with operations of equal names in an equal order share
    one. Raises `InputError` for a step that could not have run."""
    found: dict[tuple[object, ...], Shape] = {}
    for step, operations in trace.steps.items():
        key = tuple(
            (each.dp, each.stage, each.kind, each.number, each.chunk) for each in operations
        )
        shape = found.get(key)
        if shape is None:
            shape = found[key] = _shape(trace, operations)
            if sum(map(len, shape.groups)) < len(operations):
                said = "has operations that wait for one another in a circle"
                raise InputError([Problem(trace.file, f"step {step}", said, "as it was recorded")])
        shape.steps.append(step)
    return list(found.values())


def together(trace: StepTrace, operations: Sequence[Operation]) -> list[list[int]]:
    """Operations that run together: both sides of a transfer, and the ranks of a collective. Raises
    `InputError` for messages that do not belong to passes."""
    links = _links(trace, operations)
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    counts: dict[tuple[object, ...], int] = defaultdict(int)
    for at, each in enumerate(operations):
        alone = each.kind in MESSAGES and not links[at].moves
        # The order of a channel counts, not the number of the row.
        place = counts[each.dp, each.stage, each.kind]
        counts[each.dp, each.stage, each.kind] += not alone
        groups[("alone", at) if alone else _together(trace, each, place, at)].append(at)
    return list(groups.values())


def _together(trace: StepTrace, each: Operation, place: int, at: int) -> tuple[object, ...]:
    """A name that the operations of a group share."""
    if each.kind in MESSAGES:
        way, side = each.kind.split("-")
        ahead = 1 if way == "forward" else -1
        to = each.stage + (ahead if side == "send" else 0)
        return way, each.dp, to % trace.stages, place
    if each.kind in SHARDED:
        return each.kind, each.stage, place
    if each.kind in ENDS:
        return each.kind, each.dp, place
    return (each.kind, place) if each.kind in ALL else ("alone", at)


def _shape(trace: StepTrace, operations: Sequence[Operation]) -> Shape:
    ranks: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, each in enumerate(operations):
        ranks[each.dp, each.stage].append(at)
    found: dict[int, list[int]] = {}
    links = _links(trace, operations)
    for mine in ranks.values():
        found |= _waits(operations, mine, links)
    waits = [found[at] for at in range(len(operations))]
    groups = together(trace, operations)
    return Shape([], _ordered(groups, waits), waits)


def _waits(
    operations: Sequence[Operation], mine: Sequence[int], links: Mapping[int, _Link]
) -> dict[int, list[int]]:
    """The operations of a rank, in the order in which they start, with those that each waits for
    in this rank."""
    passes = [at for at in mine if operations[at].kind in COMPUTE]
    first = operations[passes[0]].start if passes else 0.0
    ended = max((operations[at].end for at in passes), default=0.0)
    gathered = [
        at for at in mine if operations[at].kind == SHARDED[0] and operations[at].start <= first
    ]
    receives = ("forward-recv", "backward-recv")
    received = {links[at].pass_: at for at in mine if operations[at].kind in receives}
    last: dict[str, int] = {}
    latest: dict[int, int] = {}
    found: dict[int, list[int]] = {}
    for at in mine:
        each = operations[at]
        before: list[int] = []
        stream = "passes"
        if each.kind in MESSAGES:
            stream = each.kind
            before = [links[at].pass_] if each.kind.endswith("send") else gathered[-1:]
        elif at in received:
            before = [received[at]]
        elif each.kind in SHARDED and first < each.start < ended:
            # It runs next to passes: a reduction behind the last pass of its part so far.
            stream = "sharded"
            behind = latest.get(each.chunk) if each.kind == SHARDED[1] else None
            before = [] if behind is None else [behind]
        elif each.kind not in COMPUTE and each.start >= ended and "sharded" in last:
            # The end of a step waits for the collectives that ran next to passes.
            before = [last["sharded"]]
        if each.kind in COMPUTE:
            latest[each.chunk] = at
        if stream in last:
            before.append(last[stream])
        last[stream] = at
        found[at] = before
    return found


class _Link(NamedTuple):
    """A message and its pass."""

    pass_: int
    moves: bool
    """Whether there is another side: the first part of the model gets nothing forward, and the last
    one nothing backward. Some programs record a message there, too."""


def _links(trace: StepTrace, operations: Sequence[Operation]) -> dict[int, _Link]:
    """The pass of each message. Raises `InputError` where their numbers do not fit."""
    last = trace.stages * trace.chunks - 1
    ends = {"forward": (0, last), "backward": (last, 0)}
    there: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    for at, each in enumerate(operations):
        there[each.dp, each.stage, each.kind].append(at)
    found: dict[int, _Link] = {}
    for dp, stage in {(each.dp, each.stage) for each in operations}:
        for kind in MESSAGES:
            way, side = kind.split("-")
            end = ends[way][0 if side == "recv" else 1]
            passes = there[dp, stage, f"{way}-compute"]
            moving = [at for at in passes if _part(trace, operations[at]) != end]
            messages = there[dp, stage, kind]
            if len(messages) == len(moving):
                pairs = list(zip(messages, moving, strict=True))
            elif len(messages) == len(passes):
                pairs = list(zip(messages, passes, strict=True))
            elif len(messages) == len(passes) - 1 and len(moving) < len(passes):
                pairs = list(zip(messages, passes[side == "recv" :], strict=False))
            else:
                place = f"data-parallel rank {dp}, stage {stage}"
                said = f"has {len(messages)} of {kind} in a step"
                wanted = f"{len(moving)}, one for each pass"
                raise InputError([Problem(trace.file, place, said, wanted)])
            moves = set(moving)
            found |= {message: _Link(at, at in moves) for message, at in pairs}
    return found


def _part(trace: StepTrace, each: Operation) -> int:
    """The part of the whole model that a pass goes through, from the first layer on."""
    return max(each.chunk, 0) * trace.stages + each.stage


def _ordered(groups: list[list[int]], waits: Sequence[Sequence[int]]) -> list[list[int]]:
    """The groups, each behind those that it waits for; without those that wait in a circle."""
    of = {member: number for number, group in enumerate(groups) for member in group}
    left = [0] * len(groups)
    behind: dict[int, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        before = {of[each] for member in group for each in waits[member]} - {number}
        left[number] = len(before)
        for each in before:
            behind[each].append(number)
    ready = [number for number in range(len(groups)) if not left[number]]
    order = []
    while ready:
        number = ready.pop()
        order.append(number)
        for each in behind[number]:
            left[each] -= 1
            if not left[each]:
                ready.append(each)
    return [groups[number] for number in order]
