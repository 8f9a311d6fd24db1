"""A study as charts and as a page: references next to ours.

Not here: what a study runs (`studies`), charts of one study's own (that study)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from armillary.report.chart import Chart
from armillary.report.page import Page, Section, Table

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


def listed(studies: Sequence[Mapping[str, str]]) -> Table:
    """Studies that can be run: name, code, title and source."""
    rows = [(each["name"], each["code"], each["title"], each["source"]) for each in studies]
    return Table("Studies", ("Study", "Code", "Title", "Source"), rows, labels=4)


def page(study: Json, drawn: Sequence[Chart] = ()) -> Page:
    """The study with its figures and its table; below it the sources by letter, and the reasons of
    the rows by number."""
    rows: list[Json] = study["rows"]
    reasons = list(dict.fromkeys(row["why"] for row in rows))
    sources = list(dict.fromkeys(map(_source, rows)))
    cells = [
        [
            row["setup"],
            row["backend"],
            _reference(row),
            f"{_number(row['ours'], row['reference'])} {row['unit']}",
            _ratio(row),
            f"{row['source']['kind']} {_letter(sources.index(_source(row)))}",
            str(reasons.index(row["why"]) + 1),
        ]
        for row in rows
    ]
    columns = ("Setup", "Backend", "Reference", "Ours", "Ratio", "Source", "Why")
    code = study["study"].upper() if len(study["study"]) <= _CODE else study["study"]
    lettered = [f"{_letter(at)}  {each}" for at, each in enumerate(sources)]
    numbered = [f"{number}  {reason}" for number, reason in enumerate(reasons, 1)]
    return Page(
        f"{code}: {study['title']}",
        [
            Section("Figures", list(drawn)),
            Section("Reference and ours", [Table("Reference and ours", columns, cells, labels=2)]),
            Section("Source", lettered),
            Section("Why", numbered),
        ],
        lead=f"{study['source']}. {study['setup']}",
        footer=f"Armillary {study['version']}, armillary study {code}",
    )


def _source(row: Json) -> str:
    """Where the reference of a row is from, in words."""
    return f"{row['source']['kind']}: {row['source']['where']}"


def _letter(index: int) -> str:
    """a to z, then aa, ab and so on."""
    head = _letter(index // 26 - 1) if index >= 26 else ""
    return head + chr(ord("a") + index % 26)


def _reference(row: Json) -> str:
    if row["reference"] is None:
        return "-"
    sign = "" if row["relation"] == "=" else f"{row['relation']} "
    return f"{sign}{row['reference']:g} {row['unit']}"


def _number(value: float, reference: float | None) -> str:
    """Four digits at least, two of them behind the point, and one more behind it than the
    reference has; counts as counts."""
    if float(value).is_integer() and (reference is None or float(reference).is_integer()):
        return f"{value:.0f}"
    leading = math.floor(math.log10(abs(value))) if value else 0
    fraction = f"{reference or 0:g}".partition(".")[2]
    return f"{value:.{min(max(2, 3 - leading, len(fraction) + 1), 6)}f}"


def _ratio(row: Json) -> str:
    if row["verdict"] == "below the margin":
        return f"holds by {100 * abs(row['ratio'] - 1):.2g} %: below the margin"
    if row["verdict"] is not None:
        return str(row["verdict"])
    return "-" if row["ratio"] is None else f"{row['ratio']:.3f}"


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
