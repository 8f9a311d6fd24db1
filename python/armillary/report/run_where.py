"""Where the time of a step goes: by class of ranks, by layer, over time.

Here: sections of a run's page as charts with their tables. Not here: network (`run_network.py`), single operations and
memory (`run_work.py`). The pictures are those of the ASTRA-SIM papers: compute and exposed communication by layer
(ISPASS 2020, Fig. 15; HOTI 2020, Figs. 12 and 13), raw communication by layer (ISPASS Figs. 13 and 14, HOTI Fig. 11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..schema import Class, Detail, Layer, Report
from .chart import COLOURS, Chart
from .page import Part, Section, Table
from .quantity import number, share, time
from .scale import Scale

PARTS = {
    "compute": ("compute_ns", COLOURS["compute"]),
    "exposed communication": ("exposed_comm_ns", COLOURS["communication"]),
    "remote memory": ("exposed_remote_ns", COLOURS["remote memory"]),
    "local memory": ("exposed_local_ns", COLOURS["local memory"]),
    "waiting for launches": ("exposed_launch_ns", COLOURS["waiting for launches"]),
    "host": ("exposed_host_ns", COLOURS["host"]),
    "idle": ("idle_ns", COLOURS["idle"]),
}
"""The parts that sum to the step: name, field of a class, colour."""
_SELDOM = ("remote", "local", "launch", "host")
RAW = "#f2b48c"
"""Communication in flight, exposed or not."""
_CLASSES = 16
_ALIKE = 0.001
"""Of the step: classes that differ by less in every part look the same."""
_LAYER_CLASSES = 8
"""Classes of ranks whose layers can be chosen."""
_LAYERS = 120
_LAYER_ROWS = 15
_LABELS = 24
"""Layers named below a chart of more."""
_CLIP = 28
"""Characters of a list of ranks."""
NAMES = {"labelLimit": 0, "labelExpr": "truncate(datum.label, 44)"}
"""An axis of names. To measure a text is what takes longest of drawing a chart, so they are cut by characters."""


def by_class(report: Report, scale: Scale) -> Section:
    """The parts of each class of ranks."""
    step = report["step_time_ns"] or 1.0
    rows = _class_rows(report, step)
    parts = present(PARTS, rows)
    long = [
        {"ranks": row["ranks"], "npus": row["npus"], "part": part, "ns": row[field], "share": row[field] / step}
        for row in rows
        for part, (field, _) in parts.items()
    ]
    spec = _class_spec(scale, parts)
    chart = Chart("classes", "Parts of the step by class of ranks", long, spec, _symmetry(report))
    cells = [
        [row["ranks"], number(row["npus"]), *(_cell(row[field], step) for field, _ in parts.values())] for row in rows
    ]
    heads = ["Ranks", "NPUs", *(part.capitalize() for part in parts)]
    note = "Classes that differ by less than 0.1% of the step are one row, their mean; the JSON has each."
    note = note if len(rows) < len(report["classes"]) else ""
    return Section("Where the time goes", [chart, Table("By class of ranks", heads, cells, note)])


def _class_rows(report: Report, step: float) -> list[dict[str, Any]]:
    """Classes, those that hardly differ as one, and what is too much to show as the last."""
    groups: list[list[Class]] = []
    rest: list[Class] = []
    for item in report["classes"]:
        alike = next((group for group in groups if _alike(group[0], item, step)), None)
        if alike is not None:
            alike.append(item)
        elif len(groups) < _CLASSES:
            groups.append([item])
        else:
            rest.append(item)
    rows = [_class_row(_names(group), group) for group in groups]
    return [*rows, _class_row(f"{len(rest)} more classes", rest)] if rest else rows


def _alike(one: Class, other: Class, step: float) -> bool:
    near = (abs(one[field] - other[field]) < _ALIKE * step for field, _ in PARTS.values())  # type: ignore[literal-required]
    return one["program"] == other["program"] and all(near)


def _names(group: Sequence[Class]) -> str:
    return ranks(group[0]) if len(group) == 1 else f"{ranks(group[0])} and {len(group) - 1} more"


def _class_row(name: str, group: Sequence[Class]) -> dict[str, Any]:
    return {"ranks": name, "npus": sum(item["count"] for item in group), **mean(group)}


def mean(classes: Sequence[Class]) -> dict[str, float]:
    """The parts of the mean rank of several classes."""
    ranks = sum(item["count"] for item in classes) or 1
    return {
        field: sum(item[field] * item["count"] for item in classes) / ranks  # type: ignore[literal-required]
        for field, _ in PARTS.values()
    }


def present(parts: dict[str, tuple[str, str]], rows: Sequence[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Without memory where a kind of it is not accessed, and without launches and hosts that none waits for."""
    seldom = ("memory", "launches", "host")
    used = {part for part, (field, _) in parts.items() if not part.endswith(seldom) or any(row[field] for row in rows)}
    return {part: entry for part, entry in parts.items() if part in used}


def _class_spec(scale: Scale, parts: dict[str, tuple[str, str]]) -> dict[str, Any]:
    order = ", ".join(f"'{part}'" for part in parts)
    axis = {"field": "time", "type": "quantitative", "title": scale.axis("time"), "scale": {"nice": False}}
    return {
        "transform": [scale.calculate("ns", "time"), {"calculate": f"indexof([{order}], datum.part)", "as": "place"}],
        "mark": "bar",
        "encoding": {
            "y": {"field": "ranks", "type": "nominal", "sort": None, "title": "ranks", "axis": NAMES},
            "x": axis,
            "color": {"field": "part", "type": "nominal", "title": None, "scale": colours(parts)},
            "order": {"field": "place"},
            "tooltip": tooltip("ranks", "npus", "part", ("time", scale.axis("time")), ("share", "share", ".1%")),
        },
    }


def colours(parts: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """A scale of colours for parts given as name -> (field, colour)."""
    return {"domain": list(parts), "range": [colour for _, colour in parts.values()]}


def tooltip(*fields: str | tuple[str, ...]) -> list[dict[str, str]]:
    """Tooltips of a chart: a field, or field, title and format."""
    keys = ("field", "title", "format")
    entries = [dict(zip(keys, (field,) if isinstance(field, str) else field, strict=False)) for field in fields]
    return [{"format": ",.4~r"} | entry if entry["field"] == "time" else entry for entry in entries]


def ranks(item: Class) -> str:
    """Which ranks a class has, clipped."""
    text = item["ranks"]
    return text if len(text) <= _CLIP else f"{text[: _CLIP - 3]}..."


def _symmetry(report: Report) -> str:
    count, classes = report["ranks"], report["symmetry"]["classes"]
    if classes == 1:
        return "All ranks are alike."
    reason = f": {report['symmetry']['reason']}" if report["symmetry"]["reason"] else ""
    return f"{number(count)} ranks in {number(classes)} classes that must behave alike{reason}."


def _cell(ns: float, step: float) -> str:
    return f"{time(ns, 3)} ({share(ns / step)})" if ns else "0"


def by_layer(report: Report, detail: Detail, scale: Scale) -> Section:
    """What each layer of the model computes and waits for, and all its communication beside what is exposed."""
    names = _listed(report, detail)
    rows = [row for each, name in names.items() for row in _layer_rows(detail, each, name)]
    choices = list(names.values())
    note = (
        f"Ranks {choices[0]}." if len(choices) == 1 else f"Drawn: ranks {choices[0]}. Others can be chosen on a screen."
    )
    exposed = Chart("layers", "Compute and exposed time by layer", rows, _layer_spec(scale, rows, choices), note)
    raw = Chart("layer_communication", "Communication by layer", rows, _raw_spec(scale, rows, choices), _RAW_NOTE)
    first = [row for row in rows if row["ranks"] == choices[0]]
    return Section("By layer", [exposed, raw, _layer_table(first, choices[0])])


_RAW_NOTE = "Raw: the times that communication was in flight, summed. Exposed: what nothing computed beside."


def _listed(report: Report, detail: Detail) -> dict[int, str]:
    """Classes to show with their names: the first of every program, then others."""
    classes = report["classes"]
    there = list(dict.fromkeys(row["rank_class"] for row in detail["layers"] if row["rank_class"] < len(classes)))
    programs = [classes[i]["program"] for i in there]
    firsts = [i for place, i in enumerate(there) if programs.index(programs[place]) == place]
    chosen = [*firsts, *(i for i in there if i not in firsts)][:_LAYER_CLASSES]
    return {i: ranks(classes[i]) for i in chosen}


def _layer_rows(detail: Detail, of: int, name: str) -> list[dict[str, Any]]:
    """Layers in order of appearance; the smaller ones as one where there are very many."""
    layers = [row for row in detail["layers"] if row["rank_class"] == of]
    largest = sorted(range(len(layers)), key=lambda i: (-_weight(layers[i]), i))
    kept, rest = sorted(largest[:_LAYERS]), largest[_LAYERS:]
    rows = [{"ranks": name, "layer": layers[i]["layer"], **_times(layers[i : i + 1])} for i in kept]
    if rest:
        rows.append({"ranks": name, "layer": f"{len(rest)} more", **_times([layers[i] for i in rest])})
    return rows


_TIMES = (
    "compute_ns",
    "exposed_comm_ns",
    "exposed_remote_ns",
    "exposed_local_ns",
    "exposed_launch_ns",
    "exposed_host_ns",
    "comm_ns",
    "remote_ns",
    "local_ns",
)


def _times(layers: Sequence[Layer]) -> dict[str, float]:
    return {key: sum(layer[key] for layer in layers) for key in _TIMES}  # type: ignore[literal-required]


def _weight(layer: Layer) -> float:
    return sum(layer[field] for part, (field, _) in PARTS.items() if part != "idle")  # type: ignore[literal-required]


def _choice(choices: Sequence[str]) -> dict[str, Any]:
    """The ranks that are drawn, to be chosen where there are several."""
    if len(choices) == 1:
        return {}
    bind = {"input": "select", "options": list(choices), "name": "ranks "}
    return {"params": [{"name": "chosen", "value": choices[0], "bind": bind}]}


def _layer_axis(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Names of layers, of very many every second, third, ..."""
    names = list(dict.fromkeys(row["layer"] for row in rows))
    axis = {"labelAngle": -50, "values": names[:: -(-len(names) // _LABELS)]}
    axis |= {"labelLimit": 0, "labelExpr": "truncate(datum.label, 20)"}
    return {"field": "layer", "type": "nominal", "sort": None, "title": None, "axis": axis}


def _layer_spec(scale: Scale, rows: Sequence[dict[str, Any]], choices: Sequence[str]) -> dict[str, Any]:
    parts = present({part: entry for part, entry in PARTS.items() if part != "idle"}, rows)
    fields = [field for field, _ in parts.values()]
    names = ", ".join(f"{field}: '{part}'" for part, (field, _) in parts.items())
    transform: list[dict[str, Any]] = [{"filter": "datum.ranks == chosen"}] if len(choices) > 1 else []
    transform += [{"fold": fields, "as": ["field", "ns"]}, scale.calculate("ns", "time")]
    transform.append({"calculate": f"({{{names}}})[datum.field]", "as": "part"})
    transform.append({"calculate": f"indexof([{', '.join(repr(f) for f in fields)}], datum.field)", "as": "place"})
    return {
        **_choice(choices),
        "transform": transform,
        "mark": "bar",
        "height": 240,
        "encoding": {
            "x": _layer_axis(rows),
            "y": {"field": "time", "type": "quantitative", "title": scale.axis("time of a rank")},
            "color": {"field": "part", "type": "nominal", "title": None, "scale": colours(parts)},
            "order": {"field": "place"},
            "tooltip": tooltip("layer", "part", ("time", scale.axis("time"))),
        },
    }


def _raw_spec(scale: Scale, rows: Sequence[dict[str, Any]], choices: Sequence[str]) -> dict[str, Any]:
    transform: list[dict[str, Any]] = [{"filter": "datum.ranks == chosen"}] if len(choices) > 1 else []
    transform += [scale.calculate("comm_ns", "raw"), scale.calculate("exposed_comm_ns", "exposed")]
    title = scale.axis("time of a rank")
    domain = {"domain": ["raw", "exposed"], "range": [RAW, COLOURS["communication"]]}

    def bars(field: str, band: float) -> dict[str, Any]:
        return {
            "mark": {"type": "bar", "width": {"band": band}},
            "encoding": {
                "y": {"field": field, "type": "quantitative", "title": title},
                "color": {"datum": field, "scale": domain, "title": None},
            },
        }

    return {
        **_choice(choices),
        "transform": transform,
        "height": 240,
        "encoding": {
            "x": _layer_axis(rows),
            "tooltip": tooltip(
                "layer", ("raw", scale.axis("raw"), ",.4~r"), ("exposed", scale.axis("exposed"), ",.4~r")
            ),
        },
        "layer": [bars("raw", 0.9), bars("exposed", 0.5)],
    }


_COLUMNS = {
    "compute_ns": "Compute",
    "comm_ns": "Raw comm.",
    "exposed_comm_ns": "Exposed comm.",
    "remote_ns": "Raw remote memory",
    "exposed_remote_ns": "Exposed",
    "local_ns": "Raw local memory",
    "exposed_local_ns": "Exposed",
    "exposed_launch_ns": "Waiting for launches",
    "exposed_host_ns": "Waiting for the host",
}


def _layer_table(rows: Sequence[dict[str, Any]], name: str) -> Table:
    largest = sorted(rows, key=lambda row: -sum(row[field] for part, (field, _) in PARTS.items() if part != "idle"))
    shown = largest[:_LAYER_ROWS]
    columns = {
        key: head
        for key, head in _COLUMNS.items()
        if not key.removeprefix("exposed_").startswith(_SELDOM) or any(row[key] for row in rows)
    }
    cells = [[row["layer"], *(time(row[key], 3) for key in columns)] for row in shown]
    heads = ["Layer", *columns.values()]
    left = len(rows) - len(shown)
    note = f"The largest; {number(left)} more are in the CSV and the JSON." if left else ""
    return Table(f"Layers of ranks {name}", heads, cells, note)


def over_time(report: Report, detail: Detail, scale: Scale) -> Section:
    """Which share of NPUs computes, communicates, accesses memory, moment by moment."""
    activity = detail["activity"]
    series = {
        "compute": activity["compute"],
        "communication": activity["communication"],
        "remote memory": activity["remote"],
        "local memory": activity["local"],
        "waiting for launches": activity["launch"],
        "host": activity["host"],
    }
    series = {name: values for name, values in series.items() if any(values)}
    rows = list(bins(report, detail, series))
    palette = {"domain": list(series), "range": [COLOURS[name] for name in series]}
    spec = lines(scale, list(series), palette, "share of NPUs", share_axis=True)
    note = f"Means over {time(detail['bin_ns'])}. An NPU may do several at once."
    parts: list[Part] = [Chart("activity", "What NPUs do over time", rows, spec, note)] if series else ["Nothing ran."]
    return Section("Over time", parts)


def column(name: str) -> str:
    """A name as Vega-Lite takes it for a column: dots and brackets would be paths into a row."""
    return re.sub(r"[^\w() ,-]", "_", name)


def bins(report: Report, detail: Detail, series: dict[str, list[float]]) -> Iterator[dict[str, float]]:
    """One row a bin, with its start and, once more, one at the end of the step."""
    count = max((len(values) for values in series.values()), default=0)
    for i in range(count):
        yield {"start_ns": round(i * detail["bin_ns"], 3), **{n: round(v[i], 5) for n, v in series.items()}}
    if count:
        yield {"start_ns": report["step_time_ns"], **{n: round(v[-1], 5) for n, v in series.items()}}


def lines(scale: Scale, fields: Sequence[str], palette: dict[str, Any], title: str, share_axis: bool) -> dict[str, Any]:
    """Steps over time, one line a field of rows as `bins` makes them."""
    y: dict[str, Any] = {"field": "value", "type": "quantitative", "title": title}
    if share_axis:
        y |= {"axis": {"format": "%"}, "scale": {"domainMax": 1}}
    time_axis = {"field": "time", "type": "quantitative", "title": scale.axis("time"), "scale": {"nice": False}}
    return {
        "transform": [{"fold": list(fields), "as": ["what", "value"]}, scale.calculate("start_ns", "time")],
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.3},
        "height": 190,
        "encoding": {
            "x": time_axis,
            "y": y,
            "color": {"field": "what", "type": "nominal", "title": None, "sort": None, "scale": palette},
            "tooltip": tooltip("what", ("time", scale.axis("time")), ("value", title, ".3~r")),
        },
    }
