"""Charts of a sweep: influence of parameters, heat map of two parameters, Pareto front.

Many points are drawn as few: heat maps hold cells, the Pareto front a sample with the best points
in it, and say so. Not here: what is drawn (`view.py`), parallel coordinates (`parallel.py`),
drawing itself (`report/chart.py`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import InputError, Problem
from ..report.chart import PALETTE, Chart
from .axis import Axis
from .view import Measure, View, spread

AXES = 7
"""Parameters of these and of the heat map."""
DOTS = 800
"""Points drawn in addition to the Pareto front."""
FRONT = 200
"""Points drawn of the front."""

FITS: dict[str, str] = {
    "yes": "fits in memory",
    "near": "may not fit in memory",
    "no": "does not fit in memory",
}

_LETTERS = 90
"""Letters of text that fit side by side below a chart."""
_LETTERS_IN_CELLS = {"expr": "bandwidth('x') >= 64 ? 12 : bandwidth('x') >= 44 ? 9 : 0"}
"""Size of a value in its cell; narrow cells have none."""


def influence(view: View) -> Chart:
    """How much of the objective each parameter explains by itself."""
    rows = [
        {"parameter": view.short[each.name], "explains": round(view.influence(each), 4)}
        for each in view.axes
    ]
    spec: dict[str, Any] = {
        "mark": {"type": "bar", "color": PALETTE[0], "height": {"band": 0.6}},
        "encoding": {
            "x": {"field": "explains", "type": "quantitative", "scale": {"domain": [0, 1]}},
            "y": {"field": "parameter", "type": "nominal", "sort": None, "title": None},
            "tooltip": [
                {"field": "parameter"},
                {"field": "explains", "type": "quantitative", "format": ".1%"},
            ],
        },
    }
    what = view.objective.label.partition(" (")[0]
    spec["encoding"]["x"] |= {
        "title": f"share of the variance of {what}",
        "axis": {"format": "%", "tickCount": 5},
    }
    note = (
        "Epsilon squared (Kelley, 1935) of each parameter alone, with numbers in at most 12 bins. "
        "Effects of parameters together are not shown."
    )
    return Chart("influence", "What matters", rows, spec, note)


def heat_map(view: View, pair: tuple[str, str] | None = None) -> Chart:
    """The best point in each cell of two parameters; any two can be chosen in a page, `pair`
    (across, up) first.

    Raises `InputError` for what is not a parameter that varies.
    """
    axes = view.axes[:AXES]
    if pair is not None:
        chosen = [_chosen(view, name) for name in pair]
        axes = chosen + [each for each in axes if each.name not in pair]
    objective, names = view.objective, view.short
    axes = [view.axis(each.name, view.measured) for each in axes]
    pairs = [(one, other) for at, one in enumerate(axes) for other in axes[at + 1 :]]
    titles = [f"{names[one.name]} (across), {names[other.name]} (up)" for one, other in pairs]
    rows = [
        row
        for title, (one, other) in zip(titles, pairs, strict=True)
        for row in _cells(title, one, other, view)
    ]
    spec: dict[str, Any] = {
        "height": 320,
        "params": [
            {
                "name": "pair",
                "value": titles[0],
                "bind": {"input": "select", "options": titles, "name": " "},
            },
            {"name": "across_title", "expr": "split(pair, ' (across), ')[0]"},
            {"name": "up_title", "expr": "replace(split(pair, ' (across), ')[1], ' (up)', '')"},
        ],
        "transform": [{"filter": "datum.pair === pair"}],
        "layer": _cell_layers(axes, objective),
    }
    best = "largest" if objective.more else "smallest"
    what = objective.label.partition(" (")[0]
    note = (
        f"First shown: {titles[0]}. Each cell: the {best} {what} of its points; "
        "empty where none ran"
    )
    note += (
        ", grey where none fits in memory."
        if view.out_of_memory.height and not view.include_infeasible
        else "."
    )
    title = f"{what[0].upper()}{what[1:]} by two parameters"
    return Chart("heat-map", title, rows, spec, note)


def _cell_layers(axes: Sequence[Axis], objective: Measure) -> list[dict[str, Any]]:
    """Cells without a value, cells with one, and the values in them."""
    angle = 0 if all(sum(len(name) + 2 for name in each.bins) < _LETTERS for each in axes) else -30
    x = {
        "field": "across",
        "type": "nominal",
        "sort": {"field": "x"},
        "title": {"signal": "across_title"},
        "axis": {"labelAngle": angle},
    }
    y = {
        "field": "up",
        "type": "nominal",
        "sort": {"field": "y", "order": "descending"},
        "title": {"signal": "up_title"},
        "axis": {"titlePadding": 12},
    }
    tips = [
        {"field": _field(name)}
        for name in ("across", "up", objective.label, "points", "do not fit")
    ]
    cell = {"x": x, "y": y, "tooltip": tips}
    filled, empty = ({"filter": f"datum.points {sign} 0"} for sign in (">", "==="))
    written = {**cell, "text": {"field": "text", "type": "nominal"}}
    return [
        {"mark": {"type": "rect", "color": "#e6e6e6"}, "transform": [empty], "encoding": cell},
        {
            "mark": {"type": "rect"},
            "transform": [filled],
            "encoding": {**cell, "color": _colour(objective)},
        },
        *(
            {
                "mark": {"type": "text", "fontSize": _LETTERS_IN_CELLS, "color": colour},
                "transform": [filled, {"filter": f"datum.on === '{ground}'"}],
                "encoding": written,
            }
            for ground, colour in (("dark", "#fefefe"), ("light", "#010101"))
        ),
    ]


def pareto(view: View, other: Measure) -> Chart:
    """The first objective against `other`: points that nothing beats in both, among the rest."""
    objective, front = view.objective, view.front(other)
    on_front = set(front)
    rest = [row for row in view.ranking if row not in on_front]
    kinds = [
        *((row, "the rest") for row in spread(rest, DOTS)),
        *((row, "front") for row in spread(front, FRONT)),
    ]
    ys, xs, points = objective.shown(), other.shown(), view.ran["index"]
    said = [_said(view, row) for row, _ in kinds]
    rows = [
        {
            other.label: xs[row],
            objective.label: ys[row],
            "points": kind,
            "point": points[row],
            "parameters": text,
        }
        | ({"memory": FITS[view.fits[row]]} if view.is_marked else {})
        for (row, kind), text in zip(kinds, said, strict=True)
    ]
    place = {
        "x": {
            "field": _field(other.label),
            "type": "quantitative",
            "title": other.label,
            "scale": {"zero": False},
        },
        "y": {
            "field": _field(objective.label),
            "type": "quantitative",
            "title": objective.label,
            "scale": {"zero": False},
        },
    }
    colour = {"field": "points", "type": "nominal", "title": None, "sort": ["front", "the rest"]}
    colour["scale"] = {"domain": ["front", "the rest"], "range": [PALETTE[1], "#b8c4d0"]}  # type: ignore[assignment]
    shape = {"field": "memory", "type": "nominal", "title": None}
    shape["scale"] = {"domain": list(FITS.values()), "range": ["circle", "diamond", "cross"]}  # type: ignore[assignment]
    marked = {"color": colour} | ({"shape": shape} if view.is_marked else {})
    fields = [_field(other.label), _field(objective.label), "point", "parameters"]
    tips = {"tooltip": [{"field": name, "title": name.replace("\\", "")} for name in fields]}
    line = {"mark": {"type": "line", "color": PALETTE[1], "strokeWidth": 1}, "encoding": place}
    line["transform"] = [{"filter": "datum.points === 'front'"}]
    dots = {"mark": {"type": "point", "filled": True, "size": 45, "opacity": 0.85}}
    spec = {"height": 340, "layer": [{**dots, "encoding": {**place, **tips, **marked}}, line]}
    title = f"{objective.label.partition(' (')[0]} against {other.label.partition(' (')[0]}"
    note = (
        f"{len(front):,} of {view.ran.height:,} points are on the front: nothing is better in both."
    )
    if len(rest) > DOTS:
        note += f" {DOTS:,} of the rest are drawn, evenly from the best to the worst."
    return Chart("pareto", title[0].upper() + title[1:], rows, spec, note)


def _chosen(view: View, name: str) -> Axis:
    found = next((each for each in view.axes if name in (each.name, view.short[each.name])), None)
    if found is None:
        allowed = ", ".join(each.name for each in view.axes)
        raise InputError(
            [
                Problem(
                    view.name,
                    name,
                    "is not a parameter that varies among the points that ran",
                    allowed,
                )
            ]
        )
    return found


def _field(name: str) -> str:
    """A column's name as a field: dots and brackets would be paths."""
    return "".join(f"\\{letter}" if letter in ".[]\\'\"" else letter for letter in name)


def _colour(objective: Measure) -> dict[str, Any]:
    """Dark is good."""
    kind = "log" if _is_wide(objective.shown()) else "linear"
    scale = {"scheme": "viridis", "reverse": objective.more, "type": kind}
    title = f"{objective.label}, {'largest' if objective.more else 'smallest'} is best"
    return {
        "field": _field(objective.label),
        "type": "quantitative",
        "title": title,
        "scale": scale,
    }


def _is_wide(values: Sequence[float]) -> bool:
    """Whether numbers take a logarithmic scale."""
    return min(values) > 0 and max(values) / min(values) > 20


def _cells(title: str, one: Axis, other: Axis, view: View) -> Iterator[dict[str, Any]]:
    """The cells of two axes that have points, in order. The axes are those of all points that were
    measured."""
    objective = view.objective
    cells: dict[tuple[int, int], list[float]] = {}
    out: Counter[tuple[int, int]] = Counter()
    values = [float(value) for value in view.measured[objective.name]]
    for x, y, value, counts in zip(one.bin_of, other.bin_of, values, view.counted, strict=True):
        cells.setdefault((x, y), [])
        if counts:
            cells[x, y].append(float(f"{value * objective.scale:.6g}"))
        else:
            out[x, y] += 1
    best = max if objective.more else min
    tops = {place: best(found) for place, found in cells.items() if found}
    dark = _dark(objective, list(tops.values()))
    for (x, y), found in sorted(cells.items()):
        where = {"pair": title, "across": one.bins[x], "x": x, "up": other.bins[y], "y": y}
        ground = "dark" if found and dark(tops[x, y]) else "light"
        counted = {"points": len(found), "do not fit": out[x, y], "on": ground}
        text = _short(tops[x, y], objective) if found else ""
        yield {**where, objective.label: tops.get((x, y)), "text": text, **counted}


def _short(value: float, objective: Measure) -> str:
    """`92.9 ms`: three digits and the unit of the label."""
    unit = objective.label.partition(" (")[2].rstrip(")")
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits}{'' if unit == '%' else ' '}{unit}".strip()


def _dark(objective: Measure, values: Sequence[float]) -> Callable[[float], bool]:
    """Whether the colour of a value is on the dark half of the scale."""
    if not values:
        return lambda value: False
    wide = _is_wide(objective.shown())
    low, high = min(values), max(values)
    middle = math.sqrt(low * high) if wide else (low + high) / 2
    return (lambda value: value > middle) if objective.more else (lambda value: value < middle)


def _said(view: View, row: int) -> str:
    """`tp=8, outer=25 GB/s`."""
    return ", ".join(f"{view.short[each.name]}={each.texts[row]}" for each in view.axes)
