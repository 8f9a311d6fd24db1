"""Parallel coordinates of a sweep: a line for each point over its parameters and objectives.

The best point and those that follow it stand out; the others are thin and grey behind them. Not
here: other charts (`charts.py`), what is drawn (`view.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..report.chart import PALETTE, Chart
from .axis import Axis, places, spaced
from .charts import AXES, FITS
from .view import Measure, View, spread

LINES = 300
"""Points drawn."""
_NEXT = 9
"""Points after the best one that stand out at most; a quarter of all where these are few."""
_BEST, _REST = "the best point", "the others"
_ROOM = 90
"""Pixels from axis to axis from which names of axes stand side by side."""

Ticks = Mapping[str, Sequence[tuple[float, str]]]


def parallel(view: View) -> Chart:
    """A line for each point over the parameters and the objectives."""
    axes, measures = view.axes[:AXES], [view.measure(*each) for each in view.objectives[:3]]
    names = _headings(view, axes, measures)
    ticks = {names[each.name]: _bare(each.ticks) for each in axes}
    ticks |= {each.label: _ends(each) for each in measures}
    x = _across(list(ticks))
    groups = _groups(view)
    spec = {
        "height": 360,
        "layer": [_rule(x, list(ticks)), _line(view, x, groups), *_tick_labels(x, ticks)],
    }
    drawn = _sample(view)
    rows = list(_lines(view, drawn, axes, measures, names, groups))
    return Chart("parallel", "Parallel coordinates", rows, spec, _note(view, len(drawn)))


def _groups(view: View) -> list[str]:
    """Names of the groups of lines, those behind first; of those next to the best, how many."""
    count = min(_NEXT, (view.ran.height - 1) // 4)
    following = [f"the next {count}" if count > 1 else "the next one"] if count else []
    rest = [_REST] if view.ran.height > 1 + count else []
    return [*rest, *following, _BEST]


def _line(view: View, x: dict[str, Any], groups: Sequence[str]) -> dict[str, Any]:
    """The lines, with what a reader sets apart by clicks."""
    looks = {_REST: ("#c8c8c8", 1.0), _BEST: (PALETTE[1], 3.5)}
    chosen = [looks.get(name, (PALETTE[0], 1.8)) for name in groups]
    colour = {"domain": list(groups), "range": [each[0] for each in chosen]}
    widths = [
        {"test": f"datum.points === '{name}'", "value": width} for name, (_, width) in looks.items()
    ]
    group: dict[str, Any] = {"field": "points", "type": "nominal", "title": None}
    encoding: dict[str, Any] = {
        "x": x,
        "y": _place("at"),
        "detail": {"field": "point"},
        "order": {"field": "place", "type": "quantitative"},
        "color": {**group, "scale": colour, "legend": {"symbolType": "stroke"}},
        "strokeWidth": {"condition": widths, "value": 1.8},
        "opacity": {"condition": {"param": "line", "value": 0.9}, "value": 0.05},
        "tooltip": [{"field": name} for name in ("point", "axis", "value", "result")],
    }
    if view.is_marked:
        encoding["strokeDash"] = _dashes()
    select = {"type": "point", "fields": ["point"], "toggle": "true"}
    return {
        "params": [{"name": "line", "select": select}],
        "mark": {"type": "line"},
        "encoding": encoding,
    }


def _across(order: list[str]) -> dict[str, Any]:
    """The axes side by side, their names above them: in two rows where there is little room."""
    lines = max(name.count(" (") for name in order) + 1
    narrow = f"width < {_ROOM * len(order)}"
    text = "replace(datum.label, ' (', '|(')"
    low = f"{narrow} && indexof({order!r}, datum.value) % 2"
    axis = {
        "title": None,
        "orient": "top",
        "labelAngle": 0,
        "labelPadding": {"expr": f"{narrow} ? {8 + 14 * (2 * lines - 1)} : {8 + 14 * (lines - 1)}"},
        "labelLimit": {"expr": f"width / {len(order)} * ({narrow} ? 1.9 : 1)"},
        "labelExpr": f"split(({low} ? '{'|' * lines}' : '') + {text}, '|')",
        "labelOverlap": False,
        "ticks": False,
        "domain": False,
    }
    scale = {"type": "point", "padding": 0.5}
    return {"field": "axis", "type": "nominal", "sort": order, "axis": axis, "scale": scale}


def _sample(view: View) -> list[int]:
    """Rows to draw, the best last: a third of them the best ones, the others evenly over the
    ranking."""
    best = view.ranking[: LINES // 3]
    rest = spread(view.ranking[LINES // 3 :], LINES - len(best))
    return [*reversed(rest), *reversed(best)]


def _note(view: View, drawn: int) -> str:
    said = "Hover over a line to read it; click lines to set them apart."
    if view.ran.height > drawn:
        said += f" Of {view.ran.height:,} points {drawn:,} are drawn: the best {LINES // 3:,}, "
        said += "the others evenly over the ranking."
    hidden = len(view.axes) - AXES
    return said + (f" {hidden} parameters that matter less are left out." if hidden > 0 else "")


def _headings(view: View, axes: Sequence[Axis], measures: Sequence[Measure]) -> dict[str, str]:
    """Names above the axes, with units; a parameter must not be called as an objective."""
    taken = {each.label for each in measures}
    found = {}
    for each in axes:
        unit = _unit(each.ticks)
        name = f"{view.short[each.name]} ({unit})" if unit else view.short[each.name]
        found[each.name] = each.name if name in taken else name
    return found


def _unit(ticks: Sequence[tuple[float, str]]) -> str:
    """The unit that all ticks have; empty where they have none, or several."""
    units = {text.partition(" ")[2] for _, text in ticks if text[:1].isdigit()}
    numbers = all(text[:1].isdigit() and text.count(" ") == 1 for _, text in ticks)
    return units.pop() if numbers and len(units) == 1 else ""


def _bare(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The ticks without their unit where the heading has it."""
    unit = _unit(ticks)
    return [(at, text.removesuffix(f" {unit}") if unit else text) for at, text in ticks]


def _ends(measure: Measure) -> list[tuple[float, str]]:
    """Labels of both ends and the middle of an objective's axis."""
    numbers = sorted(set(measure.shown()))
    found = list(zip(places(numbers), (f"{number:.4g}" for number in numbers), strict=True))
    middle = min(found, key=lambda each: abs(each[0] - 0.5))
    return spaced(list(dict.fromkeys((found[0], middle, found[-1]))))


def _dashes() -> dict[str, Any]:
    """Lines of points that don't fit are dashed."""
    scale = {"domain": list(FITS.values()), "range": [[1, 0], [8, 3], [4, 3]]}
    return {"field": "memory", "type": "nominal", "title": None, "scale": scale}


def _lines(
    view: View,
    drawn: Sequence[int],
    axes: Sequence[Axis],
    measures: Sequence[Measure],
    names: Mapping[str, str],
    groups: Sequence[str],
) -> Iterator[dict[str, Any]]:
    points, following = view.ran["index"], min(_NEXT, (view.ran.height - 1) // 4)
    place_of = {row: place for place, row in enumerate(view.ranking)}
    shown = {each.name: each.shown() for each in measures}
    at = {each.name: places(shown[each.name]) for each in measures}
    first = measures[0]
    for row in drawn:
        rank = place_of[row]
        group = groups[-1] if not rank else groups[-2] if rank <= following else groups[0]
        fixed = {"point": points[row], "points": group, "result": first.text(first.values[row])}
        fixed |= {"memory": FITS[view.fits[row]]} if view.is_marked else {}
        stops = [(names[each.name], each.places[row], each.texts[row]) for each in axes]
        stops += [
            (each.label, at[each.name][row], f"{shown[each.name][row]:g}") for each in measures
        ]
        for place, (axis, where, value) in enumerate(stops):
            yield {"axis": axis, "at": round(where, 4), "value": value, "place": place, **fixed}


def _place(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "axis": None, "scale": {"domain": [0, 1]}}


def _rule(x: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    rows = [{"axis": name, "from": 0, "to": 1} for name in names]
    encoding = {"x": x, "y": _place("from"), "y2": {"field": "to"}}
    return {
        "data": {"values": rows},
        "mark": {"type": "rule", "color": "#888888"},
        "encoding": encoding,
    }


def _tick_labels(x: dict[str, Any], ticks: Ticks) -> list[dict[str, Any]]:
    """Labels next to the axes, with a rim in the colour of the page, since lines run below them."""
    rows = [
        {"axis": name, "at": round(at, 4), "text": text}
        for name, some in ticks.items()
        for at, text in some
    ]
    limit = {"expr": f"max(width / {len(ticks)} - 8, 24)"}
    mark = {"type": "text", "fontSize": 11, "limit": limit, "align": "left", "dx": 5}
    encoding = {"x": x, "y": _place("at"), "text": {"field": "text"}}
    kinds = ({"color": "#ffffff", "stroke": "#ffffff", "strokeWidth": 4}, {"color": "#333333"})
    return [
        {"data": {"values": rows}, "mark": {**mark, **kind}, "encoding": encoding} for kind in kinds
    ]
