"""Charts of a sweep: influence of parameters, parallel coordinates, heat map of two parameters, Pareto front.

Many points are drawn as few: heat maps hold cells, the others a sample with the best points in it, and say so. Not
here: what is drawn (`view.py`), drawing itself (`report/chart.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import InputError, Problem
from ..report.chart import PALETTE, Chart
from .axis import Axis, places
from .view import Measure, View, spread

LINES = 300
"""Points drawn in parallel coordinates."""
AXES = 7
"""Parameters of these and of the heat map."""
DOTS = 800
"""Points drawn beside the Pareto front."""
FRONT = 200
"""Points drawn of the front."""

_AXES_BY_HAND = {
    "title": None,
    "labelAngle": -20,
    "labelLimit": 130,
    "labelPadding": 20,
    "ticks": False,
    "domain": False,
}


def influence(view: View) -> Chart:
    """How much of the objective each parameter explains by itself."""
    rows = [{"parameter": view.short[each.name], "explains": round(view.influence(each), 4)} for each in view.axes]
    spec: dict[str, Any] = {
        "mark": {"type": "bar", "color": PALETTE[0], "height": {"band": 0.6}},
        "encoding": {
            "x": {"field": "explains", "type": "quantitative", "scale": {"domain": [0, 1]}},
            "y": {"field": "parameter", "type": "nominal", "sort": None, "title": None},
            "tooltip": [{"field": "parameter"}, {"field": "explains", "type": "quantitative", "format": ".1%"}],
        },
    }
    what = view.objective.label.partition(" (")[0]
    spec["encoding"]["x"] |= {"title": f"share of the variance of {what}", "axis": {"format": "%", "tickCount": 5}}
    note = (
        "Epsilon squared (Kelley, 1935) of each parameter alone, numbers in at most 12 bins; what parameters do only "
        "together is in none of them."
    )
    return Chart("influence", "What matters", rows, spec, note)


def parallel(view: View) -> Chart:
    """A line a point over the parameters and the objectives, coloured by the first one."""
    objective, axes = view.objective, view.axes[:AXES]
    drawn = _sample(view)
    names = _headings(view, axes)
    ends = [{"axis": names[each.name], "low": each.ends[0], "high": each.ends[1]} for each in axes]
    measures = _measures(view)
    ends += [{"axis": each.label, **_ends(each)} for each in measures]
    order = [str(each["axis"]) for each in ends]
    x: dict[str, Any] = {"field": "axis", "type": "nominal", "sort": order, "axis": _AXES_BY_HAND}
    x["scale"] = {"type": "point", "padding": 0.3}
    line = {
        "mark": {"type": "line", "strokeWidth": 1.3, "opacity": 0.55},
        "encoding": {
            "x": x,
            "y": _place("at"),
            "detail": {"field": "point"},
            "order": {"field": "place", "type": "quantitative"},
            "color": _colour(objective),
            "tooltip": [{"field": "point"}, {"field": "axis"}, {"field": "value"}, {"field": _field(objective.label)}],
        },
    }
    spec = {"height": 340, "layer": [_rule(x, ends), line, *_end_labels(x, ends)]}
    rows = list(_lines(view, drawn, axes, measures, names))
    return Chart("parallel", "Parallel coordinates", rows, spec, _note_of_sample(view, len(drawn), LINES))


def heat_map(view: View, pair: tuple[str, str] | None = None) -> Chart:
    """The best point in each cell of two parameters; any two can be chosen in a page, `pair` (across, up) first.

    Raises `InputError` for what is no parameter that varies.
    """
    axes = view.axes[:AXES]
    if pair is not None:
        chosen = [_chosen(view, name) for name in pair]
        axes = chosen + [each for each in axes if each.name not in pair]
    objective, names = view.objective, view.short
    pairs = [(one, other) for at, one in enumerate(axes) for other in axes[at + 1 :]]
    titles = [f"{names[one.name]} (across), {names[other.name]} (up)" for one, other in pairs]
    rows = [
        row for title, (one, other) in zip(titles, pairs, strict=True) for row in _cells(title, one, other, objective)
    ]
    angle = 0 if all(len(name) < 6 for each in axes for name in each.bins) else -30
    axis = {"title": None, "axis": {"labelAngle": angle}}
    spec: dict[str, Any] = {
        "height": 320,
        "params": [{"name": "pair", "value": titles[0], "bind": {"input": "select", "options": titles, "name": " "}}],
        "transform": [{"filter": "datum.pair === pair"}],
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "across", "type": "nominal", "sort": {"field": "x"}, **axis},
            "y": {"field": "up", "type": "nominal", "sort": {"field": "y", "order": "descending"}, "title": None},
            "color": _colour(objective),
            "tooltip": [{"field": _field(name)} for name in ("across", "up", objective.label, "points")],
        },
    }
    best = "largest" if objective.more else "smallest"
    note = f"First shown: {titles[0]}. Each cell: the {best} value of its points; empty where none ran."
    return Chart("heat-map", "Two parameters", rows, spec, note)


def pareto(view: View, other: Measure) -> Chart:
    """The first objective against `other`: points that nothing beats in both, among the rest."""
    objective, front = view.objective, view.front(other)
    on_front = set(front)
    rest = [row for row in view.ranking if row not in on_front]
    kinds = [*((row, "the rest") for row in spread(rest, DOTS)), *((row, "front") for row in spread(front, FRONT))]
    ys, xs, points = objective.shown(), other.shown(), view.ran["index"].to_list()
    said = [_said(view, row) for row, _ in kinds]
    rows = [
        {other.label: xs[row], objective.label: ys[row], "points": kind, "point": points[row], "parameters": text}
        for (row, kind), text in zip(kinds, said, strict=True)
    ]
    place = {
        "x": {"field": _field(other.label), "type": "quantitative", "title": other.label, "scale": {"zero": False}},
        "y": {
            "field": _field(objective.label),
            "type": "quantitative",
            "title": objective.label,
            "scale": {"zero": False},
        },
    }
    colour = {"field": "points", "type": "nominal", "title": None, "sort": ["front", "the rest"]}
    colour["scale"] = {"domain": ["front", "the rest"], "range": [PALETTE[1], "#b8c4d0"]}  # type: ignore[assignment]
    fields = [_field(other.label), _field(objective.label), "point", "parameters"]
    tips = {"tooltip": [{"field": name, "title": name.replace("\\", "")} for name in fields]}
    line = {"mark": {"type": "line", "color": PALETTE[1], "strokeWidth": 1}, "encoding": place}
    line["transform"] = [{"filter": "datum.points === 'front'"}]
    dots = {"mark": {"type": "point", "filled": True, "size": 45, "opacity": 0.85}}
    spec = {"height": 340, "layer": [{**dots, "encoding": {**place, **tips, "color": colour}}, line]}
    title = f"{objective.label.partition(' (')[0]} against {other.label.partition(' (')[0]}"
    note = f"{len(front):,} of {view.ran.height:,} points are on the front: nothing is better in both."
    if len(rest) > DOTS:
        note += f" Of the rest, {DOTS:,} are drawn, evenly from the best to the worst."
    return Chart("pareto", title[0].upper() + title[1:], rows, spec, note)


def _chosen(view: View, name: str) -> Axis:
    found = next((each for each in view.axes if name in (each.name, view.short[each.name])), None)
    if found is None:
        allowed = ", ".join(each.name for each in view.axes)
        raise InputError([Problem(view.name, name, "is no parameter that varies among the points that ran", allowed)])
    return found


def _field(name: str) -> str:
    """A column's name as a field: dots and brackets would be paths."""
    return "".join(f"\\{letter}" if letter in ".[]\\'\"" else letter for letter in name)


def _colour(objective: Measure) -> dict[str, Any]:
    """Dark is good."""
    values = objective.shown()
    wide = min(values) > 0 and max(values) / min(values) > 20
    scale = {"scheme": "viridis", "reverse": objective.more, "type": "log" if wide else "linear"}
    title = f"{objective.label}, {'largest' if objective.more else 'smallest'} is best"
    return {"field": _field(objective.label), "type": "quantitative", "title": title, "scale": scale}


def _sample(view: View) -> list[int]:
    """Rows to draw, the best last: a third of them the best ones, the others evenly over the ranking."""
    best = view.ranking[: LINES // 3]
    rest = spread(view.ranking[LINES // 3 :], LINES - len(best))
    return [*reversed(rest), *reversed(best)]


def _note_of_sample(view: View, drawn: int, most: int) -> str:
    said = "Dark lines are the best points; hover to see a point."
    if view.ran.height > drawn:
        said += f" Of {view.ran.height:,} points {drawn:,} are drawn: the best {most // 3:,}, "
        said += "the others evenly over the ranking."
    hidden = len(view.axes) - AXES
    return said + (f" {hidden} parameters that matter less are left out." if hidden > 0 else "")


def _measures(view: View) -> list[Measure]:
    return [view.measure(*each) for each in view.objectives[:3]]


def _headings(view: View, axes: Sequence[Axis]) -> dict[str, str]:
    """Names above the axes; a parameter must not be called as an objective."""
    taken = {each.label for each in _measures(view)}
    return {each.name: each.name if view.short[each.name] in taken else view.short[each.name] for each in axes}


def _ends(measure: Measure) -> dict[str, str]:
    return {"low": f"{min(measure.shown()):.4g}", "high": f"{max(measure.shown()):.4g}"}


def _lines(
    view: View, drawn: Sequence[int], axes: Sequence[Axis], measures: Sequence[Measure], names: dict[str, str]
) -> Iterator[dict[str, Any]]:
    points, objective = view.ran["index"].to_list(), view.objective
    shown = {each.name: each.shown() for each in measures}
    at = {each.name: places(shown[each.name]) for each in measures}
    for row in drawn:
        colour = {objective.label: shown[objective.name][row], "point": points[row]}
        for place, each in enumerate(axes):
            value = {"axis": names[each.name], "at": round(each.places[row], 4), "value": each.texts[row]}
            yield {**value, "place": place, **colour}
        for place, measure in enumerate(measures, len(axes)):
            text = f"{shown[measure.name][row]:g}"
            yield {
                "axis": measure.label,
                "at": round(at[measure.name][row], 4),
                "value": text,
                "place": place,
                **colour,
            }


def _place(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "axis": None, "scale": {"domain": [0, 1]}}


def _rule(x: dict[str, Any], ends: Sequence[dict[str, str]]) -> dict[str, Any]:
    rows = [{"axis": each["axis"], "from": 0, "to": 1} for each in ends]
    encoding = {"x": x, "y": _place("from"), "y2": {"field": "to"}}
    return {"data": {"values": rows}, "mark": {"type": "rule", "color": "#9a9a9a"}, "encoding": encoding}


def _end_labels(x: dict[str, Any], ends: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    """What stands at the ends of the axes."""
    style = {"type": "text", "fontSize": 11, "color": "#333333", "limit": 110}
    rows = [{**each, "from": 0, "to": 1} for each in ends]

    def labels(at: str, field: str, below: int) -> dict[str, Any]:
        mark = {**style, "dy": below, "baseline": "top" if below > 0 else "bottom"}
        encoding = {"x": x, "y": _place(at), "text": {"field": field}}
        return {"data": {"values": rows}, "mark": mark, "encoding": encoding}

    return [labels("from", "low", 4), labels("to", "high", -4)]


def _cells(title: str, one: Axis, other: Axis, objective: Measure) -> Iterator[dict[str, Any]]:
    """The cells of two axes that have points, in order."""
    values, cells = objective.shown(), dict[tuple[int, int], list[float]]()
    for x, y, value in zip(one.bin_of, other.bin_of, values, strict=True):
        cells.setdefault((x, y), []).append(value)
    best = max if objective.more else min
    for (x, y), found in sorted(cells.items()):
        value = best(found)
        where = {"pair": title, "across": one.bins[x], "x": x, "up": other.bins[y], "y": y}
        yield {**where, objective.label: value if math.isfinite(value) else None, "points": len(found)}


def _said(view: View, row: int) -> str:
    """`tp=8, outer=25 GB/s`."""
    return ", ".join(f"{view.short[each.name]}={each.texts[row]}" for each in view.axes)
