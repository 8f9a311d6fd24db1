"""Reports back from their JSON, as `armillary run --json` writes them.

Here: the check that a file is a report, down to what pages need of its configuration. Not here:
what fields mean (`schema.py`, docs/reference/report.md)."""

from __future__ import annotations

import os
from typing import Any, NotRequired, Required, TypedDict

import msgspec

from .. import documents
from ..errors import InputError, Problem
from ..schema import Report
from ..workload import Summary
from . import consistency

SCHEMA = "armillary.report/1"
MOST_BYTES = 2**30
"""Largest size of a report, in bytes. Reports with details of 16,384 NPUs have a few dozen MB."""
_HELP = "a file that armillary run --json wrote"


class Dim(TypedDict):
    """A dimension of a stacked network: bytes a second and picoseconds of one link."""

    block: str
    size: int
    link_bandwidth: float
    link_latency_ps: int
    links_side_by_side: NotRequired[int]


Link = TypedDict("Link", {"from": int, "to": int, "bandwidth": float, "latency_ps": int})
"""A link of a graph in one direction, between indices of nodes: bytes a second, picoseconds."""


class Compute(TypedDict, total=False):
    """Settings of a compute model, as far as pages and explanations need them: millionths, and
    operations per second by type."""

    comm_overlap_slowdown_ppm: float
    speedup_ppm: float
    peak_by_type_flops: dict[str, float | None] | None


class Npu(TypedDict, total=False):
    """Facts of an NPU: operations and bytes per second, bytes."""

    name: str
    compute: str
    compute_settings: Compute | None
    peak_flops: Required[float | None]
    memory_bandwidth: Required[float | None]
    memory_capacity_bytes: float | None


class Cables(TypedDict):
    """Cables between two tiers of a generated fabric."""

    cables: int


class Fabric(TypedDict, total=False):
    """A network: stacked `dims`, innermost first, or `nodes` (NPUs, then switches) with `links`.

    A generated fabric says its generator, its number of switches, its cables, and the tier of
    each node (0 for NPUs).
    """

    topology: str
    dims: list[Dim]
    nodes: list[str]
    links: list[Link]
    generator: str
    switches: int
    cables: list[Cables]
    tiers: list[int]


class Scheduler(TypedDict, total=False):
    """How collectives are cut up and started."""

    chunks: int
    active_chunks: int | list[int]
    endpoint_delay_ps: int


class CollectiveChoice(TypedDict, total=False):
    """How collectives of one kind run."""

    algorithms: list[str] | None
    flat: Any
    custom: Any


class Machine(TypedDict):
    """Description of the platform in a report."""

    name: str
    npus: int
    fabric: Fabric
    npu: Npu
    logical: NotRequired[list[int] | None]
    scheduler: NotRequired[Scheduler]
    collectives: NotRequired[dict[str, CollectiveChoice]]


class Made(TypedDict):
    """The model that a workload was made of, and the options of its family."""

    name: str
    options: dict[str, Any]


class Origin(TypedDict, total=False):
    """Description of the workload in a report."""

    model: Made | None
    traces: str | None
    summary: Summary | None
    groups_file: str | None
    passes: int
    overlap: bool
    bucket_bytes: int | None


class Asked(TypedDict):
    """Request that a report answers, as far as pages need it."""

    backend: str
    platform: Machine
    workload: Origin
    platform_file: NotRequired[str | None]


def read(path: str | os.PathLike[str]) -> Report:
    """The report in the file `path`. Raises `InputError` naming the field that is none of a
    report."""
    return parse(documents.read_bytes(path, _HELP, MOST_BYTES), os.fspath(path))


def parse(text: bytes | str, name: str = "") -> Report:
    """The report that `text` holds; `name` is that of its file. Raises `InputError`."""
    try:
        data = msgspec.json.decode(text)
        found = data.get("schema") if isinstance(data, dict) else None
        if found != SCHEMA:
            raise InputError(
                [
                    Problem(
                        name,
                        "schema",
                        f"is {found!r}, so this is not a report",
                        f"{SCHEMA}: {_HELP}",
                    )
                ]
            )
        report = msgspec.convert(_completed(data), Report)
        asked(report)
        documents.require_sound(report["config"], name)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError([Problem(name, "", f"is not a report: {error}", _HELP)]) from None
    except RecursionError:
        raise InputError(
            [Problem(name, "", "is nested too deeply to be a report", _HELP)]
        ) from None
    if found := consistency.problems(report, name):
        raise InputError(found)
    return report


def _completed(data: dict[str, Any]) -> dict[str, Any]:
    """A report with what older ones leave out."""
    filled = {
        "detail": None,
        "network": None,
        "packets": None,
        "flits": None,
        "picture": None,
        "fits": None,
        "memory_bytes": None,
        "outside": [],
        **data,
    }
    classes = filled.get("classes")
    if isinstance(classes, list):
        filled["classes"] = [
            {"at_peak_ns": None, **each} if isinstance(each, dict) else each for each in classes
        ]
    dims = filled.get("dimensions")
    if isinstance(dims, list):
        without = {"link_busy_ns": None, "link_sends": None}
        filled["dimensions"] = [
            {**without, **dim} if isinstance(dim, dict) else dim for dim in dims
        ]
    detail = filled["detail"]
    if isinstance(detail, dict):
        filled["detail"] = {"layer_phases": [], "outside": [], **detail}
        layers = detail.get("layers")
        if isinstance(layers, list):
            filled["detail"]["layers"] = [
                {"passes": [], **each} if isinstance(each, dict) else each for each in layers
            ]
    picture = filled["picture"]
    cables = picture.get("cables") if isinstance(picture, dict) else None
    if isinstance(picture, dict) and isinstance(cables, list):
        each = [{"sends": None, **cable} if isinstance(cable, dict) else cable for cable in cables]
        filled["picture"] = {**picture, "cables": each}
    return filled


def asked(report: Report) -> Asked:
    """The configuration of a report. Raises `msgspec.ValidationError` where it is none."""
    return msgspec.convert(report["config"], Asked)
