"""Activity of a run over time: a lane for each pipeline stage, activity of NPUs, and the axes of
all charts over time.

Here: the Gantt chart, activity, and the axes that all charts over time share. Not here: the network
over time (`run_network.py`), memory and the critical path over time (`run_work.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..schema import Detail, GanttBar, Report
from ..step_parts import PARTS
from .chart import COLOURS, Chart, zoomed
from .page import Part, Section
from .quantity import time
from .scale import Scale

NAMES = {"labelLimit": 0, "labelExpr": "truncate(datum.label, 44)"}
"""An axis of names. To measure a text is what takes longest of drawing a chart, so they are cut by
characters."""
KINDS = {
    "forward": "#0072b2",
    "backward": "#009e73",
    "weight_grad": "#8c6d31",
    "recompute": "#cc79a7",
    "optimizer": "#e69f00",
    **{part.doing.lane.kind: part.doing.lane.colour for part in PARTS if part.doing},
}
"""Colours of what a lane shows; kinds that are not here take the palette's."""
_OTHERS = ("#56b4e9", "#cc79a7", "#009e73", "#8c6d31", "#f0e442")
_LANE = 22
"""Pixels of a lane."""
_BARS = 3000
"""Bars drawn in all lanes together, or a page would be too large."""
_FEWEST = 60
"""Bars of a lane in any case."""


def over_time(report: Report, detail: Detail, scale: Scale) -> Section:
    """Lanes of pipeline stages, and which share of NPUs computes, communicates, accesses memory,
    moment by moment."""
    parts: list[Part] = [*_gantt(report, detail, scale), *_activity(report, detail, scale)]
    return Section("Over time", parts or ["Nothing ran."])


def _gantt(report: Report, detail: Detail, scale: Scale) -> Iterator[Part]:
    lanes = detail["gantt"]
    most = max(_BARS // max(len(lanes), 1), _FEWEST)
    rows: list[dict[str, Any]] = [
        {
            "lane": lane["label"],
            "kind": bar["kind"],
            "label": bar["label"],
            "start_ns": round(bar["start_ns"]),
            "end_ns": round(bar["end_ns"]),
        }
        for lane in lanes
        for bar in _coarse(lane["bars"], most)
    ]
    if not rows:
        return
    note = (
        "The first rank of each stage. Gaps are waits for other stages, the bubble of a pipeline, "
        "and idle time."
    )
    if len(rows) < sum(len(lane["bars"]) for lane in lanes):
        note += " Neighbours of the same kind are drawn as one; the JSON has each."
    title = "What each stage does" if len(lanes) > 1 else "What a rank does"
    yield Chart("gantt", title, rows, _lanes(report, scale, rows), note)


def _coarse(bars: Sequence[GanttBar], most: int) -> list[GanttBar]:
    """At most about `most` bars: neighbours of one kind become one, the closest and shortest
    first."""
    pairs = [
        (after["start_ns"] - before["end_ns"], after["end_ns"] - before["start_ns"], i)
        for i, (before, after) in enumerate(pairwise(bars), 1)
        if before["kind"] == after["kind"]
    ]
    joined = {i for *_, i in sorted(pairs)[: max(len(bars) - most, 0)]}
    found: list[GanttBar] = []
    for i, bar in enumerate(bars):
        if i in joined:
            label = f"{found[-1]['label'].split(' to ')[0]} to {bar['label']}"
            found[-1] = {**found[-1], "end_ns": bar["end_ns"], "label": label}
        else:
            found.append(bar)
    return found


def _lanes(report: Report, scale: Scale, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    params, axis = zoomed(scale.axis("time"), "from", report["step_time_ns"] / scale.ns)
    return {
        "params": params,
        "height": {"step": _LANE},
        "transform": [
            scale.calculate("start_ns", "from"),
            scale.calculate("end_ns", "to"),
            {"calculate": "datum.to - datum.from", "as": "time"},
        ],
        "mark": {"type": "bar", "height": {"band": 0.86}, "clip": True, "aria": False},
        "encoding": {
            "y": {"field": "lane", "type": "nominal", "sort": None, "title": None, "axis": NAMES},
            "x": axis,
            "x2": {"field": "to"},
            "color": {
                "field": "kind",
                "type": "nominal",
                "title": None,
                "scale": palette(KINDS, rows),
            },
            "tooltip": tooltip(
                "lane", "kind", "label", ("time", scale.axis("time")), ("from", scale.axis("from"))
            ),
        },
    }


def palette(known: dict[str, str], rows: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """A scale of colours for the kinds of some rows: known ones in their order, then the others."""
    there = {row["kind"]: None for row in rows}
    kinds = [
        *(kind for kind in known if kind in there),
        *(kind for kind in there if kind not in known),
    ]
    others = [kind for kind in kinds if kind not in known]
    return {
        "domain": kinds,
        "range": [known.get(kind) or _OTHERS[others.index(kind) % len(_OTHERS)] for kind in kinds],
    }


def _activity(report: Report, detail: Detail, scale: Scale) -> Iterator[Part]:
    activity = detail["activity"]
    shares: dict[str, list[float]] = {
        doing.label: activity[doing.field]  # type: ignore[literal-required]
        for doing in (part.doing for part in PARTS)
        if doing
    }
    series = {name: values for name, values in shares.items() if any(values)}
    if not series:
        return
    rows = list(bins(report, detail["bin_ns"], series))
    colours = {"domain": list(series), "range": [COLOURS[name] for name in series]}
    spec = lines(report, scale, list(series), colours, "share of NPUs", share_axis=True)
    note = f"Means over {time(detail['bin_ns'])}. An NPU may do several at once."
    yield Chart("activity", "What NPUs do over time", rows, spec, note)


def column(name: str) -> str:
    """A name as Vega-Lite takes it for a column: dots and brackets would be paths into a row."""
    return re.sub(r"[^\w() ,-]", "_", name)


def bins(
    report: Report, width_ns: float, series: dict[str, list[float]]
) -> Iterator[dict[str, float]]:
    """One row a bin, with its start and, once more, one at the end of the step."""
    count = max((len(values) for values in series.values()), default=0)
    for i in range(count):
        yield {
            "start_ns": round(i * width_ns, 3),
            **{n: round(v[i], 5) for n, v in series.items()},
        }
    if count:
        yield {
            "start_ns": report["step_time_ns"],
            **{n: round(v[-1], 5) for n, v in series.items()},
        }


def lines(
    report: Report,
    scale: Scale,
    fields: Sequence[str],
    colours: dict[str, Any],
    title: str,
    share_axis: bool,
) -> dict[str, Any]:
    """Steps over time, one line a field of rows as `bins` makes them."""
    y: dict[str, Any] = {"field": "value", "type": "quantitative", "title": title}
    if share_axis:
        y |= {"axis": {"format": "%"}, "scale": {"domainMax": 1}}
    return _steps(report, scale, fields, colours, {"type": "line", "strokeWidth": 1.3}, y, title)


def stacked(
    report: Report, scale: Scale, fields: Sequence[str], colours: dict[str, Any], title: str
) -> dict[str, Any]:
    """Shares that sum to 1 over time, one on the other, one a field of rows as `bins` makes
    them."""
    y: dict[str, Any] = {"field": "value", "type": "quantitative", "title": title, "stack": "zero"}
    y |= {"axis": {"format": "%"}, "scale": {"domainMin": 0, "domainMax": 1}}
    spec = _steps(report, scale, fields, colours, {"type": "area", "line": False}, y, title)
    order = ", ".join(f"'{field}'" for field in fields)
    spec["transform"].append({"calculate": f"indexof([{order}], datum.what)", "as": "place"})
    spec["encoding"]["order"] = {"field": "place"}
    spec["encoding"]["color"]["legend"] = {"symbolType": "square"}
    return spec


def _steps(
    report: Report,
    scale: Scale,
    fields: Sequence[str],
    colours: dict[str, Any],
    mark: dict[str, Any],
    y: dict[str, Any],
    title: str,
) -> dict[str, Any]:
    params, axis = zoomed(scale.axis("time"), "time", report["step_time_ns"] / scale.ns)
    return {
        "params": params,
        "transform": [
            {"fold": list(fields), "as": ["what", "value"]},
            scale.calculate("start_ns", "time"),
        ],
        "mark": {**mark, "interpolate": "step-after", "clip": True},
        "height": 190,
        "encoding": {
            "x": axis,
            "y": y,
            "color": {
                "field": "what",
                "type": "nominal",
                "title": None,
                "sort": None,
                "scale": colours,
            },
            "tooltip": tooltip("what", ("time", scale.axis("time")), ("value", title, ".3~r")),
        },
    }


def tooltip(*fields: str | tuple[str, ...]) -> list[dict[str, str]]:
    """Tooltips of a chart: a field, or field, title and format."""
    keys = ("field", "title", "format")
    entries = [
        dict(zip(keys, (field,) if isinstance(field, str) else field, strict=False))
        for field in fields
    ]
    return [
        {"format": ",.4~r"} | entry if entry["field"] in {"time", "from"} else entry
        for entry in entries
    ]
