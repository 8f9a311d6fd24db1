"""A calibration on a terminal: parameters with intervals, errors by size, outliers, what changed
without a measurement.

Not here: its charts and page (`calibration_page.py`), the fit (`calibrate`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from .. import nccl
from ..units import BYTES_PER_US, NS_PER_US, counted
from .quantity import time
from .terminal import emit

_MOST = 10
"""Outliers that are named."""
_LISTED = 30
"""Kernels up to which each has a line."""

_SAME = 0.005
"""Smallest relative change that counts."""

BANDS = (
    ("up to 64 KiB", 0, 2**16),
    ("to 16 MiB", 2**16 + 1, 2**24 - 1),
    ("16 MiB and above", 2**24, 2**63),
)


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints a calibration, as its JSON has it."""
    emit(console, _parts(found))


def _parts(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    points, kernels = found["points"], found["kernels"]
    counts = (
        counted(len(points), "point") if points else "",
        f"{len(kernels)} kernels" if kernels else "",
    )
    yield Text(
        f"Calibrated {found['platform']} on {' and '.join(filter(None, counts))}", "bold green"
    )
    yield Text(verdict(found))
    if any(each["fitted"] != each["given"] or each["found"] for each in found["parameters"]):
        yield _parameters(found["parameters"])
    if points:
        yield _errors(points)
        yield from _unmeasured(found["curves"])
    if kernels:
        yield _kernels(kernels)
    yield from _outliers([point for point in points if point["outlier"]])
    for note in found["notes"]:
        yield Text(note)


def _outliers(outliers: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    for point in outliers[:_MOST]:
        place = f"{point['collective']} over {point['ranks']}, {point['bytes']} bytes"
        yield Text(
            f"outlier: {place}: measured {point['measured_us']:.1f} us, fitted "
            f"{point['fitted_us']:.1f} us"
        )
    if len(outliers) > _MOST:
        yield Text(f"and {len(outliers) - _MOST} more outliers")


def _kernels(kernels: Sequence[Mapping[str, Any]]) -> Table:
    """Every kernel with its times where there are few, and errors by kind."""
    table = Table(box=None, header_style="bold")
    for name in ("Kernels", "Measured", "Before", "After", ""):
        table.add_column(name, justify="left" if name in ("Kernels", "") else "right")
    for each in (
        kernels
        if len(kernels) <= _LISTED
        else [kernel for kernel in kernels if kernel["outlier"]][:_MOST]
    ):
        times = [f"{each[which]:.2f} us" for which in ("measured_us", "given_us", "fitted_us")]
        table.add_row(each["kernel"], *times, "outlier" if each["outlier"] else "")
    for kind in ("multiplication", "stream"):
        chosen = [kernel for kernel in kernels if kernel["kind"] == kind]
        if chosen:
            errors = [f"{error(chosen, which):.1f} %" for which in ("given_us", "fitted_us")]
            table.add_row(f"error of {len(chosen)} {kind}s", "", *errors, "")
    return table


def _parameters(parameters: Sequence[Mapping[str, Any]]) -> Table:
    """Table of the parameters that measurements constrain, with their changes."""
    table = Table(box=None, header_style="bold")
    for name in ("Parameter", "Was", "Is", "95 %"):
        table.add_column(name, justify="left" if name == "Parameter" else "right")
    for each in parameters:
        if each["found"] or each["fitted"] != each["given"]:
            unit = each["unit"]
            interval = f"{each['low']:.3g} to {each['high']:.3g}" if each["found"] else "not alone"
            row = (f"{each['given']:.4g} {unit}", f"{each['fitted']:.4g} {unit}", interval)
            table.add_row(each["key"].removeprefix("library.").removeprefix("npu.compute."), *row)
    return table


def verdict(found: Mapping[str, Any]) -> str:
    """Result of the calibration in one or two sentences."""
    points, parameters = found["points"], found["parameters"]
    moved = sum(each["fitted"] != each["given"] for each in parameters)
    parts = [f"{moved} of {len(parameters)} parameters change"]
    for many, what in ((points, "collectives"), (found["kernels"], "kernels")):
        if many:
            before, after = (error(many, which) for which in ("given_us", "fitted_us"))
            moves = f"goes from {before:.1f} to {after:.1f} %"
            if f"{before:.1f}" == f"{after:.1f}":
                moves = f"stays at {after:.1f} %"
            parts.append(f"the mean error of measured {what} {moves}")
    others = [abs(change(curve)) for curve in found["curves"] if not curve["measured"]]
    if others:
        parts.append(
            f"collectives without a measurement change by at most {100 * max(others):.1f} %"
        )
    return "; ".join(parts).capitalize() + "."


def change(curve: Mapping[str, Any]) -> float:
    """The largest change of a time of a curve, as a part of it, with its sign."""
    pairs = zip(curve["before_us"], curve["after_us"], strict=True)
    return max((after / before - 1 for before, after in pairs), key=abs, default=0.0)


def changed(curves: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The curves of collectives without a measurement whose times changed."""
    return [curve for curve in curves if not curve["measured"] and abs(change(curve)) > _SAME]


def unmeasured(curves: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of collectives without a measurement that changed: what, ranks, size, time and bus
    bandwidth, change."""
    return [row for curve in changed(curves) for row in _rows(curve)]


UNMEASURED = (
    "Not measured",
    "Ranks",
    "Size",
    "Before",
    "After",
    "Busbw before",
    "Busbw after",
    "Change",
)


def _rows(curve: Mapping[str, Any]) -> Iterator[list[str]]:
    for bytes_, before, after in zip(
        curve["bytes"], curve["before_us"], curve["after_us"], strict=True
    ):
        speeds = (f"{bus(curve, bytes_, us):.1f} GB/s" for us in (before, after))
        times = (time(us * NS_PER_US) for us in (before, after))
        where = (curve["collective"], f"{curve['ranks']:,}", binary(bytes_))
        yield [*where, *times, *speeds, f"{100 * (after / before - 1):+.1f} %"]


def binary(size: int) -> str:
    """A size in powers of 1024, as nccl-tests has them: `64 KiB`."""
    at = min(max(size, 1).bit_length() - 1, 49) // 10
    return f"{size / 1024**at:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[at]}"


def bus(curve: Mapping[str, Any], bytes_: int, us: float) -> float:
    """Bus bandwidth in GB/s of a time in us."""
    return float(bytes_ / us / BYTES_PER_US * nccl.bus_factor(curve["collective"], curve["ranks"]))


def _unmeasured(curves: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """The largest change of each collective without a measurement."""
    rows = [
        max(_rows(curve), key=lambda row: abs(float(row[-1].removesuffix(" %"))))
        for curve in changed(curves)
    ]
    if not rows:
        yield Text("Collectives that were not measured stay as they were.")
        return
    table = Table(box=None, header_style="bold")
    shown = [
        at for at, name in enumerate(UNMEASURED) if name not in ("Busbw before", "Busbw after")
    ]
    for at in shown:
        table.add_column(UNMEASURED[at], justify="left" if at == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[at] for at in shown))
    yield table


def _errors(points: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("Sizes", "Points", "Error before", "Error after", "Between sizes"):
        table.add_column(name, justify="left" if name == "Sizes" else "right")
    for row in errors(points):
        table.add_row(*row)
    return table


def errors(points: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows by band of sizes: points, mean errors before, after, and of sizes that were left out."""
    rows = []
    for words, low, high in BANDS:
        chosen = [point for point in points if low <= point["bytes"] <= high]
        if chosen:
            found = [
                f"{error(chosen, which):.1f} %" for which in ("given_us", "fitted_us", "between_us")
            ]
            rows.append([words, str(len(chosen)), *found])
    return rows


def error(points: Sequence[Mapping[str, Any]], which: str) -> float:
    """Geometric mean error in percent of the times `which` against measured ones."""
    logs = [abs(math.log(point[which] / point["measured_us"])) for point in points]
    return 100 * (math.exp(sum(logs) / len(logs)) - 1)
