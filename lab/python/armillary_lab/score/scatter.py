"""The figure of studies that hold many predictions against measurements: ours over measured, a
point a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armillary.report.chart import Chart


def scatter(
    name: str,
    title: str,
    unit: str,
    records: Sequence[Mapping[str, Any]],
    color: str,
    domain: tuple[float, float] | None = None,
) -> Chart:
    """Records with `measured`, `ours` (both in `unit`) and the field `color`, on logarithmic axes,
    and the line where both are equal."""
    from armillary.report.chart import Chart

    scale: dict[str, Any] = {"type": "log", "nice": False} | (
        {"domain": list(domain)} if domain else {}
    )
    axis: dict[str, Any] = {"scale": scale, "type": "quantitative"}
    ends = [least_or_most(row["measured"] for row in records) for least_or_most in (min, max)]
    hue = {"field": color, "type": "nominal", "title": None, "legend": {"columns": 5}}
    spec = {
        "layer": [
            {
                "data": {"values": [{"measured": end, "ours": end} for end in ends]},
                "mark": {"type": "line", "color": "#888888"},
                "encoding": {"x": {"field": "measured", **axis}, "y": {"field": "ours", **axis}},
            },
            {
                "mark": {
                    "type": "point",
                    "tooltip": {"content": "data"},
                    "size": 16,
                    "filled": True,
                    "opacity": 0.5,
                },
                "encoding": {
                    "x": {"field": "measured", "title": f"measured, {unit}", **axis},
                    "y": {"field": "ours", "title": f"ours, {unit}", **axis},
                    "color": hue,
                },
            },
        ],
        "height": 420,
    }
    return Chart(name, title, list(records), spec)
