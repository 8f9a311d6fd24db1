"""Contents of memory outside of the NPUs, in a line and as a table."""

from __future__ import annotations

from ..schema import Outside, Report
from ..units import counted
from .page import Table
from .quantity import number, size


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
    heads = ["Memory", "In use", "NPUs of the fullest", "In the fullest", "Capacity"]
    return Table("Memory outside of the NPUs", heads, [_cells(row) for row in rows], _NOTE)


_NOTE = (
    "A tensor lies there once, however often it is accessed. Two amounts: accesses do not say to "
    "which tensor they are."
)


def _line(row: Outside) -> str:
    which = row["name"] if row["memories"] == 1 else f"fullest {row['name']}"
    capacity = row["capacity_bytes"]
    limit = f" of {size(capacity)}" if capacity is not None else ""
    return f"the {which} holds {held(row)}{limit}, for {counted(row['ranks'], 'NPU')}"


def held(row: Outside) -> str:
    """Bytes in the fullest memory, or their bounds."""
    least, most = row["least_bytes"], row["most_bytes"]
    return size(most) if least == most else f"{size(least)} to {size(most)}"


def _cells(row: Outside) -> list[str]:
    capacity = row["capacity_bytes"]
    return [
        row["name"],
        number(row["memories"]),
        number(row["ranks"]),
        held(row),
        size(capacity) if capacity is not None else "",
    ]
