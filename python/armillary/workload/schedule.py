"""The order in which a pipeline stage works through micro-batches, and the bubble it leaves.

Here: GPipe, 1F1B, interleaved 1F1B, ZB-H1 and DualPipe as lists of passes, which the core makes
(`crates/layouts/src/passes.rs`). Not here: what a pass consists of (`stage.py`), where the chunks
of DualPipe are (`placement.py`).

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

from collections.abc import Iterable
from typing import NamedTuple

from .. import _core


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
    found = _core.passes(schedule, stage, stages, micro_batches, chunks, overlap)
    return [Pass(*each) for each in found]


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
