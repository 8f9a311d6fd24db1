"""What a run does one by one: the critical path, the largest operations, the memory that ranks need.

Not here: sums by class and layer (`run_where.py`), the network (`run_network.py`).
"""

from __future__ import annotations

from typing import Any

from ..schema import Detail, PathPart, Report
from ..workload import Summary
from .chart import COLOURS, PALETTE, Chart
from .page import Part, Section, Table
from .quantity import number, share, size, time
from .reading import Npu
from .run_where import NAMES, bins, column, lines, ranks, tooltip
from .scale import Scale

_OPERATIONS = 15
_SEGMENTS = 15
_PARTS = 8
_RANKS = 16
_HELD_CLASSES = 8
"""Classes of ranks whose memory is drawn over time."""
_HELD = {"weights": PALETTE[0], "gradients": PALETTE[1], "optimizer": PALETTE[2], "activations": PALETTE[3]}


def critical_path(report: Report, detail: Detail, scale: Scale) -> Section:
    """The operations that the step takes as long as, over time, and their sums."""
    path, step = detail["critical_path"], report["step_time_ns"] or 1.0
    if not path["segments"]:
        return Section("Critical path", ["Nothing ran."])
    rows: list[dict[str, Any]] = [dict(segment) for segment in path["segments"]]
    hidden = path["count"] - len(rows)
    more = f" Drawn are its longest {number(len(rows))} of {number(path['count'])} parts." if hidden else ""
    note = "The chain of operations without a gap that the step takes as long as: only less of these makes it shorter."
    chart = Chart("critical_path", "Critical path over time", rows, _path_spec(scale, rows), note + more)
    sums = [_sums(title, path[key], step) for title, key in _SUMS]  # type: ignore[literal-required]
    longest = sorted(path["segments"], key=lambda item: item["start_ns"] - item["end_ns"])[:_SEGMENTS]
    cells = [
        [
            item["name"],
            item["kind"],
            number(item["rank"]),
            time(item["end_ns"] - item["start_ns"]),
            share((item["end_ns"] - item["start_ns"]) / step),
            time(item["start_ns"]),
            item["cause"],
        ]
        for item in longest
    ]
    heads = ["Operation", "Kind", "Rank", "Time", "Share", "From", "Began after"]
    return Section("Critical path", [chart, *sums, Table("Its longest parts", heads, cells, labels=2)])


_SUMS = (("By kind", "by_kind"), ("By layer", "by_layer"), ("By cause", "by_cause"))


def _sums(title: str, parts: list[PathPart], step: float) -> Table:
    shown, rest = parts[:_PARTS], parts[_PARTS:]
    cells = [[part["name"], number(part["count"]), time(part["ns"]), share(part["ns"] / step)] for part in shown]
    if rest:
        ns, count = sum(part["ns"] for part in rest), sum(part["count"] for part in rest)
        cells.append([f"{number(len(rest))} more", number(count), time(ns), share(ns / step)])
    head = "Began after" if title == "By cause" else title.removeprefix("By ").capitalize()
    return Table(title, [head, "Parts", "Time", "Share"], cells)


_COLOURS = {"compute": COLOURS["compute"], "load": COLOURS["memory"], "store": COLOURS["memory"], "host": "#5b5b5b"}
_MOVING = (COLOURS["communication"], "#cc79a7", "#009e73", "#56b4e9", "#8c6d31")
"""Colours of what goes over the network, kind by kind."""


def _kind_colours(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    moving = [kind for kind in kinds if kind not in _COLOURS]
    known = _COLOURS | {kind: _MOVING[i % len(_MOVING)] for i, kind in enumerate(moving)}
    return {"domain": kinds, "range": [known[kind] for kind in kinds]}


def _path_spec(scale: Scale, rows: list[dict[str, Any]]) -> dict[str, Any]:
    time_axis = {"field": "from", "type": "quantitative", "title": scale.axis("time"), "scale": {"nice": False}}
    return {
        "transform": [
            scale.calculate("start_ns", "from"),
            scale.calculate("end_ns", "to"),
            {"calculate": "datum.to - datum.from", "as": "time"},
        ],
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "y": {"field": "kind", "type": "nominal", "sort": None, "title": None, "axis": NAMES},
            "x": time_axis,
            "x2": {"field": "to"},
            "color": {"field": "kind", "type": "nominal", "legend": None, "scale": _kind_colours(rows)},
            "tooltip": tooltip("name", "kind", "layer", "rank", ("time", scale.axis("time")), "cause"),
        },
    }


def operations(report: Report) -> Section:
    """The operations that cost most, over all ranks."""
    shown = report["operations"][:_OPERATIONS]
    if not shown:
        return Section("Largest operations", ["Nothing ran."])
    cells = [
        [
            item["name"],
            item["kind"],
            number(item["count"]),
            time(item["cost_ns"]),
            time(item["total_ns"] / max(item["count"], 1)),
            time(item["max_ns"]),
            size(item["bytes"]) if item["bytes"] else "",
        ]
        for item in shown
    ]
    heads = ["Operation", "Kind", "Count", "Cost", "Mean", "Longest", "Bytes"]
    note = "Cost: the time of all ranks that is charged to them. What runs beside computation costs nothing."
    return Section("Largest operations", [Table("By cost", heads, cells, note, labels=2)])


def memory(report: Report, summary: Summary | None, npu: Npu, scale: Scale) -> Section | None:
    """What NPUs hold at their peak and over time, beside what they have."""
    parts = [*_peak(summary, npu), *_held(report, npu, scale)] if summary else _held(report, npu, scale)
    return Section("Memory", parts) if parts else None


def _held(report: Report, npu: Npu, scale: Scale) -> list[Part]:
    """Memory over time, of several classes of ranks."""
    detail = report["detail"]
    if detail is None or not detail["memory"]:
        return []
    classes = report["classes"]
    shown = [item for item in detail["memory"] if item["rank_class"] < len(classes)][:_HELD_CLASSES]
    held = {column(f"ranks {ranks(classes[item['rank_class']])}"): [b / 1e9 for b in item["bytes"]] for item in shown}
    capacity = npu.get("memory_capacity_bytes")
    spec = lines(scale, list(held), {"domain": list(held), "range": PALETTE}, "GB of an NPU", share_axis=False)
    rows = list(bins(report, detail, held))
    note = "Parameters, gradients and optimizer state throughout, activations as they are kept and freed."
    more = f" An NPU has {size(capacity)}." if capacity else ""
    return [Chart("memory_over_time", "Memory of an NPU over time", rows, spec, note + more)]


def _peak(summary: Summary, npu: Npu) -> list[Part]:
    """The most that an NPU of each kind of ranks holds at once, by formula."""
    classes = [item for item in summary.classes if item.memory.total]
    if not classes:
        return []
    shown = classes[:_RANKS]
    rows = [{"ranks": item.name, **{f"{part}_bytes": getattr(item.memory, part) for part in _HELD}} for item in shown]
    capacity = npu.get("memory_capacity_bytes")
    limit = f"The line is what an NPU has, {size(capacity)}." if capacity else ""
    chart = Chart("memory", "Peak memory of an NPU", rows, _memory_spec(capacity), limit)
    cells = [
        [item.name, number(item.ranks), *(size(getattr(item.memory, part)) for part in _HELD), size(item.memory.total)]
        for item in shown
    ]
    heads = ["Ranks", "NPUs", *(part.capitalize() for part in _HELD), "Total"]
    left = len(classes) - len(shown)
    note = f"{number(left)} more are in the JSON." if left else ""
    return [chart, Table("Peak by what it holds", heads, cells, note)]


def _memory_spec(capacity: float | None) -> dict[str, Any]:
    fields = [f"{part}_bytes" for part in _HELD]
    bars = {
        "transform": [
            {"fold": fields, "as": ["field", "bytes"]},
            {"calculate": "replace(datum.field, '_bytes', '')", "as": "holds"},
            {"calculate": "datum.bytes / 1e9", "as": "size"},
            {"calculate": f"indexof({fields}, datum.field)", "as": "place"},
        ],
        "mark": "bar",
        "encoding": {
            "y": {"field": "ranks", "type": "nominal", "sort": None, "title": None, "axis": NAMES},
            "x": {"field": "size", "type": "quantitative", "title": "GB of an NPU"},
            "color": {
                "field": "holds",
                "type": "nominal",
                "title": None,
                "scale": {"domain": list(_HELD), "range": list(_HELD.values())},
            },
            "order": {"field": "place"},
            "tooltip": tooltip("ranks", "holds", ("size", "GB", ",.4~r")),
        },
    }
    if not capacity:
        return bars
    rule = {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"x": {"datum": capacity / 1e9}}}
    return {"layer": [bars, rule]}
