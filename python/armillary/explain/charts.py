"""Charts of explanations and comparisons: what sums to what, and what would help.

Here: rows and specifications. Not here: drawing (`report/chart.py`), what the numbers mean (the
callers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..report.chart import PALETTE, Chart, wrapping
from ..report.path_layers import Span
from ..report.plain_names import Named
from ..report.quantity import Quantity, in_one_unit, time
from ..report.scale import Scale
from .causes import Move

_ROOM = 1.2
"""Length of the axis as a multiple of the longest bar, which leaves room for the words behind
it."""
_SMALL = 0.2
"""Share of the step below which changes are drawn without it: next to it they are too short."""
_SLOWER, _FASTER, _WHOLE = PALETTE[1], PALETTE[2], PALETTE[7]


def waterfall(data: Mapping[str, Any], names: tuple[str, str], suffix: str) -> Chart:
    """Chart from one step time to the other, cause by cause."""
    before, after = data["a_step_ns"], data["b_step_ns"]
    moved = [*data["causes"].items(), ("not listed", data["remainder_ns"])]
    moved = [(cause, ns) for cause, ns in moved if abs(ns) > 1e-9 * before]
    small = sum(abs(ns) for _, ns in moved) < _SMALL * before
    at, rows = 0.0 if small else before, []
    for cause, ns in moved:
        rows.append(_step(cause, at, at + ns, "slower" if ns > 0 else "faster"))
        at += ns
    if small:
        rows.append(_step("change", 0.0, after - before, "step"))
        grey = "the whole change"
    else:
        rows = [_step(names[0], 0.0, before, "step"), *rows, _step(names[1], 0.0, after, "step")]
        grey = "step times"
    note = f"Grey: {grey}. Orange makes the step longer, green makes it shorter."
    title = f"From {names[0]} to {names[1]}, by cause"
    longest = max((abs(row[end]) for row in rows for end in ("from_ns", "to_ns")), default=0.0)
    return _bars(f"waterfall{suffix}", title, rows, longest, note)


def sum_of(
    name: str, title: str, parts: Sequence[tuple[str, float]], whole: str, note: str = ""
) -> Chart:
    """Parts one after another, and what they sum to."""
    at, rows = 0.0, []
    for part, ns in parts:
        rows.append(_step(part, at, at + ns, "part" if ns >= 0 else "faster"))
        at += ns
    rows.append(_step(whole, 0.0, at, "step"))
    return _bars(name, title, rows, max((abs(row["to_ns"]) for row in rows), default=0.0), note)


def side_by_side(
    name: str,
    title: str,
    bars: Sequence[tuple[str, float]],
    whole: tuple[str, float],
    note: str = "",
) -> Chart:
    """Times below the one that they are held against."""
    rows = [
        _step(whole[0], 0.0, whole[1], "step"),
        *(_step(what, 0.0, ns, "part") for what, ns in bars),
    ]
    return _bars(name, title, rows, max(row["to_ns"] for row in rows), note)


def _step(name: str, start: float, end: float, what: str) -> dict[str, Any]:
    change = end - start
    said = time(change) if change >= 0 else f"-{time(-change)}"
    shown = said if what in ("step", "part") or change < 0 else f"+{said}"
    return {
        "what": name,
        "from_ns": start,
        "to_ns": end,
        "role": what,
        "change_ns": change,
        "said": shown,
    }


def _bars(name: str, title: str, rows: list[dict[str, Any]], longest: float, note: str) -> Chart:
    """Bars from one time to another, in the order of the rows, each with its length in words."""
    scale = Scale.of(longest)
    saids = in_one_unit([Quantity(row["said"], row["change_ns"]) for row in rows])
    rows = [{**row, "said": str(said)} for row, said in zip(rows, saids, strict=True)]
    order = [row["what"] for row in rows]
    axis, height = wrapping(order)
    place = {"field": "what", "type": "nominal", "sort": order, "title": None, "axis": axis}
    furthest = max((row[end] for row in rows for end in ("from_ns", "to_ns")), default=0.0)
    room = {"domainMax": furthest / scale.ns * _ROOM} if furthest > 0 else {}
    start = {"field": "start", "type": "quantitative", "title": scale.axis("time"), "scale": room}
    roles, colours = ["step", "part", "slower", "faster"], [_WHOLE, PALETTE[0], _SLOWER, _FASTER]
    tooltip = [{"field": "what", "title": "What"}, {"field": "said", "title": "Time"}]
    colour = {
        "field": "role",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": roles, "range": colours},
    }
    spec = {
        "height": height,
        "transform": [
            scale.calculate("from_ns", "start"),
            scale.calculate("to_ns", "end"),
            {"calculate": "max(datum.start, datum.end)", "as": "right"},
        ],
        "encoding": {"y": place},
        "layer": [
            {
                "mark": {"type": "bar", "minWidth": 1},
                "encoding": {
                    "x": start,
                    "x2": {"field": "end"},
                    "color": colour,
                    "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 5},
                "encoding": {
                    "x": {"field": "right", "type": "quantitative"},
                    "text": {"field": "said"},
                },
            },
        ],
    }
    return Chart(name, title, rows, spec, note)


def operations(moves: Sequence[Move], suffix: str) -> Chart:
    """Changes of operations, by cause: to the right what takes longer."""
    rows = [
        {
            "operation": f"{Named(move.name)} ({move.kind})",
            "name": move.name,
            "cause": cause,
            "change_ns": ns,
            "said": _signed(ns),
        }
        for move in moves
        for cause, ns in move.causes.items()
    ]
    order = list(dict.fromkeys(str(row["operation"]) for row in rows))
    return _changes(
        f"operations{suffix}",
        "Operations on the critical path that changed most",
        "operation",
        order,
        rows,
    )


def layers(spans: Sequence[Span], suffix: str) -> Chart:
    """Changes of layers, in the order of the model."""
    rows = [
        {
            "layer": span.name,
            "change_ns": span.delta_ns / span.count,
            "layers": span.count,
            "said": _signed(span.delta_ns),
        }
        for span in spans
    ]
    order = [span.name for span in spans]
    note = "Layers that are alike share a bar, which shows the change of each one."
    return _changes(
        f"layers{suffix}",
        "Change of a layer's time on the critical path",
        "layer",
        order,
        rows,
        note,
    )


def _changes(
    name: str,
    title: str,
    field: str,
    order: Sequence[str],
    rows: list[dict[str, Any]],
    note: str = "",
) -> Chart:
    """Bars to both sides of no change, by cause where the rows have causes."""
    sums: dict[str, float] = {}
    for row in rows:
        sums[row[field]] = sums.get(row[field], 0.0) + abs(row["change_ns"])
    scale = Scale.of(max(sums.values(), default=0.0))
    axis, height = wrapping(order)
    place = {"field": field, "type": "nominal", "sort": list(order), "title": None, "axis": axis}
    encoding: dict[str, Any] = {
        "y": place,
        "x": {"field": "change", "type": "quantitative", "title": scale.axis("change")},
        "tooltip": [
            {"field": field, "title": field.capitalize()},
            {"field": "said", "title": "Change"},
        ],
    }
    if rows and "name" in rows[0]:
        encoding["tooltip"].append({"field": "name", "title": "Name"})
    if rows and "cause" in rows[0]:
        found = list(dict.fromkeys(row["cause"] for row in rows))
        encoding["color"] = {
            "field": "cause",
            "type": "nominal",
            "title": None,
            "scale": {"domain": found},
        }
        encoding["tooltip"].append({"field": "cause", "title": "Cause"})
    else:
        encoding["color"] = {
            "condition": {"test": "datum.change_ns > 0", "value": _SLOWER},
            "value": _FASTER,
        }
    spec = {
        "mark": "bar",
        "height": height,
        "transform": [scale.calculate("change_ns", "change")],
        "encoding": encoding,
    }
    return Chart(name, title, rows, spec, note)


def gains(rows: Sequence[tuple[str, float, str]], now_ns: float, what: str) -> Chart:
    """Savings of changes against `now_ns`, largest first, and the sort of each."""
    scale = Scale.of(max((abs(ns) for _, ns, _ in rows), default=now_ns))
    found = [
        {
            "change": change,
            "saved_ns": ns,
            "kind": kind,
            "said": f"{_signed(-ns)} ({-ns / now_ns * 100:+.2f} %)" if now_ns else _signed(-ns),
        }
        for change, ns, kind in rows
    ]
    axis, height = wrapping([change for change, _, _ in rows])
    place = {"field": "change", "type": "nominal", "sort": None, "title": None, "axis": axis}
    kinds = ["10 % more", "another choice", "option of the workload"]
    shown = {
        kind: colour
        for kind, colour in zip(kinds, PALETTE, strict=False)
        if any(kind == each for _, _, each in rows)
    }
    colour = {
        "field": "kind",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(shown), "range": list(shown.values())},
    }
    spec = {
        "height": height,
        "mark": {"type": "bar", "minWidth": 1},
        "transform": [scale.calculate("saved_ns", "saved")],
        "encoding": {
            "y": place,
            "x": {"field": "saved", "type": "quantitative", "title": scale.axis("time saved")},
            "color": colour,
            "tooltip": [{"field": "change", "title": "Change"}, {"field": "said", "title": what}],
        },
    }
    note = "Each change is simulated by itself. Left of 0: it would take longer."
    return Chart("gains", f"What changes would save of the {what.lower()}", found, spec, note)


def _signed(ns: float) -> str:
    return f"{'-' if ns < 0 else '+'}{time(abs(ns))}" if ns else "0"
