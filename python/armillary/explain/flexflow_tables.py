"""FlexFlow's strategies and measured operators as tables.

Here: pages, and rows for JSON and CSV. Not here: reading the files (`workload/task_graphs`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ..report.page import Brief, Fact, Page, Section, Table
from ..report.quantity import Quantity, number, share, size, time
from ..units import NS_PER_MS, counted
from ..workload.task_graphs import operators, strategy
from ..workload.task_graphs.operators import MeasuredOperator, MeasuredOperators
from ..workload.task_graphs.strategy import Strategy
from .explanation import Listing

STRATEGY = "armillary.flexflow-strategy/1"
OPERATORS = "armillary.flexflow-operators/1"
_SHOWN = 20


def of_strategy(path: str, name: str, data: bytes) -> Listing:
    """The operators of a strategy with their parts and devices. Raises `InputError`."""
    found = strategy.read(name, data)
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "device_type": each.device_type,
            "dims": list(each.dims),
            "parts": each.parts,
            "device_ids": list(each.devices),
        }
        for each in found.operators
    ]
    load = _load(found)
    content = {
        "schema": STRATEGY,
        "file": path,
        "devices": [
            {"device_type": kind, "device": device, "parts": count}
            for (kind, device), count in load.items()
        ],
        "operators": rows,
        "warnings": list(found.notes),
    }
    cells = [
        (
            row["name"],
            row["device_type"],
            " x ".join(map(str, row["dims"])),
            number(row["parts"]),
            _spans(row["device_ids"]),
        )
        for row in rows
    ]
    heads = ("Operator", "Device", "Parts by dimension", "Parts", "Devices")
    by_device = Table(
        "Parts on each device",
        ("Device", "Parts"),
        [(f"{kind} {device}", number(count)) for (kind, device), count in load.items()],
        brief=Brief(rows=_SHOWN),
    )
    page = Page(
        f"Strategy of FlexFlow: {counted(len(rows), 'operator')} on {counted(len(load), 'device')}",
        [
            Section("Operators", [Table("Operators", heads, cells, labels=3)]),
            *([Section("Parts on each device", [by_device])] if load else []),
        ],
        warnings=found.notes,
    )
    flat = [
        {**row, "dims": "-".join(map(str, row["dims"])), "device_ids": _joined(row["device_ids"])}
        for row in rows
    ]
    return Listing(page, content, flat)


def _load(found: Strategy) -> Counter[tuple[str, int]]:
    """Parts on each device, in the order of types and numbers."""
    parts = sorted(
        (each.device_type, device) for each in found.operators for device in each.devices
    )
    return Counter(parts)


def _joined(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


def _spans(numbers: list[int]) -> str:
    """`0-7, 12` for numbers in their order."""
    parts: list[list[int]] = []
    for each in numbers:
        if parts and each == parts[-1][1] + 1:
            parts[-1][1] = each
        else:
            parts.append([each, each])
    said = [f"{a}" if a == b else f"{a}-{b}" for a, b in parts[:8]]
    return ", ".join(said) + (", ..." if len(parts) > 8 else "")


def of_operators(path: str, name: str, data: bytes) -> Listing:
    """Measured operators by the parts that they are divided into. Raises `InputError`."""
    found = operators.read(name, data)
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "dims": list(each.dims),
            "parts": each.parts,
            "forward_ms": each.forward_ms,
            "backward_ms": each.backward_ms,
            "memory_bytes": each.memory_bytes,
        }
        for each in found.rows
    ]
    by_name: dict[str, list[MeasuredOperator]] = {}
    for each in found.rows:
        by_name.setdefault(each.name, []).append(each)
    splits = found.splits()
    covered = [_covered(title, own, splits) for title, own in by_name.items()]
    content = {
        "schema": OPERATORS,
        "file": path,
        "batch": found.batch,
        "gpus": found.gpus,
        "splits": splits,
        "coverage": covered,
        "rows": rows,
        "warnings": _notes(covered),
    }
    return Listing(
        _operators_page(found, content),
        content,
        [{**row, "dims": "-".join(map(str, row["dims"]))} for row in rows],
    )


def _covered(title: str, own: list[MeasuredOperator], splits: int) -> dict[str, Any]:
    """How many splits of an operator were measured, and how well it scales: the speed-up of the
    largest split over the smallest, divided by the ratio of their parts."""
    least, most = (pick(own, key=lambda each: each.parts) for pick in (min, max))
    before, after = (each.forward_ms + each.backward_ms for each in (least, most))
    ratio = most.parts / least.parts
    return {
        "name": title,
        "measured": len(own),
        "splits": splits,
        "least_parts": least.parts,
        "most_parts": most.parts,
        "efficiency": before / after / ratio if after and ratio > 1 else None,
    }


def _notes(covered: list[dict[str, Any]]) -> list[str]:
    few = [each for each in covered if each["measured"] < each["splits"]]
    if not few:
        return []
    one = few[0]
    return [
        f"{counted(len(few), 'operator')} not measured in every split, such as {one['name'][:80]}: "
        f"{one['measured']} of {one['splits']}"
    ]


def _operators_page(found: MeasuredOperators, content: dict[str, Any]) -> Page:
    coverage = [
        (
            row["name"],
            f"{row['measured']} of {row['splits']}",
            number(row["least_parts"]),
            number(row["most_parts"]),
            share(row["efficiency"]) if row["efficiency"] is not None else "",
        )
        for row in content["coverage"]
    ]
    rows = [
        (
            each.name,
            "-".join(map(str, each.dims)),
            number(each.parts),
            time(each.forward_ms * NS_PER_MS),
            time(each.backward_ms * NS_PER_MS),
            Quantity(size(each.memory_bytes), each.memory_bytes),
        )
        for each in found.rows
    ]
    heads = ("Operator", "Split", "Parts", "Forward", "Backward", "Memory")
    table = Table("Times of one part", heads, rows, labels=2, brief=Brief(rows=_SHOWN))
    names = ("Operator", "Splits", "Fewest parts", "Most parts", "Efficiency")
    return Page(
        f"Operators measured by FlexFlow: {counted(len(found.rows), 'row')} in "
        f"{Path(content['file']).name}",
        [
            Section("Coverage", [Table("Coverage", names, coverage)]),
            Section("Times of one part", [table]),
        ],
        facts=[Fact("Samples", number(found.batch)), Fact("GPUs", number(found.gpus))],
        warnings=content["warnings"],
    )
