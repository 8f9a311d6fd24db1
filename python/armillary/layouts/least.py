"""The least memory of a job's layouts, from sizes alone, and the fewest NPUs on which one fits.

The fullest rank needs least with whole layers recomputed, the smallest micro-batch and plain
pipelines, so a few layouts of each number of NPUs are enough. Not here: the memory of all layouts
(crate `layouts`)."""

from __future__ import annotations

from dataclasses import replace

from ..errors import InputError
from ..platform import Platform
from ..platform.platform import fit_limits
from .job import Job
from .space import space_of
from .timing import NoClock

_TIMES = 6
"""Doublings of the number of NPUs that are tried."""


def least_bytes(job: Job, target: Platform) -> int | None:
    """The least memory that the fullest rank needs on a machine; none where there is no layout."""
    space = space_of(job, target, NoClock(target))
    axes = dict(space.axes)
    for name, best in (
        ("recompute", "full"),
        ("recompute_layers", None),
        ("layers_per_stage", None),
        ("zero_group", None),
        ("micro_batch", min(axes["micro_batch"], key=lambda size: int(str(size)))),
        ("schedule", "1f1b"),
        ("virtual_stages", 1),
        ("overlap_passes", False),
    ):
        axes[name] = (best,) if best in axes[name] else axes[name]
    if axes["recompute"] == ("full",) and None in axes["recompute_modules"]:
        axes["recompute_modules"] = (None,)
    few = replace(space, axes=axes)
    few.fill()
    return few.parts.space.least_bytes() if few.parts.space.layouts else None


def fewest(job: Job, target: Platform) -> int | None:
    """The fewest NPUs on which a layout fits, doubling those of a platform on which none does; none
    where even 64 times the number is not enough, or the platform can't have more."""
    count = target.npus
    for _ in range(_TIMES):
        count *= 2
        try:
            larger = Platform.of(target, npus=count)
            least = least_bytes(job, larger)
        except InputError:
            return None
        if least is not None and least <= most_bytes(job, larger):
            return count
    return None


def most_bytes(job: Job, target: Platform) -> int:
    """Bytes up to which a layout of a job is taken."""
    return limits(target)[1 if job.near else 0]


def limits(target: Platform) -> tuple[int, int]:
    """Bytes up to which a layout surely fits an NPU, and up to which it may; any without a
    capacity."""
    capacity = capacity_of(target)
    return fit_limits(capacity) if capacity else (_UNLIMITED, _UNLIMITED)


def capacity_of(target: Platform) -> int | None:
    """Bytes of an NPU, if the platform states them."""
    capacity: int | None = target.describe()["npu"].get("memory_capacity_bytes")
    return capacity or None


_UNLIMITED = 2**63
