"""Cost of stragglers: recorded steps against the same steps with equal operations.

The question and its measures are those of Lin et al., "Understanding Stragglers in Large Model
Training Using What-if Analysis" (OSDI 2025). An operation that waits for other ranks lasts from the
moment when the last of them has started. Without stragglers each operation lasts as long as its
kind does on average: the mean of passes, the median of communication, over all steps and ranks.
Every step is computed again (`straggler_order.py`) with the recorded durations, with equal ones,
and with those of a rank, a stage or a kind recorded and all others equal, or the other way
round."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .step_trace import ALL, ENDS, MESSAGES, SHARDED, Operation, StepTrace, read
from .straggler_order import Floats, Shape, shapes, together

SCHEMA = "armillary.stragglers/1"
_MEDIAN = (
    *MESSAGES,
    *SHARDED,
    *ENDS,
    *ALL,
    "layernorm-grads-all-reduce",
)
"""Kinds whose equal duration is the median: single messages may be late by much."""
_APART_S = 0.01
"""Clocks that differ by more say nothing of how long a transfer took."""
_ROOM = 2_000_000
"""Durations that are computed at a time."""
_MOST_RANKS = 4096
"""Most ranks that are looked at one by one."""


@dataclass(frozen=True)
class Part:
    """A rank, a stage, a data-parallel rank or a kind of operation."""

    name: str
    slowdown: float
    """Time of all steps over that without stragglers, if operations of this part alone last as
    recorded. Below 1 where they are faster than the average of their kind."""
    share: float
    """Part of the time lost to stragglers that equal operations of this part would save. Shares add
    up to less than 1 where several parts are slow at once."""


@dataclass(frozen=True)
class Step:
    """A recorded step; seconds."""

    number: int
    recorded_s: float
    slowdown: float
    """Time of the step over that without stragglers."""


@dataclass(frozen=True)
class Stragglers:
    """Cost of stragglers in recorded steps."""

    file: str
    dp: int
    stages: int
    chunks: int
    """Parts of the model on each stage."""
    operations: int
    recorded_s: float
    """Mean time of a step, as recorded."""
    replayed_s: float
    """Mean time with the recorded durations, where each operation starts as soon as it can."""
    ideal_s: float
    """Mean time without stragglers."""
    slowdown: float
    """`replayed_s` over `ideal_s`."""
    launch_slowdown: float
    """`recorded_s` over `replayed_s`: time in which nothing of the trace runs, such as launches and
    data loading."""
    steps: list[Step]
    """The slowest first."""
    kinds: list[Part]
    stages_by_slowdown: list[Part]
    dp_ranks: list[Part]
    ranks: list[Part]
    """Stages of data-parallel ranks, `dp 1, stage 3`; empty for more than 4,096."""
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"schema": SCHEMA, **asdict(self)}


def stragglers(trace: StepTrace | str | os.PathLike[str]) -> Stragglers:
    """Cost of stragglers in the steps of a trace, or of its file. Raises `InputError` for a file
    that is not a trace of steps."""
    if not isinstance(trace, StepTrace):
        trace = read(trace)
    every = [_Steps(trace, shape) for shape in shapes(trace)]
    equal = _equal(every)
    ideal = _total(every, equal, lambda _: False)
    replayed = _total(every, equal, lambda _: True)
    numbers = [step for each in every for step in each.shape.steps]
    recorded = {step: _recorded(trace.steps[step]) for step in numbers}

    def parts(name: Callable[[Operation], str], names: Sequence[str]) -> list[Part]:
        masks = [(each, alone) for each in names for alone in (True, False)]
        sums = _sums(every, equal, name, masks)
        lost = float(replayed.sum() - ideal.sum())
        found = []
        for at, each in enumerate(names):
            alone, without = sums[2 * at], sums[2 * at + 1]
            share = (float(replayed.sum()) - without) / lost if lost > 0 else 0.0
            found.append(Part(each, alone / float(ideal.sum()), share))
        return sorted(found, key=lambda part: (-part.slowdown, part.name))

    kinds = list(dict.fromkeys(_kind(each) for step in trace.steps.values() for each in step))
    ranks = [(dp, stage) for dp in range(trace.dp) for stage in range(trace.stages)]
    few = len(ranks) <= _MOST_RANKS
    count, total = len(numbers), float(ideal.sum())
    steps = [
        Step(step, recorded[step], float(replay / best))
        for step, replay, best in zip(numbers, replayed, ideal, strict=True)
    ]
    all_recorded = sum(recorded.values())
    return Stragglers(
        trace.file,
        trace.dp,
        trace.stages,
        trace.chunks,
        trace.operations,
        all_recorded / count,
        float(replayed.sum()) / count,
        total / count,
        float(replayed.sum()) / total if total else 1.0,
        all_recorded / float(replayed.sum()) if replayed.sum() else 1.0,
        sorted(steps, key=lambda step: (-step.slowdown, step.number)),
        parts(_kind, kinds),
        parts(lambda each: f"stage {each.stage}", [f"stage {n}" for n in range(trace.stages)]),
        parts(lambda each: f"dp {each.dp}", [f"dp {n}" for n in range(trace.dp)]),
        parts(_rank, [f"dp {dp}, stage {stage}" for dp, stage in ranks]) if few else [],
        [] if few else [f"{len(ranks):,} ranks: each by itself is left out"],
    )


def _kind(operation: Operation) -> str:
    """Kind of an operation; both sides of a transfer are one."""
    if operation.kind in MESSAGES:
        return operation.kind.partition("-")[0] + "-message"
    return operation.kind


def _rank(operation: Operation) -> str:
    return f"dp {operation.dp}, stage {operation.stage}"


def _recorded(operations: Sequence[Operation]) -> float:
    return max(each.end for each in operations) - min(each.start for each in operations)


class _Steps:
    """Steps of one structure with the durations of their operations [operations, steps]."""

    def __init__(self, trace: StepTrace, shape: Shape) -> None:
        self.shape = shape
        self.like = trace.steps[shape.steps[0]]
        starts = np.array([[each.start for each in trace.steps[step]] for step in shape.steps]).T
        ends = np.array([[each.end for each in trace.steps[step]] for step in shape.steps]).T
        for group in together(trace, self.like):
            if len(group) > 1:
                starts[group] = starts[group].max(axis=0)
        # Clocks of ranks differ a little; where they are far apart, nothing is known.
        lasted = ends - starts
        self.durations: Floats = np.where(lasted < -_APART_S, 0.0, lasted)


def _equal(every: Sequence[_Steps]) -> dict[str, float]:
    """Duration of each kind without stragglers; sends and receives have their own clocks."""
    found: dict[str, list[Floats]] = defaultdict(list)
    for each in every:
        rows: dict[str, list[int]] = defaultdict(list)
        for at, operation in enumerate(each.like):
            rows[operation.kind].append(at)
        for kind, mine in rows.items():
            found[kind].append(each.durations[mine].ravel())
    return {
        kind: float((np.median if kind in _MEDIAN else np.mean)(np.concatenate(parts)))
        for kind, parts in found.items()
    }


def _total(
    every: Sequence[_Steps], equal: dict[str, float], keeps: Callable[[Operation], bool]
) -> Floats:
    """Time of each step where some operations keep their recorded durations."""
    found = []
    for each in every:
        kept = np.array([keeps(operation) for operation in each.like])
        same = np.array([equal[operation.kind] for operation in each.like])
        found.append(each.shape.ends(np.where(kept[:, None], each.durations, same[:, None])))
    return np.concatenate(found)


def _sums(
    every: Sequence[_Steps],
    equal: dict[str, float],
    name: Callable[[Operation], str],
    masks: Sequence[tuple[str, bool]],
) -> list[float]:
    """Time of all steps for each mask: the operations of a name alone keep their durations, or all
    but these."""
    sums = np.zeros(len(masks))
    for each in every:
        operations, steps = each.durations.shape
        names = np.array([name(operation) for operation in each.like])
        same = np.array([equal[operation.kind] for operation in each.like])[:, None, None]
        room = max(1, _ROOM // (operations * steps))
        for first in range(0, len(masks), room):
            some = masks[first : first + room]
            kept = np.stack([(names == one) == alone for one, alone in some], axis=1)
            durations = np.where(kept[:, :, None], each.durations[:, None, :], same)
            sums[first : first + len(some)] += each.shape.ends(durations).sum(axis=-1)
    return [float(each) for each in sums]
