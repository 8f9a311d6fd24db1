"""Residuals as files: one JSON document for each kind of prediction, in `data/`.

The laboratory writes them from the predictions of its studies (`python -m
armillary_lab.pages.accuracy`)."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

from .interval import Intervals
from .residuals import Residual

DIGITS = 3
"""Decimals of a residual: 0.1 %. Intervals are calibrated with residuals that are rounded to them,
since an interval ends at single measurements."""
_FACTOR_DIGITS = 6
DATA = Path(__file__).resolve().parent / "data"
"""Folder of the tables."""


@cache
def of(kind: str) -> Intervals:
    """The intervals of a kind of prediction: `collectives`, `steps`, or `hardware` (steps
    on hardware that no fit has seen). Without a table of that kind
    they are unbounded."""
    file = DATA / f"{kind}.json"
    if not file.is_file():
        return Intervals((), {})
    found = json.loads(file.read_text(encoding="utf-8"))
    residuals = (
        Residual(each["name"], each["source"], each["labels"], tuple(each["logs"]))
        for each in found["residuals"]
    )
    return Intervals(tuple(residuals), found["likeness"], found["stretch"], found["factors"])


def write(intervals: Intervals, path: Path) -> None:
    """Writes a table, one residual on each line."""
    rows = (
        {
            "name": each.name,
            "source": each.source,
            "labels": dict(each.labels),
            "logs": [round(log, DIGITS) for log in each.logs],
        }
        for each in intervals.residuals
    )
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps(
        {
            "stretch": _up(intervals.stretch),
            "factors": {
                name: {value: _up(factor) for value, factor in values.items()}
                for name, values in intervals.factors.items()
            },
            "likeness": dict(intervals.likeness),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head[:-1]}, "residuals": [\n{lines}\n]}}\n', encoding="utf-8")


def _up(factor: float) -> float:
    """Rounded up, as an interval ends at a measurement that it should hold."""
    parts: int = 10**_FACTOR_DIGITS
    return math.ceil(factor * parts) / parts
