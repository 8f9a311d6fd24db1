"""Charts: rows, how they are drawn, and the files and page that come of it.

Here: `Chart`, its theme, its drawing to SVG and PNG by vl-convert (Vega-Lite, offline), its rows as
CSV. Not here: what a chart shows (`run_page.py` and whoever makes one) and the page around it
(`page.py`). Source of the language: https://vega.github.io/vega-lite/docs/spec.html."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import machine
from ..errors import InputError, Problem
from ..step_parts import PARTS
from .escapes import visible, visible_data

if TYPE_CHECKING:
    import polars as pl

Row = Mapping[str, Any]

VEGA_LITE = "6.4"
"""The release that draws; files and pages come out alike as long as it stays."""
WIDTH = 720
"""Width of a chart in pixels where its specification gives none."""

COLOURS = {(part.doing or part).label: part.style.colour for part in PARTS}
"""One colour per part of the step, everywhere. Colour-blind readers can distinguish them (Okabe and
Ito, 2008)."""
PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#5b5b5b"]
"""Colours of everything else, in this order."""

ZOOM = ("zoom_from", "zoom_to")
"""Parameters of a chart whose time axis a reader can zoom."""

_STEP = 24
"""Height of a bar and the gap to the next in pixels where a specification gives none."""
_SHORT, _LINE = 20, 60
"""Characters of a name at an axis that fits a phone, and of a line."""
_LINE_HEIGHT = 14
"""Pixels of a line."""
_COMPOSED = {"hconcat", "vconcat", "concat", "facet", "repeat", "spec"}
_FACETS = {"row", "column", "facet"}
_ADDRESSES = 128 << 30
"""Bytes of address space that must be left before V8, which draws, is started; it reserves 64 GiB
and then some."""
_FILES = 24
"""Files that V8 opens at most, and its own pipes; 12 were seen."""
_PLACES = re.compile(r' (?:d|transform)="[^"]*"')
_LONG = re.compile(r"\d+\.\d{4,}(?:e[-+]?\d+)?")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_THEME: dict[str, Any] = {
    "font": _FONT,
    "background": "white",
    "view": {"stroke": None},
    "mark": {"color": PALETTE[0]},
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
    "text": {"color": "#333333"},
    "rule": {"color": "#333333"},
    "header": {
        "labelColor": "#333333",
        "titleColor": "#333333",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "range": {"category": PALETTE},
}


@dataclass(frozen=True)
class Chart:
    """A chart: `rows` drawn by the Vega-Lite specification `spec`, which holds no data and no
    `$schema`.

    `name` is a word that names files and places (`phases`); `title` is what a person reads above
    it, and `note` below. A chart of one view without a `width` takes the width there is: 720 pixels
    in files, the reader's window in a page. One whose time axis is that of `zoomed` takes a row of
    its own and can be zoomed there, together with all others of the same range. Neutral colours of
    the theme (`page.css` has them) turn in a dark page; others stay."""

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
        return not (
            "width" in spec or _COMPOSED & set(spec) or _FACETS & set(spec.get("encoding", {}))
        )

    def is_zoomable(self) -> bool:
        """Whether its time axis is that of `zoomed`."""
        return any(param.get("name") == ZOOM[1] for param in self.spec.get("params", []))

    def vega_lite(self) -> dict[str, Any]:
        """The whole specification, with data and theme, as any Vega-Lite viewer takes it."""
        records, spec = [visible_data(row) for row in self.records()], visible_data(self.spec)
        shape: dict[str, Any] = {}
        if self.is_fluid():
            shape = {
                "width": WIDTH,
                "autosize": {"type": "fit-x", "contains": "padding"},
                **_height(spec, records),
            }
        major = VEGA_LITE.partition(".")[0]
        return {
            "$schema": f"https://vega.github.io/schema/vega-lite/v{major}.json",
            "description": visible(self.title),
            "data": {"values": records},
            **spec,
            **shape,
            "config": {**_THEME, **spec.get("config", {})},
        }

    def svg(self) -> str:
        """The chart as an SVG document; the same bytes for the same chart.

        Raises `InputError` where `can_draw` is false.
        """
        return _rounded(_renumbered(self._drawn))

    def png(self, scale: float = 2.0) -> bytes:
        """The chart as a PNG of `scale` times its size, 1,440 pixels wide where it gives no width.

        Raises `InputError` where `can_draw` is false.
        """
        drawn = self._drawn
        import vl_convert

        return vl_convert.svg_to_png(drawn, scale=scale)

    @cached_property
    def _drawn(self) -> str:
        """The drawing as Vega makes it. Raises `InputError` where `can_draw` is false."""
        require_room()
        import vl_convert

        return vl_convert.vegalite_to_svg(self.vega_lite(), vl_version=VEGA_LITE)

    def csv(self) -> str:
        """The rows as CSV, columns in order of their first appearance."""
        return to_csv(self.records())


def can_draw() -> bool:
    """Whether V8 can be started, which ends the process where a limit (`ulimit -v`, `ulimit -n`)
    leaves it too few addresses or files."""
    return _lacking() is None


def _lacking() -> Problem | None:
    """Why no chart can be drawn."""
    left, opened = machine.addresses(), machine.descriptors()
    if left is not None and left < _ADDRESSES:
        message = (
            "leaves too little address space to draw a chart: V8, which draws, reserves 64 GiB"
        )
        return Problem("", "ulimit -v", message, "at least 128 GiB (134217728), or unlimited")
    if opened is not None and opened < _FILES:
        message = f"leaves {opened} open files, and drawing a chart takes up to {_FILES}"
        return Problem("", "ulimit -n", message, "at least 64")
    return None


def require_room() -> None:
    """Raises `InputError` where `can_draw` is false."""
    lacking = _lacking()
    if lacking is not None:
        raise InputError([lacking])


def zoomed(scale_title: str, field: str, end: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Parameters of a chart, and its time axis from 0 to `end` on which a reader of the page can
    zoom.

    Marks of the chart must be clipped. `end` and the axis are in the unit that `scale_title` names.
    """
    first, last = ZOOM
    params = [{"name": first, "value": 0}, {"name": last, "value": end}]
    domain = {
        "nice": False,
        "zero": False,
        "domainMin": {"expr": first},
        "domainMax": {"expr": last},
    }
    return params, {"field": field, "type": "quantitative", "title": scale_title, "scale": domain}


def tens(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic scale for `values`, with a line for each power of ten."""
    found = [math.log10(value) for value in values if value > 0] or [0.0]
    powers = range(math.floor(min(found)), math.ceil(max(found)) + 1)
    return {"scale": {"type": "log"}, "axis": {"values": [10.0**power for power in powers]}}


def wrapping(names: Sequence[str]) -> tuple[dict[str, Any], dict[str, int]]:
    """An axis of names that break into lines of `_LINE` characters, and the height of a row.

    On a phone `charts.js` breaks them into shorter lines."""
    longest = max(map(len, names), default=0)
    if longest <= _SHORT:
        return {}, {"step": _STEP}
    lines = max(len(textwrap.wrap(name, _LINE, break_on_hyphens=False)) for name in names)
    pieces = f"replace(datum.label, regexp('(.{{1,{_LINE}}})( |$)', 'g'), '$1\\n')"
    axis = {"labelLimit": 0, "labelExpr": f"split(trim({pieces}), '\\n')"}
    higher = {"test": f"length(datum.label) > {_LINE}", "value": -_LINE_HEIGHT / 2}
    axis |= {"labelOffset": {"condition": higher, "value": 0}}
    return axis, {"step": max(_STEP, _LINE_HEIGHT * lines + 6)}


def _rounded(svg: str) -> str:
    """The drawing with its places to a thousandth of a pixel: a page of thousands of bars is half
    as large."""
    return _PLACES.sub(
        lambda place: _LONG.sub(lambda number: f"{float(number[0]):.3f}", place[0]), svg
    )


def _renumbered(svg: str) -> str:
    """The drawing with its gradients and clips counted from 0: Vega counts on from one drawing to
    the next."""
    for kind in ("gradient_", "clip"):
        pattern = re.compile(rf"\b{kind}\d+\b")
        found = dict.fromkeys(pattern.findall(svg))
        places = {name: f"{kind}{place}" for place, name in enumerate(found)}
        svg = _replaced(pattern, places, svg)
    return svg


def _replaced(pattern: re.Pattern[str], names: Mapping[str, str], text: str) -> str:
    return pattern.sub(lambda match: names[match[0]], text)


def _height(spec: Row, records: Sequence[Row]) -> dict[str, int]:
    """Height of a chart with a row of `step` pixels per name; Vega-Lite fits to a width only with a
    numeric height."""
    views = [spec, *spec.get("layer", [])]
    place: Row = next(
        (view["encoding"]["y"] for view in views if "y" in view.get("encoding", {})), {}
    )
    height = spec.get("height", {"step": _STEP})
    if place.get("type") not in {"nominal", "ordinal"} or not isinstance(height, Mapping):
        return {}
    names = {record.get(str(place.get("field"))) for record in records}
    return {"height": height["step"] * max(len(names), 1)}


def to_csv(records: Sequence[Row]) -> str:
    """Records as CSV with a head line, columns in order of their first appearance; lists as they
    print."""
    import csv

    columns = list(dict.fromkeys(key for record in records for key in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _inert(value) for key, value in record.items()} for record in records)
    return text.getvalue()


def _inert(value: object) -> object:
    """A text that spreadsheets would take for a formula with an apostrophe before it, as they show
    texts."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value
