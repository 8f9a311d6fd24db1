"""Computing and waiting times of each layer of a model, in the order of the model.

Here: the charts and the table of layers. The pictures are those of the ASTRA-SIM papers: compute
and exposed communication by layer (ISPASS 2020, Fig. 15; HOTI 2020, Figs. 12 and 13), raw
communication by layer (ISPASS Figs. 13 and 14, HOTI Fig. 11). Not here: passes of a layer
(`run_passes.py`), classes of ranks (`run_where.py`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .. import step_parts
from ..schema import Detail, Layer, Report
from ..units import counted
from . import names, run_passes
from .chart import COLOURS, Chart
from .layer_chart import RAW, axis
from .page import Section, Table
from .quantity import time
from .run_time import tooltip
from .run_where import PARTS, colours, present
from .scale import Scale

_LAYERS = 200
"""Layers drawn and listed; the smaller ones of more are one."""
_CHARGED = [(part, part.doing) for part in step_parts.PARTS if part.doing]
_PARTS = {part.label: PARTS[part.label] for part, _ in _CHARGED}
_HEADS = {
    field: head
    for part, doing in _CHARGED
    for field, head in (
        (doing.in_flight, f"Raw {doing.label}"),
        (part.field, part.label.capitalize()),
    )
    if field
}
_ALWAYS = {
    field for part, doing in _CHARGED if part.always for field in (doing.in_flight, part.field)
}
_RAW_NOTE = (
    "Raw: the sum of times in which communication was in flight. Exposed: the part in which "
    "nothing computed."
)


def by_layer(report: Report, detail: Detail, scale: Scale) -> Section:
    """Every layer, as the mean rank that has it sees it."""
    rows = _rows(report, detail["layers"])
    note = (
        "Means over the ranks that have the layer."
        if len({row["rank_class"] for row in detail["layers"]}) > 1
        else ""
    )
    exposed = Chart(
        "layers", "Compute and exposed time by layer", rows, _exposed(scale, rows), note
    )
    raw = Chart("layer_communication", "Communication by layer", rows, _raw(scale, rows), _RAW_NOTE)
    passes = run_passes.parts(report, detail, [row["layer"] for row in rows], scale)
    return Section("Layers", [exposed, raw, _table(rows), *passes], anchor="by-layer")


def _rows(report: Report, layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Layers in the order of the model, the smaller ones as one where there are very many."""
    classes = report["classes"]
    called = names.classes(classes)
    groups: dict[str, list[Layer]] = {}
    for layer in layers:
        if layer["rank_class"] < len(classes):
            groups.setdefault(layer["layer"], []).append(layer)
    rows = [_row(name, groups[name], report, called) for name in _ordered(list(groups))]
    largest = sorted(range(len(rows)), key=lambda i: (-_weight(rows[i]), i))
    kept, rest = sorted(largest[:_LAYERS]), largest[_LAYERS:]
    shown = [rows[i] for i in kept]
    if rest:
        sums = {key: sum(rows[i][key] for i in rest) for key in _HEADS}
        shown.append({"layer": f"{len(rest)} more", "where": "", **sums})
    return shown


def _row(
    name: str, found: Sequence[Layer], report: Report, called: Sequence[str]
) -> dict[str, Any]:
    """A layer of the mean rank of the classes that have it."""
    counts = [report["classes"][layer["rank_class"]]["count"] for layer in found]
    total = sum(counts) or 1
    means = {
        key: sum(layer[key] * count for layer, count in zip(found, counts, strict=True)) / total  # type: ignore[literal-required]
        for key in _HEADS
    }
    where = called[found[0]["rank_class"]] if len(found) == 1 else counted(len(found), "class")
    return {"layer": name, "where": where, **means}


def _ordered(found: Sequence[str]) -> list[str]:
    """Names that differ in a number at their end in order of that, those kinds in order of their
    first appearance."""
    parted = {name: re.fullmatch(r"(.*?)(\d{0,9})", name, re.DOTALL) for name in found}
    kinds = {name: match[1] if match else name for name, match in parted.items()}
    place = {kind: i for i, kind in reversed(list(enumerate(kinds.values())))}
    return sorted(
        found,
        key=lambda name: (
            place[kinds[name]],
            int((match[2] if (match := parted[name]) else "") or -1),
        ),
    )


def _weight(row: dict[str, Any]) -> float:
    return float(sum(row[field] for field, _ in _PARTS.values()))


def _exposed(scale: Scale, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    parts = present(_PARTS, rows)
    fields = [field for field, _ in parts.values()]
    called = ", ".join(f"{field}: '{part}'" for part, (field, _) in parts.items())
    return {
        "transform": [
            {"fold": fields, "as": ["field", "ns"]},
            scale.calculate("ns", "time"),
            {"calculate": f"({{{called}}})[datum.field]", "as": "part"},
            {
                "calculate": f"indexof([{', '.join(repr(f) for f in fields)}], datum.field)",
                "as": "place",
            },
        ],
        "mark": "bar",
        "height": 240,
        "encoding": {
            "x": axis([row["layer"] for row in rows]),
            "y": {"field": "time", "type": "quantitative", "title": scale.axis("time of a rank")},
            "color": {"field": "part", "type": "nominal", "title": None, "scale": colours(parts)},
            "order": {"field": "place"},
            "tooltip": tooltip("layer", "where", "part", ("time", scale.axis("time"))),
        },
    }


def _raw(scale: Scale, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
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
        "transform": [
            scale.calculate("comm_ns", "raw"),
            scale.calculate("exposed_comm_ns", "exposed"),
        ],
        "height": 240,
        "encoding": {
            "x": axis([row["layer"] for row in rows]),
            "tooltip": tooltip(
                "layer",
                ("raw", scale.axis("raw"), ",.4~r"),
                ("exposed", scale.axis("exposed"), ",.4~r"),
            ),
        },
        "layer": [bars("raw", 0.9), bars("exposed", 0.5)],
    }


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    columns = {
        key: head for key, head in _HEADS.items() if key in _ALWAYS or any(row[key] for row in rows)
    }
    placed = len({row["where"] for row in rows}) > 1
    cells = [
        [row["layer"], *([row["where"]] if placed else []), *(time(row[key], 3) for key in columns)]
        for row in rows
    ]
    heads = ["Layer", *(["Where"] if placed else []), *columns.values()]
    return Table("Layers of the model", heads, cells, labels=1 + placed)
