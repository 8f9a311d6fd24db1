"""Parts of a page as HTML.

Here: each part's elements, escaped and made visible. Not here: the document around them
(`page.py`), looks (`page.css`), what happens when a reader clicks (`page.js`, `tables.js`,
`charts.js`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape

from ..units import counted
from .chart import Chart, can_draw
from .escapes import visible
from .parts import Drawing, Fact, Part, Section, Table
from .plain_names import Named
from .quantity import in_one_unit, value_of
from .scale import Scale

_BRIEF = 12
"""Letters of names of rows that need no room of their own on a phone."""
_MANY = 9
"""Columns up to which numbers on paper stay on one line."""
_SHORT = 10
"""Rows of a table that is kept on one sheet of paper."""


def element(tag: str, content: str, kind: str = "", raw: bool = False, **attributes: str) -> str:
    """`<tag class="kind">content</tag>`; `content` is escaped unless it is `raw` HTML, attributes
    always are."""
    given = ({"class": kind} if kind else {}) | attributes
    written = "".join(
        f' {name.replace("_", "-")}="{attribute(value)}"' for name, value in given.items()
    )
    return f"<{tag}{written}>{content if raw else text(content)}</{tag}>"


def text(content: str) -> str:
    """Text as it may stand between tags."""
    return escape(visible(content), quote=False)


def attribute(value: str) -> str:
    """Text as it may stand in a quoted attribute."""
    return escape(visible(value))


def head(
    title: str, verdict: str, lead: str, warnings: Sequence[str], facts: Sequence[Fact]
) -> str:
    """Head of a page, above the sections."""
    lines = [element("h1", title)]
    lines += [element("p", verdict, "verdict")] if verdict else []
    lines += [element("p", lead, "lead")] if lead else []
    if warnings:
        items = "".join(element("li", warning) for warning in warnings)
        said = element(
            "strong", "Warning" if len(warnings) == 1 else counted(len(warnings), "warning")
        )
        lines.append(element("div", said + element("ul", items, raw=True), "warnings", raw=True))
    for kind, shown in (("facts main", True), ("facts", False)):
        cards = "".join(_fact(fact) for fact in facts if fact.main is shown)
        lines += [element("dl", cards, kind, raw=True)] if cards else []
    return element("div", "\n".join(lines), "head", raw=True)


def _fact(fact: Fact) -> str:
    note = element("dd", fact.note, "note") if fact.note else ""
    return element("div", element("dt", fact.label) + element("dd", fact.value) + note, raw=True)


def section(given: Section, anchor: str, unit: Scale | None = None) -> str:
    """A section with its heading and its parts. `unit`: the page's unit of time."""
    heading = element("h2", given.title, id=f"{anchor}-heading")
    parts = element("div", fragment(given.parts, unit), "parts", raw=True)
    return element(
        "section", f"{heading}\n{parts}", raw=True, id=anchor, aria_labelledby=f"{anchor}-heading"
    )


def fragment(parts: Iterable[Part], unit: Scale | None = None) -> str:
    """Parts as HTML to be put into something else, such as a notebook."""
    return "\n".join(_part(part, unit) for part in parts)


def contents(entries: Iterable[tuple[str, str]]) -> str:
    """A list of links to sections, given as anchor and title."""
    items = "".join(
        element("li", element("a", title, href=f"#{anchor}"), raw=True) for anchor, title in entries
    )
    return element(
        "nav", element("ol", items, raw=True), "contents", raw=True, aria_label="Contents"
    )


def data(chart: Chart) -> str:
    """The specification of a chart, with its rows, where `charts.js` finds it.

    Rows that all have the same columns are lists below the names of these: that is half as large.
    """
    specification = chart.vega_lite()
    rows = specification["data"]["values"]
    columns = list(rows[0]) if rows else []
    if all(list(row) == columns for row in rows):
        specification["data"] = {"columns": columns, "rows": [list(row.values()) for row in rows]}
    said = json.dumps(specification, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        said = said.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" data-chart="{attribute(chart.name)}">{said}</script>'


def _part(part: Part, unit: Scale | None) -> str:
    if isinstance(part, str):
        return element("p", part)
    return _table(part, unit) if isinstance(part, Table) else _figure(part)


UNDRAWN = (
    "charts are not drawn: a limit (ulimit -v, ulimit -n) leaves no room for it; scripts of "
    "the page draw them when it is opened"
)
"""The note on a page without drawn charts."""


def _figure(figure: Chart | Drawing) -> str:
    kinds = ["fluid" if isinstance(figure, Chart) and figure.is_fluid() else "fixed"]
    kinds += ["wide"] if isinstance(figure, Chart) and figure.is_zoomable() else []
    if isinstance(figure, Drawing) or can_draw():
        drawn = element("div", _inline(figure), "drawn", raw=True)
    else:
        kinds, drawn = (
            [*kinds, "undrawn"],
            element("p", "Drawn when the page is opened with scripts.", "drawn"),
        )
    caption = element("figcaption", figure.title)
    note = element("p", figure.note, "note") if figure.note else ""
    return element("figure", caption + drawn + note, " ".join(kinds), raw=True, id=figure.name)


def _inline(figure: Chart | Drawing) -> str:
    """The drawing with names that no other drawing of the page has."""
    svg, prefix = figure.svg(), re.sub(r"\W", "-", figure.name)
    for name in sorted(set(re.findall(r'\bid="([^"]+)"', svg)), key=len, reverse=True):
        svg = svg.replace(f'id="{name}"', f'id="{prefix}-{name}"').replace(
            f"#{name})", f"#{prefix}-{name})"
        )
        svg = svg.replace(f'href="#{name}"', f'href="#{prefix}-{name}"')
    return svg.replace("<svg ", f'<svg role="img" aria-label="{attribute(figure.title)}" ', 1)


def _table(table: Table, unit: Scale | None) -> str:
    kinds = ["" if kind == "number" else kind for kind in table.kinds()]
    names = "".join(map(_head, table.columns, kinds))
    rows = "".join(f"<tr>{_row(row, kinds)}</tr>\n" for row in _in_units(table, unit))
    inner = (
        element("caption", table.caption)
        + f"<thead><tr>{names}</tr></thead>\n<tbody>\n{rows}</tbody>"
    )
    note = element("p", table.note, "note") if table.note else ""
    grid = element("table", inner, raw=True, data_shown=str(table.shown))
    kinds = ["table"] + (["long"] if len(table.rows) > _SHORT else [])
    kinds += ["many"] if len(table.columns) > _MANY else []
    kinds += ["brief"] if all(len("".join(row[:1])) <= _BRIEF for row in table.rows) else []
    grid = element("div", grid, "scroll", raw=True)
    return element("div", grid + note, " ".join(kinds), raw=True)


def _in_units(table: Table, unit: Scale | None) -> list[tuple[str, ...]]:
    """The rows, with one unit in each column: the page's, for parts of what the page is about."""
    if len({len(row) for row in table.rows}) != 1:
        return list(map(tuple, table.rows))
    columns = [in_one_unit(cells, unit) for cells in zip(*table.rows, strict=True)]
    return list(zip(*columns, strict=True))


def _head(name: str, kind: str) -> str:
    return element("th", name, kind, scope="col") if name else "<td></td>"


def _row(row: Sequence[str], kinds: Sequence[str]) -> str:
    return "".join(_cell(cell, place, kinds[place]) for place, cell in enumerate(row))


def _cell(content: str, place: int, kind: str) -> str:
    """The first cell names its row; a number with a unit says what it is sorted by."""
    if place == 0 and content:
        return _filled("th", content, "label", {"scope": "row"})
    return _filled("td", content, kind, {})


def _filled(tag: str, content: str, kind: str, attributes: dict[str, str]) -> str:
    value = value_of(content)
    if value is not None and content != f"{value:.0f}":
        attributes = {**attributes, "data-v": f"{value:.9g}"}
    if isinstance(content, Named) and content.name != content:
        said = text(content) + element("small", content.name)
        return element(tag, said, kind, True, **attributes)
    return element(tag, content, kind, False, **attributes)
