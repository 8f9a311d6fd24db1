"""Contents of memory outside of the NPUs, in a line and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ..schema import Outside, Report
from ..units import GB, counted
from .parts import Table
from .quantity import number, size, time
from .scale import Scale

if TYPE_CHECKING:
    from .chart import Chart

Kind = Literal["weights", "gradients", "optimizer", "tables", "spilled", "other"]

_KINDS: dict[Kind, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "tables": "tables",
    "spilled": "spilled",
    "other": "other tensors",
}
"""Words for what lies there."""


def lines(report: Report) -> list[str]:
    """A line for each kind of memory that NPUs share or whose size is known."""
    return [
        _line(row)
        for row in report["outside"]
        if row["capacity_bytes"] is not None or row["memories"] < report["ranks"]
    ]


def table(report: Report) -> Table | None:
    """A row for each kind of memory; `None` where nothing lies outside."""
    rows = report["outside"]
    if not rows:
        return None
    kinds = [kind for kind in _KINDS if any(_bytes(row, kind) for row in rows)]
    heads = ["Memory", "In use", "NPUs of the fullest", "In the fullest", "Most at"]
    heads += [*(_KINDS[kind].capitalize() for kind in kinds), "Capacity"]
    return Table("Memory outside of the NPUs", heads, [_cells(row, kinds) for row in rows], _NOTE)


def over_time(report: Report, scale: Scale) -> Chart | None:
    """The bytes in the fullest memory of each kind, where they change."""
    from . import chart, run_time

    detail = report["detail"]
    rows = [row for row in detail["outside"] if len(set(row["bytes"])) > 1] if detail else []
    if not detail or not rows:
        return None
    there = {row["name"]: [each / GB for each in row["bytes"]] for row in rows}
    colours: dict[str, object] = {"domain": list(there), "range": chart.PALETTE}
    spec = run_time.lines(report, scale, list(there), colours, "GB outside", share_axis=False)
    table = list(run_time.bins(report, detail["bin_ns"], there))
    return chart.Chart(
        "outside_over_time", "Memory outside of the NPUs over time", table, spec, _TIMES
    )


_TIMES = (
    "Spilled data comes and goes. A tensor that is stored first lies there from then on. Where "
    "accesses do not say to which tensor they are, this is the least."
)
_NOTE = (
    "A tensor lies there once, however often it is accessed. Two amounts: accesses do not say to "
    "which tensor they are."
)


def _line(row: Outside) -> str:
    which = row["name"] if row["memories"] == 1 else f"fullest {row['name']}"
    capacity = row["capacity_bytes"]
    limit = f" of {size(capacity)}" if capacity is not None else ""
    most = "at most " if row["peak_ns"] else ""
    return (
        f"the {which} holds {most}{held(row)}{limit}, for {counted(row['ranks'], 'NPU')}"
        f"{_contents(row)}"
    )


def _contents(row: Outside) -> str:
    """Bytes by what they are, where that is known."""
    parts = [f"{_KINDS[kind]} {size(_bytes(row, kind))}" for kind in _KINDS if _bytes(row, kind)]
    known = any(_bytes(row, kind) for kind in _KINDS if kind != "other")
    return f" ({', '.join(parts)})" if known else ""


def _bytes(row: Outside, kind: Kind) -> int:
    contents = row["contents"]
    amounts: dict[Kind, int] = {
        "weights": contents["weights_bytes"],
        "gradients": contents["gradients_bytes"],
        "optimizer": contents["optimizer_bytes"],
        "tables": contents["tables_bytes"],
        "spilled": contents["spilled_bytes"],
        "other": contents["other_bytes"],
    }
    return amounts[kind]


def held(row: Outside) -> str:
    """Bytes in the fullest memory, or their bounds."""
    least, most = row["least_bytes"], row["most_bytes"]
    return size(most) if least == most else f"{size(least)} to {size(most)}"


def _cells(row: Outside, kinds: Sequence[Kind]) -> list[str]:
    capacity = row["capacity_bytes"]
    return [
        row["name"],
        number(row["memories"]),
        number(row["ranks"]),
        held(row),
        time(row["peak_ns"]),
        *(size(_bytes(row, kind)) for kind in kinds),
        size(capacity) if capacity is not None else "",
    ]
