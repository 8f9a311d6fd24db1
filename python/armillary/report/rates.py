"""Rates of training that follow from a step time: samples, tokens and operations a second, and the
share of the peak.

Model: model FLOPs utilisation (MFU) = the model's own floating-point operations / (NPUs x step time
x peak), with the whole score matrix of attention, masked or not. Hardware FLOPs utilisation (HFU)
counts what runs: without what a kernel skips, with what is computed again, each operation against
the peak of its number format. So it is the time of all operations at their peaks, mean over the
NPUs, over the step, and at most 1. Source: Chowdhery et al. 2022 (arXiv:2204.02311), appendix
B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..units import S_PER_NS

if TYPE_CHECKING:
    from ..schema import Class
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
    """HFU, 0..1; 0 where durations do not come from a model of the NPU."""

    @property
    def is_optimistic(self) -> bool:
        """Whether this is more than any kernel reaches."""
        return self.utilisation > OPTIMISTIC


def of(
    summary: Summary | None,
    step_ns: float,
    peak_flops: float | None,
    least_ns: float | None = None,
) -> Rates | None:
    """The rates, where somebody counted operations and the step takes time; `least_ns` is that of
    `at_peak_ns`."""
    if summary is None or not summary.flops or not step_ns:
        return None
    seconds = step_ns * S_PER_NS
    flops = summary.flops / summary.ranks / seconds
    utilisation = flops / peak_flops if peak_flops else 0.0
    hardware = (least_ns or 0.0) / step_ns
    return Rates(summary.batch / seconds, summary.tokens / seconds, flops, utilisation, hardware)


def at_peak_ns(classes: Sequence[Class]) -> float | None:
    """The time of the operations of a rank at their peaks, mean over all ranks; nothing where it is
    not known."""
    times = [
        (each["at_peak_ns"], each["count"]) for each in classes if each["at_peak_ns"] is not None
    ]
    ranks = sum(each["count"] for each in classes)
    known = bool(times) and len(times) == len(classes)
    return sum(time * count for time, count in times) / ranks if known else None
