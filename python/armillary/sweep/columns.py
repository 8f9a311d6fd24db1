"""From a report to the columns of the table: the step, the critical class, means over ranks, each
dimension.

The critical class is the one that ends last (the first of those). Means are over all ranks. `mfu`
is the model's FLOPs a second over the NPUs' peak, as the generator of the workload counts them;
empty where a workload or platform does not say. Not here: parameters, the table itself
(`table.py`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from .. import step_parts
from ..errors import InputError, Problem
from ..platform.platform import Fits
from ..run_warnings import texts
from ..uncertainty import steps
from ..units import NS_PER_S, TFLOP
from ..workload import Workload

PARTS = (*(part.field for part in step_parts.PARTS), "comm_ns")
"""Parts of the step of a class of ranks; all but the last sum to the step time."""

_RATES = ("samples_per_s", "tflops_per_npu", "mfu")
_INTERVAL = ("step_low_ns", "step_high_ns")
_BUBBLE = ("bubble",)
"""Share of the step that the pipeline's schedule leaves empty, as the generator says."""
NUMBERS = (
    "step_time_ns",
    *PARTS,
    *(f"mean_{part}" for part in PARTS),
    *_RATES,
    *_INTERVAL,
    *_BUBBLE,
)
COUNTS = ("ranks", "classes", "warnings")
SIZES = ("memory_bytes", "memory_capacity_bytes", "model_flops")
"""Whole numbers that can exceed 64 bits."""
ANSWERS = ("fits",)
"""`yes`, `near` or `no` (docs/models/memory.md)."""
TEXTS = ("digest", "warning_texts")
ALIASES = {"memory": "memory_bytes"}
"""Other names of columns, for objectives."""
DIGITS = 38
"""Digits of the largest whole number that a table holds: what Parquet and Arrow call a decimal of
128 bits."""
_DIMENSION = re.compile(r"dim[1-9]\d?_(utilisation|busy_ns|bytes)")
_OWN = ("index", "impossible", "error")

Kind = Literal["number", "count", "size", "answer", "text"]
_OF_RUN: dict[str, Kind] = {
    **dict.fromkeys(NUMBERS, "number"),
    **dict.fromkeys(COUNTS, "count"),
    "memory_bytes": "size",
    "memory_capacity_bytes": "size",
    "fits": "answer",
    "model_flops": "size",
    **dict.fromkeys(TEXTS, "text"),
}
_OF_DIMENSION: dict[str, Kind] = {"utilisation": "number", "busy_ns": "number", "bytes": "size"}


def kinds(dimensions: int) -> dict[str, Kind]:
    """Columns of results and what they hold, of runs on up to `dimensions` network dimensions."""
    numbered = ((number, part) for number in range(1, dimensions + 1) for part in _OF_DIMENSION)
    return _OF_RUN | {f"dim{number}_{part}": _OF_DIMENSION[part] for number, part in numbered}


def dimensions(results: Mapping[str, object]) -> int:
    """How many network dimensions results speak of."""
    return sum(
        _DIMENSION.fullmatch(name) is not None and name.endswith("_utilisation") for name in results
    )


def is_result(name: str, numbers: bool = False) -> bool:
    """Whether `name` is a column of results (with `numbers`: one that can be an objective)."""
    kind = (
        _OF_DIMENSION[name.partition("_")[2]] if _DIMENSION.fullmatch(name) else _OF_RUN.get(name)
    )
    return (kind is not None and (not numbers or kind not in ("answer", "text"))) or (
        not numbers and name in _OWN
    )


def fault(results: Mapping[str, object]) -> str:
    """Reason why `results` are not those of a run, in words; nothing when they are."""
    wanted = kinds(dimensions(results))
    for name in dict.fromkeys((*wanted, *results)):
        if name not in wanted or name not in results:
            return f"{name} is {'missing' if name in wanted else 'not a column of results'}"
        value = results[name]
        if not _is(wanted[name], value) and not (value is None and name in _OPTIONAL):
            return f"{name} is {_short(value)}, not {_MEANT[wanted[name]]}"
    return ""


_OPTIONAL = {*PARTS, *_RATES, *_INTERVAL, *_BUBBLE, *SIZES, *ANSWERS}
"""Columns of a run that may be empty."""
_MEANT = {
    "number": "a number from 0",
    "count": "a whole number from 0",
    "size": "a whole number from 0",
    "answer": "yes, near or no",
    "text": "text",
}


def _is(kind: Kind, value: object) -> bool:
    if kind == "answer":
        return value in get_args(Fits)
    if kind == "text":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind == "number":
        return 0 <= value < math.inf if isinstance(value, float) else 0 <= value < 2**63
    return isinstance(value, int) and 0 <= value < (2**63 if kind == "count" else 10**DIGITS)


def _short(value: object) -> str:
    text = (
        repr(value)
        if not isinstance(value, int) or abs(value) < 10**40
        else "a number of many digits"
    )
    return text if len(text) <= 60 else text[:57] + "..."


class _AnyClass(msgspec.Struct):
    count: int
    finish_ns: float


if TYPE_CHECKING:
    _Class = _AnyClass
else:
    _Class = msgspec.defstruct("_Class", [(part, float) for part in PARTS], bases=(_AnyClass,))


class _Dimension(msgspec.Struct):
    bytes: int
    utilisation: float
    busy_ns: float


class _Npu(msgspec.Struct):
    name: str | None = None
    peak_flops: int | None = None
    memory_capacity_bytes: int | None = None


class _Platform(msgspec.Struct):
    npu: _Npu


class _Options(msgspec.Struct):
    precision: str = "bf16"
    framework: str | None = None
    imbalance: float = 1.0
    lora_rank: int = 0


class _Model(msgspec.Struct):
    options: _Options | None = None


class _Summary(msgspec.Struct):
    family: str | None = None


class _Made(msgspec.Struct):
    model: _Model | None = None
    summary: _Summary | None = None


class _Config(msgspec.Struct):
    platform: _Platform
    workload: _Made


class _Report(msgspec.Struct):
    """The part of a report that the table needs: the rest is skipped, which is most of the time of
    reading it."""

    step_time_ns: float
    ranks: int
    digest: str
    config: _Config
    warnings: list[str]
    assumptions: list[str]
    fits: Fits | None
    memory_bytes: int | None
    classes: list[_Class]
    dimensions: list[_Dimension]


_DECODER = msgspec.json.Decoder(_Report)


@dataclass(frozen=True, slots=True)
class Claims:
    """Figures in the summary of a workload's generator; zeros where it has none."""

    flops: int
    batch: int
    memory: int
    bubble: float | None = None

    @classmethod
    def of(cls, workload: Workload) -> Claims:
        """Read once a workload."""
        summary = workload.summary
        if summary is None:
            return cls(0, 0, 0)
        return cls(summary.flops, summary.batch, summary.memory, summary.bubble)


Value = float | int | str | bool | None


def columns(report: str, claims: Claims) -> dict[str, Value]:
    """The results of a run by column. Raises `InputError` for a whole number that no table
    holds."""
    read = _DECODER.decode(report)
    critical = max(read.classes, key=lambda each: each.finish_ns, default=None)
    found: dict[str, Value] = {"step_time_ns": read.step_time_ns}
    for part in PARTS:
        found[part] = None if critical is None else getattr(critical, part)
    for part in PARTS:
        found[f"mean_{part}"] = sum(
            getattr(each, part) * each.count for each in read.classes
        ) / max(read.ranks, 1)
    found |= _rates(read, claims)
    found |= _interval(read) | {"bubble": claims.bubble}
    warned = texts(read.warnings, read.assumptions)
    found |= {"ranks": read.ranks, "classes": len(read.classes), "warnings": len(warned)}
    found |= _memory(read, claims)
    found |= {"model_flops": claims.flops or None, "digest": read.digest}
    found["warning_texts"] = "\n".join(warned)
    for number, each in enumerate(read.dimensions, 1):
        found[f"dim{number}_utilisation"] = each.utilisation
        found[f"dim{number}_busy_ns"] = each.busy_ns
        found[f"dim{number}_bytes"] = each.bytes
    _require_room(found)
    return found


def _interval(read: _Report) -> dict[str, Value]:
    """Between which times 80 % of measured steps like this one should lie
    (docs/models/uncertainty.md); unknown where no such steps were measured."""
    workload, npu = read.config.workload, read.config.platform.npu
    options = (workload.model and workload.model.options) or _Options()
    family = workload.summary.family if workload.summary else None
    stated, uneven = bool(options.framework), options.imbalance > 1
    given = str(npu.name), options.precision, str(family), read.ranks, stated, uneven
    found = steps.interval(*given, adapters=options.lora_rank > 0)
    low, high = (None, None) if found is None else found.of(read.step_time_ns)
    return {"step_low_ns": low, "step_high_ns": high}


def _memory(read: _Report, claims: Claims) -> dict[str, Value]:
    """Bytes that the fullest NPU needs, and whether it has them. The generator's number is exact
    where 64 bits of the report are too few."""
    needed = max(claims.memory, read.memory_bytes or 0) or None
    capacity = read.config.platform.npu.memory_capacity_bytes
    return {"memory_bytes": needed, "memory_capacity_bytes": capacity, "fits": read.fits}


def _require_room(found: Mapping[str, Value]) -> None:
    for name, value in found.items():
        if isinstance(value, int) and value >= 10**DIGITS:
            said = f"has {len(str(value))} digits, more than the {DIGITS} that a table holds"
            raise InputError([Problem("", name, said, "a smaller workload")])


def _rates(read: _Report, claims: Claims) -> dict[str, Value]:
    seconds, peak = read.step_time_ns / NS_PER_S, read.config.platform.npu.peak_flops
    each = (
        claims.flops / (seconds * read.ranks) if claims.flops and seconds and read.ranks else None
    )
    return {
        "samples_per_s": claims.batch / seconds if claims.batch and seconds else None,
        "tflops_per_npu": None if each is None else each / TFLOP,
        "mfu": each / peak if each is not None and peak else None,
    }
