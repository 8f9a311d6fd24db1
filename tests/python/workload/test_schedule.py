"""Pipeline schedules: complete, free of deadlock, with the bubble and the memory their papers
say."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from one_rank import held

from armillary.workload.schedule import Pass, bubble_over_ideal, bubble_share, order

CASES = [
    (schedule, stages, count * stages, chunks)
    for schedule, chunks in [
        ("gpipe", 1),
        ("1f1b", 1),
        ("zb-h1", 1),
        ("interleaved", 2),
        ("interleaved", 3),
    ]
    for stages in (2, 3, 4, 8)
    for count in (1, 2, 5)
]
SHORT = [
    (schedule, stages, micro_batches, 1)
    for schedule in ("gpipe", "1f1b", "zb-h1")
    for stages in (2, 3, 4, 8)
    for micro_batches in range(1, stages)
]
"""Pipelines with fewer micro-batches than stages."""


def makespan(
    schedule: str, stages: int, micro_batches: int, chunks: int
) -> tuple[Fraction, Fraction]:
    """Runs the orders with messages free: the time of the step, and that of one stage's work.

    Forward 1, input gradients 1, weight gradients 1 (a whole backward pass 2), of a chunk 1 /
    chunks of that."""
    split = schedule == "zb-h1"
    length = {"F": 1, "B": 1 if split else 2, "W": 1}
    orders = [order(schedule, stage, stages, micro_batches, chunks) for stage in range(stages)]
    done: dict[tuple[str, int, int], Fraction] = {}
    at, clock = [0] * stages, [Fraction(0)] * stages
    while any(at[s] < len(orders[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            while at[s] < len(orders[s]):
                each = orders[s][at[s]]
                ready = arrival(each, s, stages, chunks, done)
                if ready is None:
                    break
                clock[s] = max(clock[s], ready) + Fraction(length[each.kind], chunks)
                done[each.kind, each.micro_batch, each.chunk * stages + s] = clock[s]
                at[s] += 1
                moved = True
        assert moved, f"deadlock at {at}"
    work = sum((Fraction(length[each.kind], chunks) for each in orders[0]), Fraction(0))
    return max(clock), work


def arrival(
    each: Pass, stage: int, stages: int, chunks: int, done: dict[tuple[str, int, int], Fraction]
) -> Fraction | None:
    """When what a pass needs is there; `None` while it isn't."""
    part = each.chunk * stages + stage
    if each.kind == "F":
        return done.get(("F", each.micro_batch, part - 1)) if part else Fraction(0)
    if each.kind == "W":
        return done.get(("B", each.micro_batch, part))
    last = part == stages * chunks - 1
    return done.get(("F" if last else "B", each.micro_batch, part if last else part + 1))


@pytest.mark.parametrize(("schedule", "stages", "micro_batches", "chunks"), CASES + SHORT)
def test_every_pass_once_in_order(
    schedule: str, stages: int, micro_batches: int, chunks: int
) -> None:
    for stage in range(stages):
        passes = order(schedule, stage, stages, micro_batches, chunks)
        kinds = "FBW" if schedule == "zb-h1" else "FB"
        assert len(passes) == len(set(passes)) == len(kinds) * micro_batches * chunks
        place = {each: i for i, each in enumerate(passes)}
        for kind, after in pairwise(kinds):
            for i in range(micro_batches):
                for chunk in range(chunks):
                    assert place[Pass(kind, i, chunk)] < place[Pass(after, i, chunk)]


@pytest.mark.parametrize(("schedule", "stages", "micro_batches", "chunks"), CASES + SHORT)
def test_bubble(schedule: str, stages: int, micro_batches: int, chunks: int) -> None:
    """The formulas of Narayanan et al. 2021 (section 2.2) and Qi et al. 2023 (table 2), exactly."""
    time, work = makespan(schedule, stages, micro_batches, chunks)
    if schedule == "zb-h1" and micro_batches < 2 * stages:
        assert time - work >= stages - 1  # too few to fill it
        return
    ours = bubble_over_ideal(schedule, stages, micro_batches, chunks)
    found = float((time - work) / work)
    print(
        f"{schedule} p={stages} m={micro_batches} v={chunks}: bubble {found:.4f}, formula "
        f"{ours:.4f}"
    )
    assert found == pytest.approx(ours, abs=1e-12)
    assert float((time - work) / time) == pytest.approx(
        bubble_share(schedule, stages, micro_batches, chunks), abs=1e-12
    )


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_held_micro_batches(stages: int) -> None:
    """GPipe holds all, 1F1B as many as there are stages from here to the end, ZB-H1 as many as
    1F1B's first stage."""
    count = 4 * stages
    for stage in range(stages):
        assert held(order("gpipe", stage, stages, count), [1]) == count
        assert held(order("1f1b", stage, stages, count), [1]) == stages - stage
        assert held(order("zb-h1", stage, stages, count), [1]) == stages


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_no_more_is_held_than_there_is(schedule: str) -> None:
    """With fewer micro-batches than stages the first stages hold all of them at once."""
    for stages, count in ((4, 1), (4, 3), (8, 5)):
        most = [held(order(schedule, stage, stages, count), [1]) for stage in range(stages)]
        assert most == [
            min(stages - stage, count) if schedule == "1f1b" else count for stage in range(stages)
        ]


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("chunks", [2, 3])
def test_held_interleaved(stages: int, chunks: int) -> None:
    """Korthikanti et al. 2022, section 4.2.3: the first stage holds 1 + (p - 1) / (p v) times a
    model's layers."""
    passes = order("interleaved", 0, stages, 4 * stages, chunks)
    assert Fraction(held(passes, [1] * chunks), chunks * stages) == 1 + Fraction(
        stages - 1, stages * chunks
    )
