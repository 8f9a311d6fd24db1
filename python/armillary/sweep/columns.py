"""From a report to the columns of the table: the step, the critical class, means over ranks, each dimension.

The critical class is the one that ends last (the first of those). Means are over all ranks. `mfu` is the model's FLOPs
a second over the NPUs' peak, as the generator of the workload counts them; empty where a workload or platform does not
say. Not here: parameters, the table itself (`table.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from ..workload import Workload

PARTS = (
    "compute_ns",
    "exposed_comm_ns",
    "exposed_remote_ns",
    "exposed_local_ns",
    "exposed_launch_ns",
    "idle_ns",
    "comm_ns",
)
"""Of a class of ranks; the first six sum to the step time."""

COUNTS = ("ranks", "classes", "warnings", "memory_bytes", "model_flops")
NUMBERS = (
    "step_time_ns",
    *PARTS,
    *(f"mean_{part}" for part in PARTS),
    "samples_per_s",
    "tflops_per_npu",
    "mfu",
)
TEXTS = ("digest",)
_DIMENSION = re.compile(r"dim[1-9]\d?_(utilisation|busy_ns|bytes)")
_OWN = ("index", "error")


def is_result(name: str, numbers: bool = False) -> bool:
    """Whether `name` is a column of results (with `numbers`: one that can be an objective)."""
    good = name in NUMBERS or name in COUNTS or _DIMENSION.fullmatch(name) is not None
    return good or (not numbers and name in (*TEXTS, *_OWN))


class _Class(msgspec.Struct):
    count: int
    finish_ns: float
    compute_ns: float
    exposed_comm_ns: float
    exposed_remote_ns: float
    exposed_local_ns: float
    exposed_launch_ns: float
    idle_ns: float
    comm_ns: float


class _Dimension(msgspec.Struct):
    bytes: int
    utilisation: float
    busy_ns: float


class _Npu(msgspec.Struct):
    peak_flops: int | None = None


class _Platform(msgspec.Struct):
    npu: _Npu


class _Config(msgspec.Struct):
    platform: _Platform


class _Report(msgspec.Struct):
    """The part of a report that the table needs: the rest is skipped, which is most of the time of reading it."""

    step_time_ns: float
    ranks: int
    digest: str
    config: _Config
    warnings: list[str]
    classes: list[_Class]
    dimensions: list[_Dimension]


_DECODER = msgspec.json.Decoder(_Report)


@dataclass(frozen=True, slots=True)
class Claims:
    """What a workload's generator says of it; zeros where it says nothing."""

    flops: int
    batch: int
    memory: int

    @classmethod
    def of(cls, workload: Workload) -> Claims:
        """Read once a workload."""
        summary = workload.summary
        if summary is None:
            return cls(0, 0, 0)
        return cls(summary.flops, summary.batch, max((entry.memory.total for entry in summary.classes), default=0))


def columns(report: str, claims: Claims) -> dict[str, float | int | str | None]:
    """The results of a run by column."""
    read = _DECODER.decode(report)
    critical = max(read.classes, key=lambda each: each.finish_ns, default=None)
    found: dict[str, float | int | str | None] = {"step_time_ns": read.step_time_ns}
    for part in PARTS:
        found[part] = None if critical is None else getattr(critical, part)
    for part in PARTS:
        found[f"mean_{part}"] = sum(getattr(each, part) * each.count for each in read.classes) / max(read.ranks, 1)
    found |= _rates(read, claims)
    found |= {"ranks": read.ranks, "classes": len(read.classes), "warnings": len(read.warnings)}
    found |= {"memory_bytes": claims.memory or None, "model_flops": claims.flops or None, "digest": read.digest}
    for number, each in enumerate(read.dimensions, 1):
        found[f"dim{number}_utilisation"] = each.utilisation
        found[f"dim{number}_busy_ns"] = each.busy_ns
        found[f"dim{number}_bytes"] = each.bytes
    return found


def _rates(read: _Report, claims: Claims) -> dict[str, float | int | str | None]:
    seconds, peak = read.step_time_ns / 1e9, read.config.platform.npu.peak_flops
    each = claims.flops / (seconds * read.ranks) if claims.flops and seconds and read.ranks else None
    return {
        "samples_per_s": claims.batch / seconds if claims.batch and seconds else None,
        "tflops_per_npu": None if each is None else each / 1e12,
        "mfu": each / peak if each is not None and peak else None,
    }
