"""Slowdowns of flows by size and load: charts and the page.

Here: what is shown of traffic whose sizes are drawn. Not here: messages of one size
(`traffic.py`), how points are run (`traffic`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..units import counted
from .chart import Chart
from .page import Fact, Page, Section, Table
from .quantity import bandwidth, share, size

if TYPE_CHECKING:
    from ..traffic import Curve, Point, Traffic

_RULE = (
    "A slowdown is the time of a flow over its time on links that carry nothing else, with headers "
    "and latencies. The warm-up is cut off by MSER; ± is half the 95 % confidence interval by "
    "batch means. Flows that had not arrived at the end count with their age, and with 1 at least."
)
_FEW = 4
"""Curves that the headline names."""


def page(found: Traffic, warnings: Sequence[str] = ()) -> Page:
    """The page of flows."""
    drawn = any(curve.points for curve in found.curves)
    return Page(
        title=f"Flows on {found.platform}",
        lead=_lead(found),
        verdict=_verdict(found),
        facts=[Fact(f"Mean size, {each.name}", size(each.mean_bytes)) for each in found.sizes],
        warnings=warnings,
        sections=[
            *(_section(found, each.name) for each in found.sizes if drawn),
            Section("Points", [_points(found), _RULE]),
            Section("Slowdowns by size", [_sizes(found, load) for load in _loads(found)]),
            Section("Sizes", [_sources(found)]),
        ],
    )


def _name(found: Traffic, curve: Curve, known: str = "") -> str:
    """A curve by what the others differ in, but for what is `known`."""
    parts = {
        "control": curve.congestion_control,
        "sizes": curve.sizes,
        "pattern": PurePath(curve.pattern).name or curve.pattern,
        "backend": curve.backend,
    }
    values = {
        "control": {each.congestion_control for each in found.curves},
        "sizes": {each.sizes for each in found.curves},
        "pattern": {each.pattern for each in found.curves},
        "backend": {each.backend for each in found.curves},
    }
    said = [text for key, text in parts.items() if len(values[key]) > 1 and key != known]
    return ", ".join(said or [curve.congestion_control or curve.sizes])


def _lead(found: Traffic) -> str:
    at = "at random times" if found.arrivals == "poisson" else "at equal distances"
    names = ", ".join(each.name for each in found.sizes)
    return (
        f"{counted(found.npus, 'NPU')} of {found.platform}, flows with the sizes of {names} {at}. "
        f"A load of 100 % is {bandwidth(found.injection_gb_per_s)} from each NPU."
    )


def _verdict(found: Traffic) -> str:
    """At the highest load, the curve with the least slowdown at the 99th percentile, for each
    distribution."""
    said = []
    for sizes in list(dict.fromkeys(curve.sizes for curve in found.curves))[:_FEW]:
        tried = [
            (curve, curve.points[-1])
            for curve in found.curves
            if curve.sizes == sizes and curve.points
        ]
        slowdowns = [
            (point.slowdown["p99"], point.slowdown["mean"], at)
            for at, (_, point) in enumerate(tried)
            if point.slowdown
        ]
        if not slowdowns:
            continue
        p99, mean, at = min(slowdowns)
        curve, point = tried[at]
        best = (
            f" with {_name(found, curve, 'sizes')}, the least of {len(tried)}"
            if len(tried) > 1
            else ""
        )
        said.append(
            f"{sizes} at a load of {share(point.load)}: 99 % of flows take at most {p99:.3g} times "
            f"as long as alone{best}; the mean is {mean:.3g}"
        )
    return " ".join(f"{each}." for each in said)


def _loads(found: Traffic) -> list[float]:
    return sorted({point.load for curve in found.curves for point in curve.points})


def _section(found: Traffic, sizes: str) -> Section:
    """The charts of a distribution."""
    charts = [_by_size(found, sizes, load) for load in _loads(found)]
    return Section(f"Flows of {sizes}", [_by_load(found, sizes), *charts])


def drawing(found: Traffic) -> Chart:
    """The slowdown by size of the first distribution at the highest load."""
    return _by_size(found, found.sizes[0].name, max(_loads(found), default=0.0))


def _of(found: Traffic, sizes: str) -> list[Curve]:
    return [curve for curve in found.curves if curve.sizes == sizes]


def _colours(found: Traffic, sizes: str) -> dict[str, Any]:
    names = [_name(found, curve, "sizes") for curve in _of(found, sizes)]
    colour: dict[str, Any] = {"field": "curve", "type": "nominal", "title": None}
    return colour | {"scale": {"domain": names}} | ({} if len(names) > 1 else {"legend": None})


def _by_size(found: Traffic, sizes: str, load: float) -> Chart:
    """Slowdowns by size at a load: the median and the 99th percentile."""
    records = [
        {
            "curve": _name(found, curve, "sizes"),
            "statistic": name,
            "size": max(1, each.to_bytes),
            "slowdown": round(value, 6),
            "flows": each.messages,
        }
        for curve in _of(found, sizes)
        for point in curve.points
        if point.load == load
        for each in point.by_size
        for name, value in (("median", each.p50), ("99th percentile", each.p99))
    ]
    across = {"field": "size", "type": "quantitative", "scale": {"type": "log"}}
    across |= {"title": "size of flows, bytes", "axis": {"format": "~s"}}
    up = {"field": "slowdown", "type": "quantitative", "scale": {"type": "log"}}
    tooltip = [
        {"field": "curve"},
        {"field": "statistic"},
        {"field": "size", "format": "~s", "title": "up to bytes"},
        {"field": "slowdown", "format": ".4~g"},
        {"field": "flows"},
    ]
    spec = _lines(
        {
            "x": across,
            "y": up,
            "color": _colours(found, sizes),
            "strokeDash": _dash("median"),
            "tooltip": tooltip,
        }
    )
    note = "Each point is a tenth of the flows, at the largest of their sizes."
    title = f"Slowdown by size at a load of {share(load)}"
    return Chart(f"{_word(sizes)}-{load:g}".replace(".", "_"), title, records, spec, note)


def _lines(encoding: dict[str, Any]) -> dict[str, Any]:
    """Lines with dots. Dots are a layer of their own, so that legends of lines show lines."""
    dots = {key: each for key, each in encoding.items() if key != "strokeDash"}
    dots |= {"detail": {"field": "statistic"}}
    layer = [
        {"mark": {"type": "line"}, "encoding": encoding},
        {"mark": {"type": "point", "filled": True, "size": 30, "opacity": 1}, "encoding": dots},
    ]
    return {"height": 260, "layer": layer}


def _word(sizes: str) -> str:
    """A name of a chart that has letters, digits and hyphens alone."""
    return re.sub("[^A-Za-z0-9]+", "-", sizes)


def _dash(usual: str) -> dict[str, Any]:
    """The usual value as a line, the 99th percentile with dashes."""
    return {
        "field": "statistic",
        "type": "nominal",
        "title": None,
        "scale": {"domain": [usual, "99th percentile"], "range": [[1, 0], [4, 3]]},
        "legend": {"symbolType": "stroke", "symbolSize": 300},
    }


def _by_load(found: Traffic, sizes: str) -> Chart:
    records = [
        {
            "curve": _name(found, curve, "sizes"),
            "load": point.load,
            "statistic": name,
            "slowdown": round(point.slowdown[key], 6),
        }
        for curve in _of(found, sizes)
        for point in curve.points
        if point.slowdown
        for name, key in (("mean", "mean"), ("99th percentile", "p99"))
    ]
    across = {"field": "load", "type": "quantitative", "axis": {"format": "~%"}}
    across |= {"title": f"load, share of {bandwidth(found.injection_gb_per_s)} for each NPU"}
    up = {"field": "slowdown", "type": "quantitative", "scale": {"type": "log"}}
    tooltip = [
        {"field": "curve"},
        {"field": "load", "format": ".3~%"},
        {"field": "statistic"},
        {"field": "slowdown", "format": ".4~g"},
    ]
    encoding = {
        "x": across,
        "y": up,
        "color": _colours(found, sizes),
        "strokeDash": _dash("mean"),
        "tooltip": tooltip,
    }
    title = "Slowdown by load"
    return Chart(f"{_word(sizes)}-loads", title, records, _lines(encoding), "")


def _points(found: Traffic) -> Table:
    heads = ("Curve", "Load", "Accepted", "Mean", "±", "p50", "p95", "p99", "Flows", "Result")
    rows = [
        _row(found, curve, point)
        for curve in found.curves
        for point in curve.points
        if point.slowdown
    ]
    return Table("Slowdown of flows", heads, rows, labels=1)


def _row(found: Traffic, curve: Curve, point: Point) -> list[str]:
    slowdown = point.slowdown or {}
    mean = slowdown["mean"]
    return [
        _name(found, curve),
        share(point.load),
        bandwidth(point.accepted_gb_per_s),
        f"{mean:.3g}",
        share(slowdown["half_width"] / mean) if mean else "",
        *(f"{slowdown[key]:.3g}" for key in ("p50", "p95", "p99")),
        f"{point.messages - point.warm_up_messages:,}",
        point.outcome,
    ]


def _sizes(found: Traffic, load: float) -> Table:
    """The 99th percentile by size, a row for each curve of each distribution."""
    rows = [
        [
            _name(found, curve),
            f"{size(each.from_bytes)} to {size(each.to_bytes)}",
            f"{each.messages:,}",
            *(f"{value:.3g}" for value in (each.mean, each.p50, each.p95, each.p99)),
        ]
        for curve in found.curves
        for point in curve.points
        if point.load == load
        for each in point.by_size
    ]
    heads = ("Curve", "Sizes", "Flows", "Mean", "p50", "p95", "p99")
    return Table(f"At a load of {share(load)}", heads, rows, labels=2)


def _sources(found: Traffic) -> Table:
    rows = [[each.name, size(each.mean_bytes), each.source] for each in found.sizes]
    return Table("Distributions of sizes", ("Sizes", "Mean", "Source"), rows, labels=1)
