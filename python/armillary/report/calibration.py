"""A calibration: parameters with intervals, errors by size, outliers, and measured against fitted as a chart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from .chart import Chart
from .terminal import emit

_MOST = 10
"""Outliers that are named."""
_LISTED = 30
"""Kernels up to which each has a line."""

BANDS = (("up to 64 KiB", 0, 2**16), ("to 16 MiB", 2**16 + 1, 2**24 - 1), ("16 MiB and above", 2**24, 2**63))


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints a calibration, as its JSON has it."""
    emit(console, _parts(found))


def _parts(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    points, kernels = found["points"], found["kernels"]
    counts = (f"{len(points)} points" if points else "", f"{len(kernels)} kernels" if kernels else "")
    yield Text(f"Calibrated {found['platform']} on {' and '.join(filter(None, counts))}", "bold green")
    yield _parameters(found["parameters"])
    if points:
        yield _errors(points)
    if kernels:
        yield _kernels(kernels)
    yield from _outliers([point for point in points if point["outlier"]])
    for note in found["notes"]:
        yield Text(note)


def _outliers(outliers: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    for point in outliers[:_MOST]:
        place = f"{point['collective']} over {point['ranks']}, {point['bytes']} bytes"
        yield Text(f"outlier: {place}: measured {point['measured_us']:.1f} us, fitted {point['fitted_us']:.1f} us")
    if len(outliers) > _MOST:
        yield Text(f"and {len(outliers) - _MOST} more outliers")


def _kernels(kernels: Sequence[Mapping[str, Any]]) -> Table:
    """Every kernel with its times where there are few, and errors by kind."""
    table = Table(box=None, header_style="bold")
    for name in ("Kernels", "Measured", "Before", "After", ""):
        table.add_column(name, justify="left" if name in ("Kernels", "") else "right")
    for each in kernels if len(kernels) <= _LISTED else [kernel for kernel in kernels if kernel["outlier"]][:_MOST]:
        times = [f"{each[which]:.2f} us" for which in ("measured_us", "given_us", "fitted_us")]
        table.add_row(each["kernel"], *times, "outlier" if each["outlier"] else "")
    for kind in ("multiplication", "stream"):
        chosen = [kernel for kernel in kernels if kernel["kind"] == kind]
        if chosen:
            errors = [f"{_error(chosen, which):.1f} %" for which in ("given_us", "fitted_us")]
            table.add_row(f"error of {len(chosen)} {kind}s", "", *errors, "")
    return table


def _parameters(parameters: Sequence[Mapping[str, Any]]) -> Table:
    """What is told, and what moved without being told."""
    table = Table(box=None, header_style="bold")
    for name in ("Parameter", "Was", "Is", "95 %"):
        table.add_column(name, justify="left" if name == "Parameter" else "right")
    for each in parameters:
        if each["found"] or each["fitted"] != each["given"]:
            unit = each["unit"]
            interval = f"{each['low']:.3g} to {each['high']:.3g}" if each["found"] else "not told"
            row = (f"{each['given']:.4g} {unit}", f"{each['fitted']:.4g} {unit}", interval)
            table.add_row(each["key"].removeprefix("library.").removeprefix("npu.compute."), *row)
    return table


def _errors(points: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("Sizes", "Points", "Error before", "Error after", "Between sizes"):
        table.add_column(name, justify="left" if name == "Sizes" else "right")
    for words, low, high in BANDS:
        chosen = [point for point in points if low <= point["bytes"] <= high]
        if chosen:
            errors = [f"{_error(chosen, which):.1f} %" for which in ("given_us", "fitted_us", "between_us")]
            table.add_row(words, str(len(chosen)), *errors)
    return table


def _error(points: Sequence[Mapping[str, Any]], which: str) -> float:
    logs = [abs(math.log(point[which] / point["measured_us"])) for point in points]
    return 100 * (math.exp(sum(logs) / len(logs)) - 1)


def chart(found: Mapping[str, Any]) -> Chart:
    """Measured and fitted times by size; with kernels, fitted over measured."""
    return _against(found) if found["kernels"] else _by_size(found)


def _against(found: Mapping[str, Any]) -> Chart:
    """Fitted over measured times of everything, and the line where they are the same."""
    rows = [
        {"what": each.get("kernel") or f"{each['bytes']} bytes", "kind": each.get("kind") or each["collective"]}
        | {key: each[key] for key in ("measured_us", "fitted_us")}
        for each in (*found["kernels"], *found["points"])
    ]
    ends = [find(row["measured_us"] for row in rows) for find in (min, max)]
    axes = {
        name: {"field": f"{key}_us", "type": "quantitative", "title": f"{key}, us", "scale": {"type": "log"}}
        for name, key in (("x", "measured"), ("y", "fitted"))
    }
    spec = {
        "height": 320,
        "layer": [
            {
                "data": {"values": [{"measured_us": end, "fitted_us": end} for end in ends]},
                "mark": {"type": "line", "color": "#888888"},
                "encoding": axes,
            },
            {
                "mark": {"type": "point", "filled": True, "tooltip": {"content": "data"}},
                "encoding": {**axes, "color": {"field": "kind", "type": "nominal", "title": None}},
            },
        ],
    }
    return Chart("calibration", f"{found['platform']}: measured and fitted", rows, spec)


def _by_size(found: Mapping[str, Any]) -> Chart:
    rows = [
        {
            "bytes": point["bytes"],
            "us": point[f"{kind}_us"],
            "time": kind,
            "log": f"{point['collective']} over {point['ranks']}",
        }
        for point in found["points"]
        for kind in ("measured", "fitted")
        if point["bytes"] > 0
    ]
    axis = {"type": "quantitative", "scale": {"type": "log"}}
    spec = {
        "mark": {"type": "point", "filled": True},
        "height": 320,
        "encoding": {
            "x": {"field": "bytes", "title": "bytes", **axis},
            "y": {"field": "us", "title": "us", **axis},
            "color": {"field": "log", "type": "nominal", "title": None},
            "shape": {"field": "time", "type": "nominal", "title": None},
        },
    }
    return Chart("calibration", f"{found['platform']}: measured and fitted", rows, spec)
