"""What makes other points slower than the best one: bubble, compute and exposed communication, next
to those of the winner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..report.page import Table
from ..report.quantity import share, time
from .view import spread

if TYPE_CHECKING:
    from .view import View

WHY = ("bubble", "mean_compute_ns", "mean_exposed_comm_ns", "mean_idle_ns")
"""Columns of the table: a share, and means over all ranks."""
_NAMES = ("Bubble", "Compute", "Exposed comm.", "Idle")
_MOST = 20


def losers(view: View) -> list[dict[str, Any]]:
    """The winner, and points that rank behind it, evenly over the ranking: the columns in which
    they differ, and `against`, the differences to the winner."""
    if not view.ranking:
        return []
    names = _known(view)
    rows = view.ran.select("index", "step_time_ns", *names).to_dicts()
    chosen = [rows[at] for at in spread(view.ranking, _MOST)]
    return [
        {**row, "against": {name: _less(row[name], chosen[0][name]) for name in names}}
        for row in chosen
    ]


def _known(view: View) -> list[str]:
    return [name for name in WHY if name in view.ran.columns]


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def table(view: View) -> Table:
    """The same for a page."""
    rows = [
        (
            f"{row['index']:,}",
            time(row["step_time_ns"]),
            *(_cell(name, row[name], more) for name, more in row["against"].items()),
        )
        for row in losers(view)
    ]
    known = _known(view)
    heads = [head for name, head in zip(WHY, _NAMES, strict=True) if name in known]
    note = (
        "The first row is the winner; in brackets, the difference to it. Times are means over all "
        "ranks; the bubble is the share that the schedule of the pipeline leaves empty."
    )
    return Table("Points against the winner", ["Point", "Step", *heads], rows, note)


def _cell(name: str, value: float | None, more: float | None) -> str:
    if value is None:
        return "-"
    said = share if name == "bubble" else time
    sign = "+" if (more or 0) > 0 else "-"
    return f"{said(value)} ({sign}{said(abs(more))})" if more else str(said(value))
