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

BANDS = (("up to 64 KiB", 0, 2**16), ("to 16 MiB", 2**16 + 1, 2**24 - 1), ("16 MiB and above", 2**24, 2**63))


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints a calibration, as its JSON has it."""
    emit(console, _parts(found))


def _parts(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(f"Calibrated {found['platform']} on {len(found['points'])} points", "bold green")
    yield _parameters(found["parameters"])
    yield _errors(found["points"])
    outliers = [point for point in found["points"] if point["outlier"]]
    for point in outliers[:10]:
        place = f"{point['collective']} over {point['ranks']}, {point['bytes']} bytes"
        yield Text(f"outlier: {place}: measured {point['measured_us']:.1f} us, fitted {point['fitted_us']:.1f} us")
    if len(outliers) > 10:
        yield Text(f"and {len(outliers) - 10} more outliers")
    for note in found["notes"]:
        yield Text(note)


def _parameters(parameters: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("Parameter", "Was", "Is", "95 %"):
        table.add_column(name, justify="left" if name == "Parameter" else "right")
    for each in parameters:
        if each["found"]:
            unit = each["unit"]
            interval = f"{each['low']:.3g} to {each['high']:.3g}"
            row = (f"{each['given']:.4g} {unit}", f"{each['fitted']:.4g} {unit}", interval)
            table.add_row(each["key"].removeprefix("library."), *row)
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
    """Measured and fitted times by size."""
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
