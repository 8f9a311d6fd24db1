"""Charts: rows, how they are drawn, and the files and page that come of it.

Here: `Chart`, its theme, its drawing to SVG and PNG by vl-convert (Vega-Lite, offline), its rows as CSV.
Not here: what a chart shows (`run_page.py` and whoever makes one) and the page around it (`page.py`).
Source of the language: https://vega.github.io/vega-lite/docs/spec.html.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

Row = Mapping[str, Any]

VEGA_LITE = "6.4"
"""The release that draws; files and pages come out alike as long as it stays."""
WIDTH = 720
"""Width of a chart in pixels where its specification gives none."""

COLOURS = {
    "compute": "#0072b2",
    "communication": "#d55e00",
    "memory": "#e69f00",
    "remote memory": "#e69f00",
    "local memory": "#f0e442",
    "waiting for launches": "#009e73",
    "idle": "#c8c8c8",
}
"""One colour a part of the step, everywhere: told apart by colour-blind readers too (Okabe and Ito, 2008)."""
PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#5b5b5b"]
"""Colours of everything else, in this order."""

_STEP = 24
"""Height of a bar and the gap to the next in pixels where a specification gives none."""
_COMPOSED = {"hconcat", "vconcat", "concat", "facet", "repeat", "spec"}
_FACETS = {"row", "column", "facet"}
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_THEME: dict[str, Any] = {
    "font": _FONT,
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "#e6e6e6",
        "domainColor": "#888888",
        "tickColor": "#888888",
        "labelColor": "#333333",
        "titleColor": "#333333",
        "labelLimit": 240,
    },
    "axisQuantitative": {"tickCount": 7},
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 320,
        "orient": "top",
        "labelColor": "#333333",
        "titleColor": "#333333",
    },
    "header": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "range": {"category": PALETTE},
}


@dataclass(frozen=True)
class Chart:
    """A chart: `rows` drawn by the Vega-Lite specification `spec`, which holds no data and no `$schema`.

    `name` is a word that names files and places (`phases`); `title` is what a person reads above it, and `note` below.
    A chart of one view without a `width` takes the width there is: 720 pixels in files, the reader's window in a page.
    """

    name: str
    title: str
    rows: Sequence[Row] | pl.DataFrame
    spec: Mapping[str, Any]
    note: str = ""

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        if isinstance(self.rows, Sequence):
            return [dict(row) for row in self.rows]
        return self.rows.to_dicts()

    def is_fluid(self) -> bool:
        """Whether it takes the width there is: a chart of one view that gives none."""
        spec = self.spec
        return not ("width" in spec or _COMPOSED & set(spec) or _FACETS & set(spec.get("encoding", {})))

    def vega_lite(self) -> dict[str, Any]:
        """The whole specification, with data and theme, as any Vega-Lite viewer takes it."""
        records = self.records()
        shape: dict[str, Any] = {}
        if self.is_fluid():
            shape = {
                "width": WIDTH,
                "autosize": {"type": "fit-x", "contains": "padding"},
                **_height(self.spec, records),
            }
        return {
            "$schema": f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE.split('.', maxsplit=1)[0]}.json",
            "description": self.title,
            "data": {"values": records},
            **self.spec,
            **shape,
            "config": {**_THEME, **self.spec.get("config", {})},
        }

    def svg(self) -> str:
        """The chart as an SVG document; the same bytes for the same chart."""
        import vl_convert

        return _renumbered(vl_convert.vegalite_to_svg(self.vega_lite(), vl_version=VEGA_LITE))

    def png(self, scale: float = 2.0) -> bytes:
        """The chart as a PNG of `scale` times its size, 1,440 pixels wide where it gives no width."""
        import vl_convert

        return vl_convert.vegalite_to_png(self.vega_lite(), vl_version=VEGA_LITE, scale=scale)

    def csv(self) -> str:
        """The rows as CSV, columns in order of their first appearance."""
        return to_csv(self.records())


def _renumbered(svg: str) -> str:
    """The drawing with its gradients counted from 0: Vega counts on from one drawing to the next."""
    names = list(dict.fromkeys(re.findall(r"gradient_\d+", svg)))
    return re.sub(r"gradient_\d+", lambda found: f"gradient_{names.index(found[0])}", svg)


def _height(spec: Row, records: Sequence[Row]) -> dict[str, int]:
    """Height of a chart with a row of `step` pixels a name; Vega-Lite fits to a width only beside a number."""
    views = [spec, *spec.get("layer", [])]
    place: Row = next((view["encoding"]["y"] for view in views if "y" in view.get("encoding", {})), {})
    height = spec.get("height", {"step": _STEP})
    if place.get("type") not in {"nominal", "ordinal"} or not isinstance(height, Mapping):
        return {}
    names = {record.get(str(place.get("field"))) for record in records}
    return {"height": height["step"] * max(len(names), 1)}


def to_csv(records: Sequence[Row]) -> str:
    """Records as CSV with a head line, columns in order of their first appearance; lists as they print."""
    columns = list(dict.fromkeys(key for record in records for key in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
