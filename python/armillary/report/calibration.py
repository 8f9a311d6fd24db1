"""A calibration in words and rows: its verdict, errors by size, what changed without a measurement.

Not here: its charts and page (`calibration_page.py`), the fit (`calibrate`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import nccl
from ..units import BYTES_PER_US, NS_PER_US
from .quantity import time

_SAME = 0.005
"""Smallest relative change that counts."""

BANDS = (
    ("up to 64 KiB", 0, 2**16),
    ("to 16 MiB", 2**16 + 1, 2**24 - 1),
    ("16 MiB and above", 2**24, 2**63),
)


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
    """Rows of collectives without a measurement that changed, the largest change first: what,
    ranks, size, time and bus bandwidth, change."""
    rows = [row for curve in changed(curves) for row in _rows(curve)]
    return sorted(rows, key=lambda row: -abs(float(row[-1].removesuffix(" %"))))


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
