"""A study as charts and as a page: references next to ours.

Not here: what a study runs (`studies`), its table on a terminal (`study.py`), charts of one study's
own (that study)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from armillary.report.chart import Chart
from armillary.report.page import Page, Section, Table

from . import study_table as terminal

Json = Mapping[str, Any]

REFERENCE, OURS = "reference", "ours"
COLOURS = {"domain": [REFERENCE, OURS], "range": ["#8c8c8c", "#0072b2"]}
"""The same two colours in every study."""
_CODE = 4
"""Letters of a code, such as E1; longer ones are names."""


def charts(study: Json) -> list[Chart]:
    """Reference and ours side by side, a chart for each unit; `study` as its JSON has it."""
    rows: list[Json] = study["rows"]
    return [
        _chart(study, unit, [row for row in rows if row["unit"] == unit]) for unit in _units(rows)
    ]


def page(study: Json, drawn: Sequence[Chart]) -> Page:
    """The study with its figures, its table, and the reasons of each row."""
    rows: list[Json] = study["rows"]
    reasons = list(dict.fromkeys(row["why"] for row in rows))
    often = len(reasons) < len(rows)
    cells = [
        [
            row["setup"],
            row["backend"],
            *terminal.cells(row),
            terminal.source(row),
            str(reasons.index(row["why"]) + 1) if often else row["why"],
        ]
        for row in rows
    ]
    notes = [f"{at}: {reason}." for at, reason in enumerate(reasons, 1)] if often else []
    columns = ("Setup", "Backend", "Reference", "Ours", "Ratio", "Source", "Why")
    table = Table("Reference and ours", columns, cells, labels=2)
    code = study["study"].upper() if len(study["study"]) <= _CODE else study["study"]
    title = f"{code}: {study['title']}"
    sections = [Section("Figures", list(drawn)), Section("Numbers", [table, *notes])]
    footer = f"Armillary {study['version']}, armillary study {code}"
    return Page(title, sections, lead=f"{study['source']}. {study['setup']}", footer=footer)


def _units(rows: Sequence[Json]) -> list[str]:
    return list(dict.fromkeys(row["unit"] for row in rows))


def _chart(study: Json, unit: str, rows: Sequence[Json]) -> Chart:
    several = len({row["backend"] for row in rows}) > 1
    records = [
        {
            "setup": f"{row['setup']}, {row['backend']}" if several else row["setup"],
            "of": of,
            "value": row[of],
        }
        for row in rows
        for of in (REFERENCE, OURS)
        if row[of] is not None
    ]
    word = re.sub(r"[^a-z0-9]+", "-", unit.replace("%", "percent").lower()).strip("-") or "number"
    axis = {"field": "value", "type": "quantitative", "title": unit}
    spec = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "setup", "type": "nominal", "title": None, "sort": None},
            "yOffset": {"field": "of", "sort": [REFERENCE, OURS]},
            "x": axis,
            "color": {"field": "of", "type": "nominal", "title": None, "scale": COLOURS},
        },
    }
    return Chart(f"{study['study']}-{word}", f"{study['title']} ({unit})", records, spec)
