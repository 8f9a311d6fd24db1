"""Whether a workload fits the memory of the NPUs that it is to run on."""

from __future__ import annotations

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
    npu = platform.describe()["npu"]
    capacity: int | None = npu["memory_capacity_bytes"]
    if summary is None or capacity is None or npu["memory_on_overflow"] == "spill":
        return []
    large = [entry for entry in summary.classes if entry.memory.total > capacity]
    if not large:
        return []
    needs = f"{_needed(large)} of the {capacity / GB:.1f} GB on an NPU of {platform.name}"
    return [Problem("", "memory", f"{spans([entry.name for entry in large])} {needs}", _HELP)]


def _needed(large: list[RankClass]) -> str:
    totals = [entry.memory.total for entry in large]
    least, most = (f"{total / GB:.1f}" for total in (min(totals), max(totals)))
    verb = "needs" if len(large) == 1 else "need"
    return f"{verb} {most} GB" if least == most else f"{verb} {least} to {most} GB"
