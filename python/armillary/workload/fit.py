"""Whether a workload fits the memory of the NPUs that it is to run on, by what its generator says.

Here: words. Not here: the rule (`Platform.fits`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Problem
from ..platform import Platform
from ..units import GB
from .summary import RankClass, Summary, spans

_HELP = (
    "more parallelism, ZeRO, recomputation, a smaller micro-batch, or npu.memory.on_overflow: spill"
)


def too_large(summary: Summary | None, platform: Platform) -> list[Problem]:
    """One problem for all ranks that need more memory than an NPU of `platform` has; none where it
    may spill."""
    needs = _those(summary, platform, "no")
    return [Problem("", "memory", needs, _HELP)] if needs else []


def near(summary: Summary | None, platform: Platform) -> list[str]:
    """One warning for all ranks whose memory is so near to that of an NPU that they may not fit."""
    needs = _those(summary, platform, "near")
    said = "which is closer than memory is known: they may not fit, or run slowly"
    return [f"memory: {needs}, {said}"] if needs else []


def _those(summary: Summary | None, platform: Platform, answer: str) -> str:
    """Ranks that have this `answer`, and the bytes that they need; empty without such ranks."""
    classes = summary.classes if summary else ()
    found = [entry for entry in classes if platform.fits(entry.memory.total) == answer]
    capacity = platform.describe()["npu"]["memory_capacity_bytes"] if found else 0
    return (
        f"{spans([entry.name for entry in found])} {_needed(found)} of the {capacity / GB:.1f} GB "
        f"on an NPU of {platform.name}"
        if found
        else ""
    )


def _needed(large: Sequence[RankClass]) -> str:
    totals = [entry.memory.total for entry in large]
    least, most = (f"{total / GB:.1f}" for total in (min(totals), max(totals)))
    verb = "needs" if len(large) == 1 else "need"
    return f"{verb} {most} GB" if least == most else f"{verb} {least} to {most} GB"
