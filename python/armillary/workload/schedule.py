"""The order in which a pipeline stage works through micro-batches, and the bubble it leaves.

Here: GPipe, 1F1B, interleaved 1F1B and ZB-H1 as lists of passes. Not here: what a pass consists of (`stage.py`).
Bubble over ideal time, p stages, m micro-batches, v chunks a stage: (p - 1) / (v m); ZB-H1 with equal passes (p - 1) /
(3 m). Sources: Huang et al. 2019 (arXiv:1811.06965); Narayanan et al. 2021 (arXiv:2104.04473, section 2.2); Qi et al.
2023 (arXiv:2401.10241).
"""

from __future__ import annotations

from typing import NamedTuple


class Pass(NamedTuple):
    """One pass of a micro-batch through one chunk of a stage."""

    kind: str
    """`F` forward; `B` backward, both gradients, or under ZB-H1 only those of the inputs; `W` gradients of the
    weights."""
    micro_batch: int
    chunk: int


def order(schedule: str, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> list[Pass]:
    """The passes of `stage` (from 0) in order."""
    if schedule == "interleaved":
        return _interleaved(stage, stages, micro_batches, chunks)
    forward = [Pass("F", i, 0) for i in range(micro_batches)]
    backward = [Pass("B", i, 0) for i in range(micro_batches)]
    if schedule == "gpipe":
        return forward + backward
    passes = _alternating(forward, backward, min(stages - 1 - stage, micro_batches))
    return passes if schedule == "1f1b" else _with_weights(passes, stage, micro_batches)


def _alternating(forward: list[Pass], backward: list[Pass], warm_up: int) -> list[Pass]:
    """`warm_up` forward passes, then one forward and one backward, then the backward passes left."""
    steady = [each for pair in zip(forward[warm_up:], backward, strict=False) for each in pair]
    return forward[:warm_up] + steady + backward[len(forward) - warm_up :]


def _with_weights(passes: list[Pass], stage: int, micro_batches: int) -> list[Pass]:
    """ZB-H1: weight gradients `stage` micro-batches late, so that every stage holds as many activations, the rest at
    the end."""
    found: list[Pass] = []
    for each in passes:
        found.append(each)
        if each.kind == "B" and each.micro_batch >= stage:
            found.append(Pass("W", each.micro_batch - stage, 0))
    return found + [Pass("W", i, 0) for i in range(max(0, micro_batches - stage), micro_batches)]


def _interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> list[Pass]:
    """Micro-batches go through a chunk in groups of as many as there are stages."""
    total = micro_batches * chunks
    round_ = stages * chunks

    def at(kind: str, k: int) -> Pass:
        chunk = k % round_ // stages
        return Pass(kind, k // round_ * stages + k % stages, chunk if kind == "F" else chunks - 1 - chunk)

    forward, backward = [at("F", k) for k in range(total)], [at("B", k) for k in range(total)]
    return _alternating(forward, backward, min(2 * (stages - 1 - stage) + (chunks - 1) * stages, total))


def bubble_over_ideal(schedule: str, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Idle time of a stage over the time it works, all passes equally long and messages free."""
    passes = 3 if schedule == "zb-h1" else 1
    return (stages - 1) / (passes * chunks * micro_batches)


def bubble_share(schedule: str, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Idle time of a stage over the whole step."""
    ratio = bubble_over_ideal(schedule, stages, micro_batches, chunks)
    return ratio / (1 + ratio)


def held(passes: list[Pass], sizes: list[int]) -> int:
    """Most that a stage holds at once if the forward pass of chunk `c` leaves `sizes[c]` for its last backward pass to
    free."""
    last = "W" if any(each.kind == "W" for each in passes) else "B"
    now = most = 0
    for each in passes:
        now += sizes[each.chunk] if each.kind == "F" else -sizes[each.chunk] if each.kind == last else 0
        most = max(most, now)
    return most
