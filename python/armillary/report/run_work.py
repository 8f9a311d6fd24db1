"""Operations of a run: the critical path, the operations by cost, the memory that ranks need.

Not here: classes of ranks (`run_where.py`), layers (`run_layers.py`), the network
(`run_network.py`)."""

from __future__ import annotations

from typing import Any

from ..schema import CriticalPath, Detail, PathPart, Report
from ..step_parts import PARTS
from ..units import GB
from ..workload import Summary
from . import names, outside, path_layers, run_tables
from .chart import COLOURS, PALETTE, Chart
from .page import Part, Section, Table
from .plain_names import Named
from .quantity import number, share, size, time
from .reading import Npu
from .run_time import NAMES, bins, column, lines, palette, stacked, tooltip
from .scale import Scale

_RANKS = 32
_HELD_CLASSES = 8
"""Classes of ranks whose memory is drawn over time."""
_HELD = {
    "weights": PALETTE[0],
    "gradients": PALETTE[1],
    "optimizer": PALETTE[2],
    "activations": PALETTE[3],
    "temporary": PALETTE[4],
}


_COLOURS = {
    **{kind: part.style.colour for part in PARTS if part.doing for kind in part.doing.kinds},
    "store": COLOURS["local memory"],
    "all_reduce": COLOURS["communication"],
    "all_gather": "#cc79a7",
    "reduce_scatter": "#8c6d31",
    "all_to_all": "#56b4e9",
    "send": "#7b6fd0",
    "recv": "#a56cc1",
}
"""Colours of kinds of operations on the path; other kinds take those that are left."""


def critical_path(report: Report, detail: Detail, scale: Scale) -> Section:
    """The operations that the step takes as long as: over time, by operation, and their sums."""
    path, step = detail["critical_path"], report["step_time_ns"] or 1.0
    if not path["count"]:
        return Section("Critical path", ["Nothing ran."])
    sums: list[tuple[str, list[PathPart]]] = [(title, path[key]) for title, key in _SUMS]  # type: ignore[literal-required]
    tables = [_operations_of(path, step)]
    tables += [_sums(title, parts, step) for title, parts in sums if _divided(parts, step)]
    tables += [path_layers.table(report)] if _divided(path["by_layer"], step) else []
    return Section("Critical path", [_PATH, *_path_over_time(report, detail, scale), *tables])


_PATH = (
    "The chain of operations, without gaps, that determines the step time. The step gets shorter "
    "only if this chain does."
)
_SUMS = (("By kind", "by_kind"), ("By cause", "by_cause"))


def _path_over_time(report: Report, detail: Detail, scale: Scale) -> list[Part]:
    """Which kinds of operations the path is made of, bin by bin."""
    shares = _shares(detail)
    if not shares:
        return []
    rows = list(bins(report, detail["bin_ns"], shares))
    colours = palette(_COLOURS, [{"kind": kind} for kind in shares])
    spec = stacked(report, scale, colours["domain"], colours, "share of the path")
    note = f"The path in steps of {time(detail['bin_ns'])}, by kind of operation."
    return [Chart("critical_path", "Critical path over time", rows, spec, note)]


def _shares(detail: Detail) -> dict[str, list[float]]:
    """Share of each kind in the path's time of each bin."""
    series = detail["critical_path"]["over_time"]
    totals = [sum(each) or 1.0 for each in zip(*(item["ns"] for item in series), strict=True)]
    return {
        column(item["kind"]): [ns / total for ns, total in zip(item["ns"], totals, strict=True)]
        for item in series
    }


def _operations_of(path: CriticalPath, step: float) -> Table:
    several = len({item["cause"] for item in path["by_operation"]}) > 1
    cells = [
        [
            Named(item["name"]),
            item["kind"],
            number(item["count"]),
            time(item["ns"]),
            share(item["ns"] / step),
            *([item["cause"]] if several else []),
        ]
        for item in path["by_operation"]
    ]
    heads = ["Operation", "Kind", "Parts", "Time", "Share"]
    heads += ["Mostly began after"] if several else []
    return Table(
        "Operations on the path", heads, cells, "A star stands for the numbers in a name.", labels=2
    )


def _divided(parts: list[PathPart], step: float) -> bool:
    """Whether there are parts, and none is nearly all of the path, which a table would repeat."""
    return bool(parts) and max(part["ns"] for part in parts) < _WHOLE * step


_WHOLE = 0.99


def _sums(title: str, parts: list[PathPart], step: float) -> Table:
    cells = [
        [part["name"], number(part["count"]), time(part["ns"]), share(part["ns"] / step)]
        for part in parts
    ]
    head = "Began after" if title == "By cause" else title.removeprefix("By ").capitalize()
    return Table(title, [head, "Parts", "Time", "Share"], cells, shown=8)


def operations(report: Report) -> Section:
    """The operations that cost most, over all ranks."""
    if not report["operations"]:
        return Section("Operations", ["Nothing ran."])
    return Section("Operations", [run_tables.operations(report)])


def memory(report: Report, summary: Summary | None, npu: Npu, scale: Scale) -> Section | None:
    """Memory of NPUs at its peak and over time, and their capacity."""
    parts = (
        [*_peak(summary, npu), *_held(report, npu, scale)] if summary else _held(report, npu, scale)
    )
    parts += [part for part in (outside.table(report), outside.over_time(report, scale)) if part]
    return Section("Memory", parts) if parts else None


def _held(report: Report, npu: Npu, scale: Scale) -> list[Part]:
    """Memory over time, of several classes of ranks."""
    detail = report["detail"]
    if detail is None or not detail["memory"]:
        return []
    classes = report["classes"]
    shown = [item for item in detail["memory"] if item["rank_class"] < len(classes)][:_HELD_CLASSES]
    called = names.classes(classes)
    held = {column(called[item["rank_class"]]): [b / GB for b in item["bytes"]] for item in shown}
    capacity = npu.get("memory_capacity_bytes")
    spec = lines(
        report,
        scale,
        list(held),
        {"domain": list(held), "range": PALETTE},
        "GB of an NPU",
        share_axis=False,
    )
    rows = list(bins(report, detail["bin_ns"], held))
    note = "Parameters, gradients and optimizer state are held throughout; activations come and go."
    more = f" An NPU has {size(capacity)}." if capacity else ""
    return [Chart("memory_over_time", "Memory of an NPU over time", rows, spec, note + more)]


def _peak(summary: Summary, npu: Npu) -> list[Part]:
    """The most that an NPU of each kind of ranks holds at once, by formula."""
    classes = [item for item in summary.classes if item.memory.total]
    if not classes:
        return []
    shown = classes[:_RANKS]
    rows = [
        {"ranks": item.name, **{f"{part}_bytes": getattr(item.memory, part) for part in _HELD}}
        for item in shown
    ]
    capacity = npu.get("memory_capacity_bytes")
    limit = f"The line is the capacity of an NPU, {size(capacity)}." if capacity else ""
    chart = Chart("memory", "Peak memory of an NPU", rows, _memory_spec(capacity), limit)
    cells = [
        [
            item.name,
            number(item.ranks),
            *(size(getattr(item.memory, part)) for part in _HELD),
            size(item.memory.total),
            *((size(item.outside),) if summary.host else ()),
        ]
        for item in shown
    ]
    heads = ["Ranks", "NPUs", *(part.capitalize() for part in _HELD), "Total"]
    heads += ["On the host"] if summary.host else []
    left = len(classes) - len(shown)
    note = f"{number(left)} more are in the JSON." if left else ""
    return [chart, Table("Peak memory by contents", heads, cells, note)]


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
    rule = {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {"x": {"datum": capacity / GB}},
    }
    return {"layer": [bars, rule]}
