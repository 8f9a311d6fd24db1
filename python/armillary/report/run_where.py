"""Where the time of a step goes: by class of ranks.

Here: the first section of a run's page. Not here: the parts (`step_parts.py`), layers
(`run_layers.py`), time (`run_time.py`), network (`run_network.py`), operations and memory
(`run_work.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import step_parts
from ..schema import Class, Report
from ..units import counted
from . import names
from .chart import Chart
from .page import Section, Table
from .quantity import number, share
from .run_time import NAMES, tooltip
from .scale import Scale

PARTS = {part.label: (part.field, part.style.colour) for part in step_parts.PARTS}
"""The parts that sum to the step: name, field of a class, colour."""
_ALWAYS = {part.label for part in step_parts.PARTS if part.always}
_CLASSES = 32
_ALIKE = 0.001
"""Share of the step below which differences between classes are not shown."""


def by_class(report: Report, scale: Scale) -> Section:
    """The parts of each class of ranks."""
    step = report["step_time_ns"] or 1.0
    rows = _class_rows(report, step)
    parts = present(PARTS, rows)
    long = [
        {
            "class": row["class"],
            "npus": row["npus"],
            "part": part,
            "ns": row[field],
            "share": row[field] / step,
        }
        for row in rows
        for part, (field, _) in parts.items()
    ]
    chart = Chart(
        "classes",
        "Parts of the step by class of ranks",
        long,
        _class_spec(scale, parts),
        _symmetry(report),
    )
    return Section("Where the time goes", [chart, _class_table(report, rows, parts, step, scale)])


def _class_table(
    report: Report,
    rows: Sequence[dict[str, Any]],
    parts: dict[str, tuple[str, str]],
    step: float,
    scale: Scale,
) -> Table:
    labelled = any(item["label"] for item in report["classes"])
    cells = [
        [
            row["class"],
            *([row["ranks"]] if labelled else []),
            number(row["npus"]),
            *(_cell(row[field], step, scale) for field, _ in parts.values()),
        ]
        for row in rows
    ]
    heads = [
        "Class",
        *(["Ranks"] if labelled else []),
        "NPUs",
        *(part.capitalize() for part in parts),
    ]
    note = (
        "Classes that differ by less than 0.1% of the step share a row with their mean; the JSON "
        "has each."
    )
    note = note if len(rows) < len(report["classes"]) else ""
    return Table("By class of ranks", heads, cells, note, labels=1 + labelled)


def _class_rows(report: Report, step: float) -> list[dict[str, Any]]:
    """Classes, those that hardly differ as one, and what is too much to show as the last."""
    called = dict(zip(map(id, report["classes"]), names.classes(report["classes"]), strict=True))
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
    rows = [
        _class_row(_more(called[id(group[0])], group), _more(group[0]["ranks"], group), group)
        for group in groups
    ]
    return [*rows, _class_row(f"{len(rest)} more classes", "", rest)] if rest else rows


def _alike(one: Class, other: Class, step: float) -> bool:
    near = (abs(one[field] - other[field]) < _ALIKE * step for field, _ in PARTS.values())  # type: ignore[literal-required]
    return one["program"] == other["program"] and all(near)


def _more(name: str, group: Sequence[Class]) -> str:
    return name if len(group) == 1 else f"{name} and {len(group) - 1} more"


def _class_row(name: str, ranks: str, group: Sequence[Class]) -> dict[str, Any]:
    return {
        "class": name,
        "ranks": ranks,
        "npus": sum(item["count"] for item in group),
        **mean(group),
    }


def mean(classes: Sequence[Class]) -> dict[str, float]:
    """The parts of the mean rank of several classes."""
    ranks = sum(item["count"] for item in classes) or 1
    return {
        field: sum(item[field] * item["count"] for item in classes) / ranks  # type: ignore[literal-required]
        for field, _ in PARTS.values()
    }


def present(
    parts: dict[str, tuple[str, str]], rows: Sequence[dict[str, Any]]
) -> dict[str, tuple[str, str]]:
    """The parts that are always shown, and those that some row has."""
    return {
        part: (field, colour)
        for part, (field, colour) in parts.items()
        if part in _ALWAYS or any(row[field] for row in rows)
    }


def _class_spec(scale: Scale, parts: dict[str, tuple[str, str]]) -> dict[str, Any]:
    order = ", ".join(f"'{part}'" for part in parts)
    axis = {
        "field": "time",
        "type": "quantitative",
        "title": scale.axis("time"),
        "scale": {"nice": False},
    }
    return {
        "transform": [
            scale.calculate("ns", "time"),
            {"calculate": f"indexof([{order}], datum.part)", "as": "place"},
        ],
        "mark": "bar",
        "encoding": {
            "y": {"field": "class", "type": "nominal", "sort": None, "title": None, "axis": NAMES},
            "x": axis,
            "color": {"field": "part", "type": "nominal", "title": None, "scale": colours(parts)},
            "order": {"field": "place"},
            "tooltip": tooltip(
                "class", "npus", "part", ("time", scale.axis("time")), ("share", "share", ".1%")
            ),
        },
    }


def colours(parts: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """A scale of colours for parts given as name -> (field, colour)."""
    return {"domain": list(parts), "range": [colour for _, colour in parts.values()]}


def _symmetry(report: Report) -> str:
    count, classes = report["ranks"], report["symmetry"]["classes"]
    if classes == 1:
        return "All ranks are alike."
    reason = f": {report['symmetry']['reason']}" if report["symmetry"]["reason"] else ""
    return (
        f"{counted(count, 'rank')} in {counted(classes, 'class')} that must behave alike{reason}."
    )


def _cell(ns: float, step: float, scale: Scale) -> str:
    """A part in the unit of the step, with three digits of it."""
    digits = max(3 - len(str(int(step / scale.ns))), 0)
    return f"{ns / scale.ns:.{digits}f} {scale.unit} ({share(ns / step)})" if ns else "0"
