"""Snapshots of PyTorch's memory: what they hold, and next to a predicted run.

Model: ratio = peak of the requested bytes over the predicted peak. Tensors are what a workload
counts; what the allocator reserves is more (docs/models/memory.md). Here: numbers and pages. Not
here: reading snapshots (`workload/importer/memory_snapshot.py`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import run_warnings
from ..errors import InputError, Problem
from ..report.page import Brief, Fact, Page, Section, Table
from ..report.quantity import Quantity, number, size
from ..schema import Report
from ..units import counted
from ..workload.importer import memory_snapshot, reading
from ..workload.importer.memory_snapshot import DeviceMemory, MemorySnapshot
from ..workload.importer.ranks import rank_in_name
from ..workload.importer.reading import Recording
from .explanation import Comparison, Explanation

MEMORY = "armillary.memory-snapshot/1"
MEASURED_MEMORY = "armillary.measured-memory/1"
_HOLDERS = 1000
"""Rows of holders in JSON for each device."""
_SHOWN = 10


def contents(path: str, recordings: Sequence[Recording]) -> Explanation:
    """The content of the snapshots in a file. Raises `InputError`."""
    found = memory_snapshot.all_of(recordings)
    rows = [_device(each.file, device) for each in found for device in each.devices]
    notes = [note for each in found for note in each.notes]
    data = {
        "schema": MEMORY,
        "file": path,
        "devices": rows,
        "warnings": notes,
    }
    devices = counted(len(rows), "device")
    page = Page(
        f"Snapshot of PyTorch's memory: {devices} in {Path(path).name}",
        [Section("Devices", [_devices(rows)]), *_holders(rows)],
        warnings=notes,
    )
    return Explanation(page, data)


def _device(file: str, found: DeviceMemory) -> dict[str, Any]:
    peak = found.peak
    return {
        "file": file,
        "device": found.device,
        "segments": found.segments,
        "reserved_bytes": found.reserved,
        "allocated_bytes": found.allocated,
        "pending_bytes": found.pending,
        "requested_bytes": found.requested,
        "events": found.events,
        "failed_allocations": found.failures,
        "peak_requested_bytes": peak and peak.requested,
        "peak_reserved_bytes": peak and peak.reserved,
        "requested_before_bytes": peak and peak.before,
        "holders_at": "peak" if peak else "snapshot",
        "holders": [
            {"frame": row.frame, "blocks": row.blocks, "bytes": row.bytes}
            for row in found.holders[:_HOLDERS]
        ],
    }


def _devices(rows: Sequence[dict[str, Any]]) -> Table:
    heads = (
        "Device",
        "Peak of tensors",
        "Peak reserved",
        "Reserved",
        "Allocated",
        "Tensors",
        "Segments",
        "Events",
        "Failed",
    )
    return Table(
        "At the snapshot, and the most before it",
        heads,
        [
            (
                str(row["device"]),
                _size(row["peak_requested_bytes"]),
                _size(row["peak_reserved_bytes"]),
                size(row["reserved_bytes"]),
                size(row["allocated_bytes"]),
                size(row["requested_bytes"]),
                number(row["segments"]),
                number(row["events"]),
                number(row["failed_allocations"]),
            )
            for row in rows
        ],
    )


def _holders(rows: Sequence[dict[str, Any]]) -> Iterator[Section]:
    for row in rows:
        when = "at its peak" if row["holders_at"] == "peak" else "at the snapshot"
        title = f"What device {row['device']} holds {when}"
        table = Table(
            title,
            ("Line", "Blocks", "Bytes"),
            [
                (each["frame"] or "no stack recorded", number(each["blocks"]), _size(each["bytes"]))
                for each in row["holders"]
            ],
            brief=Brief(rows=_SHOWN),
        )
        if row["holders"]:
            yield Section(title, [table])


def _size(value: int | None) -> str:
    return "" if value is None else size(value)


def against_snapshots(
    report: Report, name: str, paths: Sequence[str | os.PathLike[str]], called: Sequence[str]
) -> Comparison:
    """Compares the predicted memory of a report with the peaks of snapshots.

    Raises `InputError` for a report that does not say its memory, for a snapshot without a peak,
    and for a file whose rank the report does not have."""
    needed = report["memory_bytes"]
    if not needed:
        said, allowed = "does not say its memory", "a run of a model, such as llama-3-8b"
        raise InputError([Problem(name, "memory_bytes", said, allowed)])
    rows: list[dict[str, Any]] = []
    warnings = [*run_warnings.of(report)]
    for path, each in zip(paths, called, strict=True):
        for found in memory_snapshot.all_of(reading.read(Path(path))):
            shown = each if found.file == os.fspath(path) else found.file
            rows += _measured(report, shown, found, warnings)
    data = {
        "schema": MEASURED_MEMORY,
        "version": report["version"],
        "predicted": {
            "name": name,
            "memory_bytes": needed,
            "classes": [
                {
                    "label": one["label"],
                    "ranks": one["ranks"],
                    "peak_bytes": one["peak_memory_bytes"] or None,
                }
                for one in report["classes"]
            ],
        },
        "measured": rows,
        "warnings": list(dict.fromkeys(warnings)),
    }
    return Comparison(_page(data), data)


def _measured(
    report: Report, name: str, found: MemorySnapshot, warnings: list[str]
) -> Iterator[dict[str, Any]]:
    """Numbers of the devices of a snapshot."""
    several = len(found.devices) > 1
    warnings += (f"{name}: {note}" for note in found.notes)
    for device in found.devices:
        title = f"{name}, device {device.device}" if several else name
        if device.peak is None:
            said = "has no peak: " + next(
                note for note in found.notes if note.startswith(f"device {device.device}:")
            )
            way = "a snapshot with the events since before the first step"
            raise InputError([Problem(found.file, f"device {device.device}", said, way)])
        rank = None if several else rank_in_name(found.file, loose=False)
        label, predicted = _predicted(report, title, rank, warnings)
        yield {
            "name": title,
            "rank": rank,
            "class": label,
            **{key: value for key, value in _device(name, device).items() if key != "file"},
            "predicted_bytes": predicted,
            "ratio": device.peak.requested / predicted,
        }


def _predicted(report: Report, name: str, rank: int | None, warnings: list[str]) -> tuple[str, int]:
    """Class and predicted bytes of a rank; of the fullest one where the rank is unknown."""
    needed = report["memory_bytes"] or 0
    if rank is not None:
        if rank >= report["ranks"]:
            said = (
                f"is of rank {rank}, and the predicted run has {counted(report['ranks'], 'rank')}"
            )
            raise InputError([Problem(name, "rank", said, "snapshots of the same job")])
        one = next(each for each in report["classes"] if rank in _ranks(each["ranks"]))
        return one["label"], one["peak_memory_bytes"] or needed
    peaks = {each["peak_memory_bytes"] for each in report["classes"]}
    if len(peaks) > 1:
        warnings.append(
            f"{name}: the name does not give the rank, as rank_3 does; it is compared with the "
            "rank that needs most"
        )
    return "", needed


def _ranks(text: str) -> range | list[int]:
    """Ranks of a class: `0-3`, `1, 5`, `0-6:2`."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def _page(data: dict[str, Any]) -> Page:
    predicted, rows = data["predicted"], data["measured"]
    first = rows[0]
    peak, reserved = first["peak_requested_bytes"], first["peak_reserved_bytes"]
    facts = [
        Fact("Measured peak of tensors", size(peak), first["name"]),
        Fact("Predicted peak", size(first["predicted_bytes"]), predicted["name"]),
        Fact("Reserved at most", size(reserved), "by PyTorch's allocator"),
    ]
    heads = (
        "Snapshot",
        "Ranks",
        "Predicted",
        "Peak of tensors",
        "Over predicted",
        "Peak reserved",
        "Reserved over tensors",
        "Failed",
    )
    table = Table("Peaks", heads, [_cells(row) for row in rows], labels=2)
    names = ", ".join(dict.fromkeys(row["name"] for row in rows))
    return Page(
        f"{names} against {predicted['name']}",
        [Section("Peaks", [table]), *_holders(rows)],
        verdict=_verdict(first),
        facts=facts,
        warnings=data["warnings"],
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    peak, reserved = row["peak_requested_bytes"], row["peak_reserved_bytes"]
    over = Quantity(f"{reserved / peak:.3f}", reserved / peak) if peak else ""
    return (
        row["name"],
        row["class"] or ("fullest" if row["rank"] is None else f"rank {row['rank']}"),
        size(row["predicted_bytes"]),
        size(peak),
        Quantity(f"{row['ratio']:.3f}", row["ratio"]),
        size(reserved),
        over,
        number(row["failed_allocations"]),
    )


def _verdict(row: dict[str, Any]) -> str:
    """How far the prediction is off, in one sentence."""
    off = abs(row["ratio"] - 1) * 100
    if off < 0.05:
        said = "Tensors take as much memory as predicted"
    else:
        way = "more" if row["ratio"] > 1 else "less"
        said = f"Tensors take {off:.1f} % {way} memory than predicted"
    reserved = size(row["peak_reserved_bytes"])
    return f"{said}; PyTorch's allocator reserved {reserved} at most."
