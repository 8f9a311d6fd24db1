"""Predicted peak memory of measured training steps, next to what runs held.

Predictions are the memory in a workload's summary (`workload.footprints`), what a source says set.
Measured is what PyTorch's allocator held at most: on rank 0 by nanotron (of the first stage,
whatever holds most; `log_throughput` in huggingface/nanotron, which writes GiB and calls them GB),
on any rank by SimuMax. nanotron runs eager kernels and deals layers to stages by cost; Megatron-LM
with TransformerEngine runs fused ones. Whether tensor parallelism cut activations along the
sequence (`REDUCE_SCATTER`) or not (`ALL_REDUCE`) nanotron's table doesn't say; its script has both,
and the first is assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from armillary.errors import InputError
from armillary.platform import Platform
from armillary.workload import footprints
from armillary.workload.framework_set import nested

from ..measured.training import Training, failures, trainings

NANOTRON, MEGATRON = "nanotron_h100", "simumax_b200"
GIB = 2**30
FUSED = (
    "mosaic_llmfoundry",
    "vtrain_single",
    "vtrain_multi",
    "megatron_sc21",
    "megatron_seqsel_a100",
    "megatron_core_h100",
    "internevo",
)
"""Groups that only say that their runs ran: Megatron-LM's kernels, or FlashAttention's fused loss
and Apex."""
PRESETS = {"A100": "dgx-a100-80gb", "A100-40GB": "dgx-a100", "H100": "dgx-h100"}
_COUNTS = ("attention", "fp32_gradients", "whole_tensors", "saved", "loss")
"""Options of a framework that count; of nanotron, whose memory was measured, kernels and stages do
too."""
NEAR = 0.1
"""An error that counts as near."""


@dataclass(frozen=True, slots=True)
class MemoryPrediction:
    """A configuration, and what we say that a GPU holds at its peak, bytes."""

    run: Training
    ours: int
    """Bytes on the rank that was measured."""
    most: int
    """Bytes on the rank that holds most."""
    uncut: int
    """Bytes on the rank that was measured, without sequence parallelism."""
    uncut_most: int
    """Bytes on the rank that holds most, without sequence parallelism."""

    @property
    def ratio(self) -> float:
        """Ours over measured."""
        return self.ours / GIB / (self.run.memory_gib or float("nan"))

    @property
    def log(self) -> float:
        """ln(ours / measured)."""
        return math.log(self.ratio)

    @property
    def between(self) -> bool:
        """Whether what was measured lies between ours with and without sequence parallelism, 10 %
        allowed."""
        return self.ratio * (1 - NEAR) <= 1 <= self.ratio * self.uncut / self.ours * (1 + NEAR)


def starts(run: Training) -> bool:
    """Whether its framework starts a configuration: nanotron has at most one stage more than
    micro-batches."""
    return run.group != NANOTRON or run.global_batch // run.dp // run.micro_batch >= run.pp - 1


def predict(run: Training) -> MemoryPrediction | None:
    """Prediction for a configuration; `None` where it can't be laid out: more stages than layers,
    or, which nanotron refuses, than micro-batches by more than one."""
    eager = run.group == NANOTRON
    if not starts(run):
        return None
    try:
        stages, uncut = (
            _stages(run, cut and run.sp) if cut or eager else () for cut in (True, False)
        )
    except InputError:
        return None
    uncut = uncut or stages
    first, last = (stages[0], uncut[0]) if eager else (max(stages), max(uncut))
    return MemoryPrediction(run, first, max(stages), last, max(uncut))


def _stages(run: Training, sp: bool) -> tuple[int, ...]:
    """Peak bytes of a rank of each stage."""
    options = {**run.options, "sp": sp}
    decided = run.framework.options(run.options)
    counts = (*_COUNTS, "kernels", "partition") if run.group == NANOTRON else _COUNTS
    options |= {name: decided[name] for name in counts if name in decided}
    return tuple(memory.total for memory in footprints(run.model, **nested(options)))


@cache
def measured() -> tuple[MemoryPrediction, ...]:
    """Every run whose memory was measured, predicted."""
    found = (predict(run) for run in trainings() if run.memory_gib is not None)
    return tuple(each for each in found if each is not None)


@cache
def failed() -> tuple[MemoryPrediction | None, ...]:
    """Every configuration that failed, predicted where it can be laid out."""
    return tuple(predict(run) for run in failures())


@cache
def elsewhere() -> tuple[tuple[MemoryPrediction, int], ...]:
    """Runs without published memory, and what their GPU has; all of them ran with fused
    kernels."""
    runs = (run for run in trainings() if run.group in FUSED)
    found = ((predict(run), capacity(PRESETS[run.gpu])) for run in runs)
    return tuple((each, most) for each, most in found if each is not None)


@cache
def capacity(preset: str) -> int:
    """Memory of a GPU of a preset, bytes."""
    found: int = Platform.load(preset).describe()["npu"]["memory_capacity_bytes"]
    return found
