"""What a step time means for training: samples, tokens and operations a second, and the share of
the peak.

Model: model FLOPs utilisation (MFU) = the model's own floating-point operations / (NPUs x step time
x peak); hardware FLOPs utilisation (HFU) counts those of recomputation too. Source: Chowdhery et
al. 2022 (arXiv:2204.02311), appendix B."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..units import S_PER_NS

if TYPE_CHECKING:
    from ..workload import Summary

OPTIMISTIC = 0.65
"""Highest utilisation of a published training run."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a step; `tokens` is 0 where samples are not sequences, `utilisation` where the peak
    is not known."""

    samples: float
    """A second."""
    tokens: float
    """A second."""
    flops: float
    """Floating-point operations a second of one NPU, without those of recomputation."""
    utilisation: float
    """MFU, 0..1."""
    hardware: float = 0.0
    """HFU, 0..1; equal to MFU where nothing is computed again."""

    @property
    def is_optimistic(self) -> bool:
        """Whether this is more than any kernel reaches."""
        return self.utilisation > OPTIMISTIC


def of(summary: Summary | None, step_ns: float, peak_flops: float | None) -> Rates | None:
    """The rates, where somebody counted operations and the step takes time."""
    if summary is None or not summary.flops or not step_ns:
        return None
    seconds = step_ns * S_PER_NS
    flops = summary.flops / summary.ranks / seconds
    utilisation = flops / peak_flops if peak_flops else 0.0
    hardware = utilisation * max(summary.hardware_flops / summary.flops, 1.0)
    return Rates(summary.batch / seconds, summary.tokens / seconds, flops, utilisation, hardware)
