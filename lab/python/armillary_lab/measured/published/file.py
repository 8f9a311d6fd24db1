"""Files of published measurements.

A file has up to four lists of rows: `collectives`, `training`, `mlperf` and `compute`. Every row
has an `id` (rows of `compute` may lack it) and a `source`. Here: reading a file, and the fields
that rows of a kind have. Not here: what rows mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from armillary import declared
from armillary.declared import Allowed, Made, Others, Source, Wrong, shown
from armillary.documents import parse_json, read_text
from armillary.errors import ArmillaryError, InputError, Problem

Row = Mapping[str, Any]
"""A measurement as its file has it."""

KINDS = ("collectives", "training", "mlperf", "compute")
_ALLOWED = f"JSON: an object with lists {', '.join(KINDS)}, one of them with rows"
_MOST = 20
"""Problems of a file that are listed."""
_LEAST, _LARGEST = 1e-12, 1e15
"""Between these are all numbers that a measurement can have: a petabyte, 30 years in us."""


def _amount(raw: object) -> object:
    """A positive number, or 0 for what was not measured. NaN is none."""
    if type(raw) not in (int, float):
        raise Wrong(f"{shown(raw)} is not a number")
    if not (raw == 0 or _LEAST <= raw <= _LARGEST):  # type: ignore[operator]
        raise Wrong(f"is {raw:g}")
    return raw


def _origin(raw: object) -> object:
    if not isinstance(raw, dict | str):
        raise Wrong(f"{shown(raw)} is neither text nor an object")
    return raw


_WORDS = f"0, a number from {_LEAST:g} to {_LARGEST:g}, or null"
_Amount = Annotated[object, Made(_amount), Allowed(_WORDS)] | None
_Object = Mapping[str, object]
_Origin = Annotated[object, Made(_origin), Allowed("text or an object")] | None


@dataclass(frozen=True, slots=True)
class _Hardware:
    gpu: str | None = None
    gpus: _Amount = None
    nodes: _Amount = None
    gpus_per_node: _Amount = None
    nics_per_node: _Amount = None
    nic_Gbps: _Amount = None


@dataclass(frozen=True, slots=True)
class _Metric:
    iter_time_s: _Amount = None
    iter_time_s_derived: _Amount = None
    step_time_s: _Amount = None
    tokens_per_s: _Amount = None
    tokens_per_s_per_gpu: _Amount = None
    aggregate_pflops_digitised: _Amount = None
    gpu_memory_GB: _Amount = None
    real_alloc_gib: _Amount = None


@dataclass(frozen=True, slots=True)
class _Median:
    train_step_time: _Amount = None
    train_step_timing: _Amount = None
    throughput: _Amount = None


@dataclass(frozen=True, slots=True)
class _Point:
    bytes: _Amount = None
    ip_us: _Amount = None
    oop_us: _Amount = None
    ip_algbw: _Amount = None
    oop_algbw: _Amount = None
    ip_busbw: _Amount = None
    oop_busbw: _Amount = None


@dataclass(frozen=True, slots=True)
class _Collectives:
    id: str
    op: str
    hardware: Annotated[_Hardware, Others()]
    points: tuple[Annotated[_Point, Others()], ...]
    software: _Object | None = None
    source: _Origin = None


@dataclass(frozen=True, slots=True)
class _Training:
    id: str
    group: str
    model: _Object
    hardware: Annotated[_Hardware, Others()]
    parallel: _Object
    batch: _Object
    metric: Annotated[_Metric, Others()]
    source: _Origin = None


@dataclass(frozen=True, slots=True)
class _Submission:
    id: str
    benchmark: str
    accelerator: str
    config: _Object | None = None
    tracked_stats_median: Annotated[_Median, Others()] | None = None
    source: _Origin = None


@dataclass(frozen=True, slots=True)
class _Kernel:
    kind: str


@dataclass(frozen=True, slots=True)
class _File:
    collectives: tuple[Annotated[_Collectives, Others()], ...] = ()
    training: tuple[Annotated[_Training, Others()], ...] = ()
    mlperf: tuple[Annotated[_Submission, Others()], ...] = ()
    compute: tuple[Annotated[_Kernel, Others()], ...] = ()


@dataclass(frozen=True, slots=True)
class Measurements:
    """The rows of a file by kind, in their order."""

    collectives: tuple[Row, ...] = ()
    training: tuple[Row, ...] = ()
    mlperf: tuple[Row, ...] = ()
    compute: tuple[Row, ...] = ()


def read(path: str) -> Measurements:
    """The rows of a file. Raises `InputError` if it can't be read or has no rows, or if a field of
    a row is missing or not what rows of its kind have there."""
    source = Source(parse_json(read_text(path, _ALLOWED), path, _ALLOWED), path)
    declared.read_value(Annotated[_File, Others()], source, (), source.values, None)
    rows = {} if source.problems else {kind: source.values.get(kind) or () for kind in KINDS}
    if not any(rows.values()):
        problems = source.problems or [Problem(path, "", "has no measurements", _ALLOWED)]
        raise InputError(problems[:_MOST])
    return Measurements(**{kind: tuple(some) for kind, some in rows.items()})


def source(row: Row) -> str:
    """Who published a row, as `sweeps.csv` names it: a repository, a thread of one, or an indexed
    page."""
    found = row.get("source") or {}
    if isinstance(found, str):
        return found
    if found.get("repo"):
        return str(found["repo"])
    if found.get("thread"):
        return str(found["thread"]).removeprefix("https://github.com/")
    if found.get("index_id"):
        return f"indexed file {found['index_id']}"
    return str(found.get("url") or "not stated")


def problem(error: ArmillaryError) -> str:
    """The first problem of an error: what it is about, and what is wrong."""
    first = error.problems[0]
    about = first.place.removeprefix("--set ")
    return f"{about}: {first.message}" if about else first.message
