"""How the network of a run is used: phases of collectives, dimensions over time, links.

Queue and network delay by phase is Fig. 12b of the ASTRA-SIM paper (ISPASS 2020). Not here: what
ranks wait for (`run_where.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..schema import Detail, Report
from . import flits, packets, run_tables
from .chart import PALETTE, Chart, wrapping
from .page import Part, Section, Table
from .quantity import bandwidth, share, size, time
from .run_time import bins, column, lines, tooltip
from .scale import Scale

_LINES = 8
"""Lines in the chart of links over time."""
_DELAYS = {
    "waiting in queues": ("queue_ns", "#56b4e9"),
    "on the network": ("network_ns", "#d55e00"),
}


def phases(report: Report) -> Section:
    """Mean queue and network delay of each phase position."""
    found = report["phases"]
    if not found:
        return Section("Phases of collectives", ["No collective went over the network."])
    shown = run_tables.heaviest(report)
    rows: list[dict[str, Any]] = [dict(item) for item in shown]
    scale = Scale.of(max(item["queue_ns"] + item["network_ns"] for item in shown))
    note = (
        "P1 is the first phase of a chunk. ASTRA-sim calls the wait before it P0, the ready queue."
    )
    chart = Chart(
        "phases",
        "Queue and network delay by phase, mean of each",
        rows,
        _phase_spec(scale, rows),
        note,
    )
    return Section("Phases of collectives", [chart, run_tables.phases(report)])


def _phase_spec(scale: Scale, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    axis, height = wrapping([row["name"] for row in rows])
    fields = [field for field, _ in _DELAYS.values()]
    names = ", ".join(f"{field}: '{name}'" for name, (field, _) in _DELAYS.items())
    palette = {"domain": list(_DELAYS), "range": [colour for _, colour in _DELAYS.values()]}
    return {
        "transform": [
            {"fold": fields, "as": ["field", "ns"]},
            scale.calculate("ns", "time"),
            {"calculate": f"({{{names}}})[datum.field]", "as": "delay"},
            {"calculate": f"datum.field == '{fields[0]}' ? 0 : 1", "as": "place"},
        ],
        "mark": "bar",
        "height": height,
        "encoding": {
            "y": {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": axis},
            "x": {"field": "time", "type": "quantitative", "title": scale.axis("time")},
            "color": {"field": "delay", "type": "nominal", "title": None, "scale": palette},
            "order": {"field": "place"},
            "tooltip": tooltip(
                "name", "delay", ("time", scale.axis("time")), ("count", "count", ",")
            ),
        },
    }


def network(report: Report, detail: Detail | None, scale: Scale) -> Section:
    """Dimensions: what they carried, and how busy they were over time."""
    parts: list[Part] = []
    if detail is not None:
        parts += _over_time(report, detail, scale)
    heads = ["Dimension", "Per NPU", "Usable", "Sent", "Takes at least", "Busy", "Utilisation"]
    cells = [
        [
            f"{i}  {item['name']}",
            bandwidth(item["npu_gb_per_s"]),
            bandwidth(item["usable_gb_per_s"]),
            size(item["bytes"]),
            time(item["bound_ns"]),
            time(item["busy_ns"]),
            share(item["utilisation"]),
        ]
        for i, item in enumerate(report["dimensions"], 1)
    ]
    table = Table("Dimensions", heads, cells, _UTILISATION)
    observed = _links_over_time(report, scale)
    used = [
        *_bounds(report),
        *observed,
        *run_tables.links(report),
        *packets.parts(report),
        *flits.parts(report),
    ]
    return Section("Network", [*parts, table, *used])


_UTILISATION = (
    "Usable: bandwidth that the run's algorithms can use. Busy: time in which a chunk of a "
    "collective was in flight. Utilisation: bytes sent / (bandwidth of all NPUs x step time)."
)


def _bounds(report: Report) -> list[Part]:
    """How long these bytes take at least, as they lie on the dimensions; no bound of other orders
    or algorithms."""
    step, bounds = report["step_time_ns"] or 1.0, report["bounds"]
    if not bounds["dimension_ns"]:
        return []
    loaded = f"{time(bounds['dimension_ns'])}, {share(bounds['dimension_ns'] / step)} of the step"
    text = f"Sent over the dimensions as they were, the bytes take at least {loaded}"
    if len(report["dimensions"]) > 1:
        text += (
            f"; with all dimensions busy {time(bounds['network_ns'])}, "
            f"{share(bounds['network_ns'] / step)}"
        )
    return [f"{text}."]


def _over_time(report: Report, detail: Detail, scale: Scale) -> list[Part]:
    """Two charts; without collectives there is nothing in either."""
    busy = _named(report, detail["activity"]["dimensions"])
    waiting = _named(report, detail["activity"]["waiting"])
    charts: list[Part] = []
    if any(map(any, busy.values())):
        palette = {"domain": list(busy), "range": PALETTE}
        spec = lines(report, scale, list(busy), palette, "share of NPUs", share_axis=True)
        rows = list(bins(report, detail["bin_ns"], busy))
        charts.append(
            Chart("dimensions", "Use of the network's dimensions over time", rows, spec, _BUSY)
        )
    if any(max(each, default=0.0) >= _QUEUED for each in waiting.values()):
        palette = {"domain": list(waiting), "range": PALETTE}
        spec = lines(report, scale, list(waiting), palette, "chunks of an NPU", share_axis=False)
        rows = list(bins(report, detail["bin_ns"], waiting))
        charts.append(Chart("queues", "Chunks waiting for a dimension over time", rows, spec))
    return charts


_QUEUED = 0.05
"""Mean number of waiting chunks below which their chart would be empty."""
_BUSY = "The share of NPUs that have a chunk of a collective in a phase on the dimension."


def _named(report: Report, series: list[list[float]]) -> dict[str, list[float]]:
    """Series by name of their dimension; where collectives run over other dimensions than the
    network's, by number."""
    dims = report["dimensions"]
    names = (
        [item["name"] for item in dims] if len(dims) == len(series) else ["dimension"] * len(series)
    )
    return {
        column(f"{i} {name}"): values
        for i, (name, values) in enumerate(zip(names, series, strict=True), 1)
    }


def _links_over_time(report: Report, scale: Scale) -> list[Part]:
    """Utilisation of the busiest links, as the backend observed it; each row of links has a
    line."""
    observed = report["network"]
    if observed is None:
        return []
    shown = [item for item in observed["series"] if item["quantity"] == "utilisation"][:_LINES]
    series = {column(item["name"]): item["values"] for item in shown}
    if not series:
        return []
    palette = {"domain": list(series), "range": PALETTE}
    spec = lines(report, scale, list(series), palette, "share of time", share_axis=True)
    rows = list(bins(report, observed["bin_ns"], series))
    note = f"Means over {time(observed['bin_ns'])}. Links used alike are one line."
    return [Chart("links", "Busiest links over time", rows, spec, note)]
