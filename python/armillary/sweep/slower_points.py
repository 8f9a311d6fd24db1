"""Reasons why other points are slower than the best one: bubble, compute and exposed communication,
next to those of the winner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..report.chart import Chart
from ..report.page import Brief, Table
from ..report.quantity import share, time
from ..report.scale import Scale
from ..step_parts import PARTS
from .view import spread

if TYPE_CHECKING:
    from ..step_parts import PartDeclaration
    from .view import View

WHY = ("bubble", "mean_compute_ns", "mean_exposed_comm_ns", "mean_idle_ns")
"""Columns of the table: a share, and means over all ranks."""
_NAMES = ("bubble", "compute", "exposed comm.", "idle")
_MOST = 20
_ON_TERMINAL = 6
_BARS = 10
_MEANS = "Means over all ranks. The winner, and points evenly over the ranking."


def losers(view: View) -> list[dict[str, Any]]:
    """The winner, and points that rank behind it, evenly over the ranking: the columns in which
    they differ, and `against`, the differences to the winner."""
    if not view.ranking:
        return []
    names = _known(view)
    rows = view.ran.rows(("index", "step_time_ns", *names))
    chosen = [rows[at] for at in spread(view.ranking, _MOST)]
    return [
        {**row, "against": {name: _less(row[name], chosen[0][name]) for name in names}}
        for row in chosen
    ]


def _known(view: View) -> list[str]:
    return [name for name in WHY if name in view.ran.columns]


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def charts(view: View) -> list[Chart]:
    """The parts of the step of the same points, as bars, the winner first; none where no part is
    known."""
    fields = {f"mean_{part.field}": part for part in PARTS}
    names = [name for name in fields if name in view.ran.columns and any(view.ran[name])]
    if not names:
        return []
    rows = view.ran.rows(("index", "step_time_ns", *names))
    chosen = [rows[at] for at in spread(view.ranking, _BARS)]
    scale = Scale.of(max(row["step_time_ns"] for row in chosen))
    drawn = [
        {
            "point": f"point {row['index']:,}{', the best' if row is chosen[0] else ''}",
            "part": fields[name].label,
            "time": round((row[name] or 0) / scale.ns, 6),
            "order": place,
        }
        for row in chosen
        for place, name in enumerate(names)
    ]
    spec = _bars(names, fields, scale)
    return [Chart("losers", "Where the time goes", drawn, spec, _MEANS)]


def _bars(
    names: Sequence[str], parts: Mapping[str, PartDeclaration], scale: Scale
) -> dict[str, Any]:
    """How the bars are drawn."""
    labels, colours = zip(*((parts[n].label, parts[n].style.colour) for n in names), strict=True)
    part: dict[str, Any] = {"field": "part", "type": "nominal", "title": None}
    part["scale"] = {"domain": list(labels), "range": list(colours)}
    return {
        "mark": {"type": "bar", "height": {"band": 0.7}},
        "encoding": {
            "x": {"field": "time", "type": "quantitative", "title": scale.axis("time")},
            "y": {"field": "point", "type": "nominal", "sort": None, "title": None},
            "color": part,
            "order": {"field": "order", "type": "quantitative"},
            "tooltip": [
                {"field": "point"},
                {"field": "part"},
                {"field": "time", "title": scale.axis("time"), "format": ".4~g"},
            ],
        },
    }


def table(view: View) -> Table:
    """The same for a page."""
    others = losers(view)
    given = {row["index"]: row for row in view.ran.rows(("index", *view.columns))}
    rows = [
        (
            f"{row['index']:,}: {_changed(view, given[row['index']], given[others[0]['index']])}",
            time(row["step_time_ns"]),
            *(_cell(name, row[name], more) for name, more in row["against"].items()),
        )
        for row in others
    ]
    known = _known(view)
    heads = [head for name, head in zip(WHY, _NAMES, strict=True) if name in known]
    note = (
        "The first row is the winner; in brackets, the difference to it. Times are means over all "
        "ranks; the bubble is the share that the schedule of the pipeline leaves empty."
    )
    columns = ["point: what differs", "step", *heads]
    return Table("Points against the winner", columns, rows, note, brief=Brief(rows=_ON_TERMINAL))


def _changed(view: View, row: Mapping[str, Any], winner: Mapping[str, Any]) -> str:
    """The parameters of a point that are not those of the winner."""
    different = [name for name in view.columns if row[name] != winner[name]]
    return ", ".join(f"{view.short[name]} {row[name]}" for name in different) or "the winner"


def _cell(name: str, value: float | None, more: float | None) -> str:
    if value is None:
        return "-"
    said = share if name == "bubble" else time
    sign = "+" if (more or 0) > 0 else "-"
    return f"{said(value)} ({sign}{said(abs(more))})" if more else str(said(value))
