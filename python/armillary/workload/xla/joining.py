"""Steps that become one: sums that products add themselves, and collectives that are combined.

    dot + add           one product that adds to a matrix, if nothing else takes the dot
    collectives         of one kind, with the same groups, that don't wait for each other: one, up
                        to a number of bytes of the larger side; in each run of a loop by itself

Here: these two, and the order of the steps when some became one. Not here: chains of kernels
(`fusing.py`).

Source: of openxla/xla, GemmRewriter (beta = 1), AllReduceCombiner, AllGatherCombiner and
ReduceScatterCombiner."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .flows import VIEWS, Flow
from .steps import Exchange, Step, Steps, Work

_COMBINED = ("all_reduce", "all_gather", "reduce_scatter")


def ordered(
    steps: Sequence[Step], group: Sequence[int], made: Mapping[int, Step | None]
) -> tuple[list[Step], dict[int, set[int]]]:
    """All steps, each behind those that it waits for, else in their order. `group` has the first
    step of what each belongs to, and `made` what that became. What waits for nothing but a name
    waits for what that one waits for. Also the new steps that are the end of each group."""
    parts: dict[int, list[int]] = {}
    for number, first in enumerate(group):
        parts.setdefault(first, []).append(number)
    waits = {
        first: {group[each] for number in numbers for each in steps[number].after} - {first}
        for first, numbers in parts.items()
    }
    followers: dict[int, list[int]] = {first: [] for first in parts}
    for first, before in waits.items():
        for each in before:
            followers[each].append(first)
    left = {first: len(before) for first, before in waits.items()}
    ready = [first for first, count in left.items() if not count]
    heapq.heapify(ready)
    found: list[Step] = []
    ends: dict[int, set[int]] = {}
    while ready:
        first = heapq.heappop(ready)
        after = {end for each in waits[first] for end in ends[each]}
        step = made[first] if first in made else steps[first]
        if step is None:
            ends[first] = after
        else:
            ends[first] = {len(found)}
            found.append(replace(step, after=tuple(sorted(after))))
        for each in followers[first]:
            left[each] -= 1
            if not left[each]:
                heapq.heappush(ready, each)
    return found, ends


def accumulated(found: Steps) -> Steps:
    """With sums in the products that they add to something."""
    users: dict[int, list[int]] = {}
    for number, flow in found.flows.items():
        for each in {maker for one in flow.inputs for maker in one.steps}:
            users.setdefault(each, []).append(number)
    taken = set(found.results)
    group = list(range(len(found.steps)))
    made: dict[int, Step | None] = {}
    flows = dict(found.flows)
    for number, flow in found.flows.items():
        if flow.opcode != "add" or len(flow.inputs) != 2:
            continue
        for at, one in enumerate(flow.inputs):
            path = _product(found, one.steps, users, taken)
            if path is None or group[path[-1]] != path[-1]:
                continue
            product = found.flows[path[-1]]
            other = flow.inputs[1 - at]
            if product.bytes != flow.bytes or other.bytes != flow.bytes:
                continue
            for each in path:
                group[each] = number
            made[number] = replace(found.steps[path[-1]])
            flows[number] = Flow("dot", flow.bytes, (*product.inputs, other))
            cost = _cost(found.steps[number])
            row = found.computed["other kernels"]
            row.count, row.bytes = row.count - 1, row.bytes - cost[1]
            row.operations -= cost[0]
            found.computed["products"].operations += cost[0]
            break
    steps, ends = ordered(found.steps, group, made)

    def renamed(makers: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted({end for each in makers for end in ends[group[each]]}))

    kept = {
        min(ends[number]): replace(
            flow,
            inputs=tuple(replace(one, steps=renamed(one.steps)) for one in flow.inputs),
        )
        for number, flow in flows.items()
        if group[number] == number
    }
    return replace(found, steps=steps, flows=kept, results=renamed(found.results))


def _cost(step: Step) -> tuple[int, int]:
    return (step.cost.operations, step.cost.bytes) if isinstance(step, Work) else (0, 0)


def _product(
    found: Steps, makers: Sequence[int], users: Mapping[int, list[int]], taken: set[int]
) -> list[int] | None:
    """The way back from an operand to a product over views, if nothing else takes any of them."""
    path: list[int] = []
    while len(makers) == 1:
        [number] = makers
        flow, step = found.flows.get(number), found.steps[number]
        if flow is None or len(users[number]) > 1 or number in taken:
            return None
        path.append(number)
        if flow.opcode == "dot" and isinstance(step, Work) and step.product is not None:
            return path
        if flow.opcode not in VIEWS:
            return None
        makers = [each for one in flow.inputs for each in one.steps]
    return None


def combined(found: Steps, most: int) -> Steps:
    """With collectives combined, up to `most` bytes. First by the number of
    collectives of the same kind and groups before them; if two such would then wait for each
    other, by that of all collectives before them."""
    for strict in (False, True):
        steps = _combined(found, most, strict)
        if steps is not None:
            return replace(found, steps=steps, flows={})
    return found


def _combined(found: Steps, most: int, strict: bool) -> list[Step] | None:
    group = list(range(len(found.steps)))
    made: dict[int, Step | None] = {}
    keys = {
        (step.kind, step.family)
        for step in found.steps
        if isinstance(step, Exchange) and step.kind in _COMBINED
    }
    for key in sorted(keys):
        depth = [0] * len(found.steps)
        open_: dict[tuple[int, int], tuple[int, int]] = {}
        for number, step in enumerate(found.steps):
            depth[number] = max((depth[each] for each in step.after), default=0)
            if not isinstance(step, Exchange):
                continue
            alike = (step.kind, step.family) == key
            depth[number] += strict or alike
            if not alike:
                continue
            ranks = len(found.families[step.family][0]) if step.kind == "all_gather" else 1
            place = step.run, depth[number]
            first, size = open_.get(place, (number, 0))
            size += step.bytes * ranks
            if size > most:
                first, size = number, step.bytes * ranks
            open_[place] = (first, size)
            group[number] = first
            before = made.get(first) or found.steps[first]
            if first != number and isinstance(before, Exchange):
                made[first] = replace(before, bytes=before.bytes + step.bytes)
    steps, _ = ordered(found.steps, group, made)
    return steps if len(steps) == len(set(group)) else None
