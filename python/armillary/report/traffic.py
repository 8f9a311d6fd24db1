"""Latency by load of synthetic traffic: charts and the page.

Here: what is shown. Not here: HTML (`page.py`), how points are run (`traffic`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..units import counted
from . import flow_completion
from .chart import Chart
from .page import Fact, Page, Section, Table
from .quantity import bandwidth, share, size, time
from .scale import Scale

if TYPE_CHECKING:
    from ..traffic import Curve, Point, Traffic


_HEADS = (
    "Load",
    "Accepted",
    "Mean latency",
    "±",
    "p50",
    "p99",
    "p99.9",
    "Busiest link",
    "Result",
)
_FEW = 4
"""Curves that the headline names."""
_RULE = (
    "Latency is from the creation of a message to its arrival. The warm-up is cut off by MSER; "
    "± is half the 95 % confidence interval by batch means."
)


def page(found: Traffic, warnings: Sequence[str] = ()) -> Page:
    """The page of the curves."""
    if found.sizes:
        return flow_completion.page(found, warnings)
    drawn = any(curve.points for curve in found.curves)
    loaded = [curve for curve in found.curves if curve.points and curve.points[-1].links]
    return Page(
        title=_title(found),
        lead=_lead(found),
        verdict=" ".join(f"{_verdict(found, curve)}." for curve in found.curves[:_FEW]),
        facts=list(_facts(found)),
        warnings=warnings,
        sections=[
            *([Section("Latency", [latencies(found)])] if drawn else []),
            *([Section("Throughput", [_throughput(found)])] if drawn else []),
            Section("Points", [*(_table(found, curve) for curve in found.curves), _RULE]),
            *([Section("Busiest links", [_links(curve) for curve in loaded])] if loaded else []),
        ],
    )


def drawing(found: Traffic) -> Chart:
    """The chart of `--plot`."""
    return flow_completion.drawing(found) if found.sizes else latencies(found)


def _title(found: Traffic) -> str:
    """The patterns and the platform, without folders."""
    names = list(dict.fromkeys(_pattern(curve) for curve in found.curves))
    said = " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
    return f"{said} traffic on {found.platform}"


def _pattern(curve: Curve) -> str:
    """A pattern's name; of a file its name alone."""
    return PurePath(curve.pattern).name or curve.pattern


def latencies(found: Traffic) -> Chart:
    """Mean and 99th percentile of the latency by load."""
    steady = [
        (curve, point)
        for curve in found.curves
        for point in curve.points
        if point.outcome != "saturated"
    ]
    scale = Scale.of(min((point.latency["mean_ns"] for _, point in steady), default=1.0))
    records = [
        {
            "curve": _name(found, curve),
            "load": point.load,
            "statistic": name,
            "latency": round(point.latency[key] / scale.ns, 9),
            "accepted": point.accepted_gb_per_s,
        }
        for curve, point in steady
        for name, key in (("mean", "mean_ns"), ("99th percentile", "p99_ns"))
    ]
    up = {
        "field": "latency",
        "type": "quantitative",
        "title": scale.axis("latency"),
        "scale": {"type": "log", "nice": False},
    }
    note = (
        "Points of a saturated network are left out: their latency grows with the length of the "
        "run."
    )
    return _chart(found, "latency", "Latency by load", records, up, "statistic", note)


def _throughput(found: Traffic) -> Chart:
    records = [
        {
            "curve": _name(found, curve),
            "load": point.load,
            "accepted": point.accepted_gb_per_s,
        }
        for curve in found.curves
        for point in curve.points
    ]
    up = {"field": "accepted", "type": "quantitative", "title": "accepted by each NPU, GB/s"}
    return _chart(found, "throughput", "Throughput by load", records, up, None, "")


def _chart(
    found: Traffic,
    name: str,
    title: str,
    records: list[dict[str, Any]],
    up: dict[str, Any],
    dash: str | None,
    note: str,
) -> Chart:
    names = [_name(found, curve) for curve in found.curves]
    across = {
        "field": "load",
        "type": "quantitative",
        "title": f"load, share of {bandwidth(found.injection_gb_per_s)} for each NPU",
        "axis": {"format": "~%"},
    }
    colour: dict[str, Any] = {"field": "curve", "type": "nominal", "title": None}
    colour |= {"scale": {"domain": names}} | ({} if len(names) > 1 else {"legend": None})
    tooltip = [
        {"field": "curve"},
        {"field": "load", "format": ".3~%"},
        {"field": up["field"], "title": up["title"], "format": ".4~g"},
    ]
    encoding: dict[str, Any] = {"x": across, "y": up, "color": colour, "tooltip": tooltip}
    if dash is not None:
        styles = {"domain": ["mean", "99th percentile"], "range": [[1, 0], [4, 3]]}
        legend = {"symbolType": "stroke", "symbolSize": 300}
        encoding["strokeDash"] = {
            "field": dash,
            "type": "nominal",
            "title": None,
            "scale": styles,
            "legend": legend,
        }
    # Dots are a layer of their own, so that legends of lines show lines.
    dots = {key: each for key, each in encoding.items() if key != "strokeDash"}
    dots |= {"detail": {"field": dash}} if dash is not None else {}
    layer = [
        {"mark": {"type": "line"}, "encoding": encoding},
        {"mark": {"type": "point", "filled": True, "size": 30, "opacity": 1}, "encoding": dots},
    ]
    spec = {"height": 320, "layer": layer}
    return Chart(name, title, records, spec, note)


def _name(found: Traffic, curve: Curve) -> str:
    several = len({each.backend for each in found.curves}) > 1
    return f"{_pattern(curve)}, {curve.backend}" if several else _pattern(curve)


def _lead(found: Traffic) -> str:
    at = "at random times" if found.arrivals == "poisson" else "at equal distances"
    said = (
        f"{counted(found.npus, 'NPU')} of {found.platform}, messages of "
        f"{size(found.size_bytes or 0)} {at}. A load of 100 % is "
        f"{bandwidth(found.injection_gb_per_s)} from each NPU"
    )
    if found.cycle_ns and found.flit_bytes:
        flits = found.injection_gb_per_s * found.cycle_ns / found.flit_bytes
        said += (
            f", or {flits:.4g} flits of {found.flit_bytes} B in a cycle of {time(found.cycle_ns)}"
        )
    return f"{said}."


def _said(found: Traffic, curve: Curve) -> str:
    """Where a curve saturates."""
    head = f"{_pattern(curve)} on {curve.backend}: a message alone takes {time(curve.alone_ns)}"
    if time(curve.first_ns) != time(curve.alone_ns):
        head += f", the first of a connection {time(curve.first_ns)}"
    if curve.saturation is None:
        return f"{head}; {_saturated(curve)}"
    low, high = curve.saturation
    if high is None:
        return f"{head}; the network carries all that was tried, {share(low)}"
    if not low:
        return f"{head}; saturates at any load"
    rate = bandwidth((low + high) / 2 * found.injection_gb_per_s)
    return f"{head}; saturates between {low:.2%} and {high:.2%}, at {rate} from each NPU"


def _verdict(found: Traffic, curve: Curve) -> str:
    """Where a curve saturates, before the latency of a message alone."""
    head, _, outcome = _said(found, curve).partition("; ")
    who, _, alone = head.partition(": ")
    return f"{who}: {outcome}; {alone}"


def _saturated(curve: Curve) -> str:
    """Which of the loads saturate the network."""
    loads = [f"{point.load:.4%}" for point in curve.points if point.outcome == "saturated"]
    if not loads:
        return "none of these loads saturates the network"
    text = ", ".join(re.sub(r"\.?0+%", "%", load) for load in loads)
    return (
        f"loads of {text} saturate the network"
        if len(loads) > 1
        else (f"a load of {text} saturates the network")
    )


def _facts(found: Traffic) -> Iterator[Fact]:
    for curve in found.curves[:_FEW]:
        low, high = curve.saturation or (0.0, None)
        if high is not None:
            note = f"{bandwidth((low + high) / 2 * found.injection_gb_per_s)} from each NPU"
            yield Fact(f"Saturation, {_name(found, curve)}", f"{low:.1%}", note)
    yield Fact("Message alone", time(min(curve.alone_ns for curve in found.curves)), "shortest")


def _rows(curve: Curve) -> Iterator[list[str]]:
    for point in curve.points:
        latency = point.latency
        busiest = point.links[0] if point.links else None
        yield [
            f"{point.load:.2%}",
            bandwidth(point.accepted_gb_per_s),
            time(latency["mean_ns"]),
            share(latency["half_width_ns"] / latency["mean_ns"]) if latency["mean_ns"] else "",
            time(latency["p50_ns"]),
            time(latency["p99_ns"]),
            time(latency["p99_9_ns"]),
            f"{busiest.utilisation:.0%}" if busiest else "",
            point.outcome,
        ]


def _table(found: Traffic, curve: Curve) -> Table | str:
    """The points of a curve, below where it saturates; that alone, if there are no points."""
    said = _said(found, curve)
    return Table(said, _HEADS, list(_rows(curve))) if curve.points else said


def _last(curve: Curve) -> Point:
    """The highest load that the network carries."""
    steady = [point for point in curve.points if point.outcome != "saturated"]
    return (steady or curve.points)[-1]


def _links(curve: Curve) -> Table:
    """The busiest links of the last point that is not saturated."""
    point = _last(curve)
    rows = [
        [link.name, f"{link.utilisation:.1%}", bandwidth(link.gb_per_s)] for link in point.links
    ]
    title = f"{_pattern(curve)} on {curve.backend} at a load of {point.load:.1%}"
    return Table(title, ("Link", "Utilisation", "Carried"), rows, labels=1)
