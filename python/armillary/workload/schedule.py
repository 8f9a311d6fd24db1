"""The order in which a pipeline stage works through micro-batches, and the bubble it leaves.

Here: GPipe, 1F1B, interleaved 1F1B, ZB-H1 and DualPipe as lists of passes. Not here: what a pass
consists of (`stage.py`), where the chunks of DualPipe are (`placement.py`).

Bubble over ideal time, with p stages, m micro-batches and v chunks in each stage:

    1F1B, interleaved    (p - 1) / (v m)
    ZB-H1                (p - 1) / (3 m), if its three passes take equal time
    DualPipe             (p / 2 - 1) (FB + B - 3 W) over m (F + B)

F, B and W are the times of a forward, a backward and a weight-gradient pass, FB that of a forward
and a backward pass at the same time. A forward pass may run at the same time as the backward pass
after it, of another micro-batch, so that the kernels of each hide the communication of the other.
A stage then begins with one more forward pass (interleaved), or with twice that number and one more
(1F1B). Both passes of a pair send their results at the end of the pair.

Sources: Huang et al. 2019 (arXiv:1811.06965); Narayanan et al. 2021 (arXiv:2104.04473, section
2.2); Qi et al. 2023 (arXiv:2401.10241); DeepSeek-AI 2024 (arXiv:2412.19437, section 3.2.1) and
deepseek-ai/DualPipe; NVIDIA/Megatron-LM (`pipeline_parallel/combined_1f1b.py`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Pass(NamedTuple):
    """One pass of a micro-batch through one chunk of a stage."""

    kind: str
    """`F` forward; `B` backward, both gradients, or only those of the inputs where a `W` pass
    follows; `W` gradients of the weights."""
    micro_batch: int
    chunk: int
    overlaps: bool = False
    """Runs side by side with the pass after it."""


def order(
    schedule: str,
    stage: int,
    stages: int,
    micro_batches: int,
    chunks: int = 1,
    overlap: bool = False,
) -> list[Pass]:
    """The passes of `stage` (from 0) in order, with `overlap` forward passes side by side with
    backward ones.

    Under `dualpipe` half of the micro-batches go through chunk 0 and half through chunk 1, numbered
    from 0 each."""
    if schedule == "dualpipe":
        passes = _both_ways(stage, stages, micro_batches // 2)
        return passes if overlap else [each._replace(overlaps=False) for each in passes]
    if schedule == "interleaved":
        return _interleaved(stage, stages, micro_batches, chunks, overlap)
    forward = [Pass("F", i, 0) for i in range(micro_batches)]
    backward = [Pass("B", i, 0) for i in range(micro_batches)]
    if schedule == "gpipe":
        return forward + backward
    ahead = 2 * (stages - 1 - stage) + 1 if overlap else stages - 1 - stage
    passes = _alternating(forward, backward, min(ahead, micro_batches), overlap)
    return passes if schedule == "1f1b" else _with_weights(passes, stage, micro_batches)


def _alternating(
    forward: list[Pass], backward: list[Pass], warm_up: int, overlap: bool
) -> list[Pass]:
    """`warm_up` forward passes, then one forward and one backward, then the backward passes
    left."""
    ahead = [each._replace(overlaps=overlap) for each in forward[warm_up:]]
    steady = [each for pair in zip(ahead, backward, strict=False) for each in pair]
    return forward[:warm_up] + steady + backward[len(forward) - warm_up :]


def _with_weights(passes: list[Pass], stage: int, micro_batches: int) -> list[Pass]:
    """ZB-H1: weight gradients `stage` micro-batches late, so that every stage holds the same number
    of activations; the rest come at the end."""
    found: list[Pass] = []
    for each in passes:
        found.append(each)
        if each.kind == "B" and each.micro_batch >= stage:
            found.append(Pass("W", each.micro_batch - stage, 0))
    return found + [Pass("W", i, 0) for i in range(max(0, micro_batches - stage), micro_batches)]


def _interleaved(
    stage: int, stages: int, micro_batches: int, chunks: int, overlap: bool
) -> list[Pass]:
    """Micro-batches go through a chunk in groups; a group has one micro-batch for each stage."""
    total = micro_batches * chunks
    round_ = stages * chunks

    def at(kind: str, k: int) -> Pass:
        chunk = k % round_ // stages
        return Pass(
            kind, k // round_ * stages + k % stages, chunk if kind == "F" else chunks - 1 - chunk
        )

    forward, backward = [at("F", k) for k in range(total)], [at("B", k) for k in range(total)]
    warm_up = 2 * (stages - 1 - stage) + (chunks - 1) * stages + overlap
    return _alternating(forward, backward, min(warm_up, total), overlap)


class _Ways:
    """Passes of a stage of DualPipe as they are added: chunk 0 is of micro-batches that enter on
    the stage's half."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.counts = {"F": [0, 0], "B": [0, 0]}
        self.waiting: deque[Pass] = deque()
        """Weight gradients that are put off, first in, first out."""

    def add(self, kind: str, chunk: int, overlaps: bool = False) -> Pass:
        """The chunk's next pass of that kind."""
        each = Pass(kind, self.counts[kind][chunk], chunk, overlaps)
        self.counts[kind][chunk] += 1
        self.passes.append(each)
        return each

    def pair(self, forward: int, backward: int) -> None:
        """A forward and a backward pass side by side."""
        self.add("F", forward, True)
        self.add("B", backward)

    def inputs(self, chunk: int) -> None:
        """A backward pass that puts its weight gradients off."""
        self.waiting.append(self.add("B", chunk)._replace(kind="W"))

    def weights(self) -> None:
        """The weight gradients put off first."""
        self.passes.append(self.waiting.popleft())


def _both_ways(stage: int, stages: int, each_way: int) -> list[Pass]:
    """DualPipe: the eight steps of deepseek-ai/DualPipe, `each_way` micro-batches from either end.

    Every stage is the `nth` from its end. In the middle one pair isn't side by side: what it would
    wait for comes from the other one of the two in the middle."""
    nth = min(stage, stages - 1 - stage)
    inner = stages // 2 - 1 - nth
    ways = _Ways()
    for _ in range(2 * inner):
        ways.add("F", 0)
    for _ in range(nth + 1):
        ways.add("F", 0)
        ways.add("F", 1)
    for _ in range(inner):
        ways.inputs(1)
        ways.weights()
        ways.add("F", 1)
    for i in range(each_way - stages + nth + 1):
        if i == 0 and inner == 0:
            ways.add("F", 0)
            ways.add("B", 1)
        else:
            ways.pair(0, 1)
        ways.pair(1, 0)
    for _ in range(inner):
        ways.add("B", 1)
        ways.pair(1, 0)
    _drain(ways, nth, inner)
    return ways.passes


def _drain(ways: _Ways, nth: int, inner: int) -> None:
    """The last backward passes: the later half put weight gradients off, which fill the wait for
    what is left."""
    for k in range(2 * nth + 2):
        chunk = (k + 1) % 2
        if k > nth:
            ways.inputs(chunk)
        else:
            ways.add("B", chunk)
    for _ in range(inner):
        ways.weights()
        ways.inputs(0)
    while ways.waiting:
        ways.weights()


def bubble_over_ideal(
    schedule: str, stages: int, micro_batches: int, chunks: int = 1, overlap: bool = False
) -> float:
    """Idle time of a stage over the time it works, all passes equally long and messages free."""
    if schedule == "dualpipe":
        # A pass that is side by side with another is handed on with it, and so half a pair later.
        return (stages - 2) / ((3 if overlap else 6) * micro_batches)
    passes = 3 if schedule == "zb-h1" else 1
    return (stages - 1) / (passes * chunks * micro_batches)


def bubble_share(
    schedule: str, stages: int, micro_batches: int, chunks: int = 1, overlap: bool = False
) -> float:
    """Idle time of a stage over the whole step."""
    ratio = bubble_over_ideal(schedule, stages, micro_batches, chunks, overlap)
    return ratio / (1 + ratio)


def put_off(passes: Iterable[Pass]) -> set[tuple[int, int]]:
    """Micro-batch and chunk of the backward passes whose weight gradients are a pass of their
    own."""
    return {(each.micro_batch, each.chunk) for each in passes if each.kind == "W"}


def held(passes: list[Pass], sizes: list[int]) -> int:
    """Most that a stage holds at once if the forward pass of chunk `c` leaves `sizes[c]` for its
    last backward pass to free."""
    later = put_off(passes)
    now = most = 0
    for kind, micro_batch, chunk, _ in passes:
        frees = kind == "W" or (kind == "B" and (micro_batch, chunk) not in later)
        now += sizes[chunk] if kind == "F" else -sizes[chunk] if frees else 0
        most = max(most, now)
    return most
