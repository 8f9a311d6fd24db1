"""A page: one HTML file that needs nothing else, on a screen, on a phone and on paper.

Here: `Page` and its parts as HTML, and `write_figures`, which writes the same charts as files for a paper.
Not here: what stands on a page (`run_page.py` and whoever makes one), how charts are drawn (`chart.py`).
Charts stand in the page as drawings, so that it reads without scripts and prints; `page.js` makes them interactive.
All text is escaped, and a content policy within the page forbids every request.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from .. import files
from . import viewer
from .chart import Chart

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)


_SHORT = 10
"""Rows of a table that is kept on one sheet of paper."""


@dataclass(frozen=True)
class Fact:
    """A number of the headline, such as the step time: what it is, its value with unit, and a few words below."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text below `columns`; the first `labels` columns are names, the others numbers with their units."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    labels: int = 1


@dataclass(frozen=True)
class Drawing:
    """A ready SVG document, such as the picture of a platform. `name` and `title` are those of a chart."""

    name: str
    title: str
    drawn: str
    note: str = ""

    def svg(self) -> str:
        """The drawing."""
        return self.drawn

    def png(self, scale: float = 2.0) -> bytes:
        """The drawing as a PNG of `scale` times its size."""
        import vl_convert

        return vl_convert.svg_to_png(self.drawn, scale=scale)


Part = Chart | Drawing | Table | str
"""What a section is made of; a text is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Page:
    """A page; `lead` stands below the title, `warnings` above everything else, `footer` at the end.

    Names of its charts and drawings must differ.
    """

    title: str
    sections: Sequence[Section]
    lead: str = ""
    facts: Sequence[Fact] = ()
    warnings: Sequence[str] = ()
    footer: str = ""

    def html(self) -> str:
        """The page as one HTML document; the same bytes for the same page."""
        charts = [part for section in self.sections for part in section.parts if isinstance(part, Chart)]
        scripts = [_element("script", _script("page.js"), raw=True)]
        if charts:
            scripts = [_element("script", viewer.script(), raw=True), *map(_data, charts), *scripts]
        body = [_header(self), *map(_section, self.sections), _element("footer", self.footer), *scripts]
        return _document(self.title, "\n".join(body))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to `path`, whole or not at all. Raises `InputError` where that can't be."""
        files.write_text(path, self.html())

    def figures(self) -> list[Chart | Drawing]:
        """Its charts and drawings, for `write_figures`."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Chart | Drawing)]


def fragment(parts: Iterable[Part]) -> str:
    """Parts as HTML to be put into something else, such as a notebook."""
    return "\n".join(map(_part, parts))


def body(page: Page) -> str:
    """What stands on a page as HTML to be put into something else, such as a notebook."""
    return "\n".join([_header(page), *map(_section, page.sections)])


def write_figures(directory: str | os.PathLike[str], figures: Iterable[Chart | Drawing]) -> list[str]:
    """Writes `NAME.svg` and `NAME.png` of each, and `NAME.csv` of charts, into `directory`, which is made.

    Returns the names of the files. Raises `InputError` where the directory can't be written to; nothing is there then.
    """
    with files.directory(directory) as folder:
        for figure in figures:
            (folder / f"{figure.name}.svg").write_text(figure.svg(), encoding="utf-8")
            (folder / f"{figure.name}.png").write_bytes(figure.png())
            if isinstance(figure, Chart):
                (folder / f"{figure.name}.csv").write_text(figure.csv(), encoding="utf-8")
        return sorted(file.name for file in folder.iterdir())


def _document(title: str, body: str) -> str:
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        _element("title", title),
        _element("style", _script("page.css"), raw=True),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n'
        + "\n".join(head)
        + f"\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


@cache
def _script(name: str) -> str:
    """A file that goes into every page as it is."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _header(page: Page) -> str:
    lines = [_element("h1", page.title)]
    if page.lead:
        lines.append(_element("p", page.lead, "lead"))
    if page.warnings:
        items = "".join(_element("li", warning) for warning in page.warnings)
        head = _element("strong", "Warning" if len(page.warnings) == 1 else f"{len(page.warnings)} warnings")
        lines.append(_element("div", head + _element("ul", items, raw=True), "warnings", raw=True))
    if page.facts:
        lines.append(_element("dl", "".join(map(_fact, page.facts)), "facts", raw=True))
    return _element("header", "\n".join(lines), raw=True)


def _fact(fact: Fact) -> str:
    note = _element("dd", fact.note, "note") if fact.note else ""
    return _element("div", _element("dt", fact.label) + _element("dd", fact.value) + note, raw=True)


def _section(section: Section) -> str:
    return _element("section", "\n".join([_element("h2", section.title), *map(_part, section.parts)]), raw=True)


def _part(part: Part) -> str:
    if isinstance(part, str):
        return _element("p", part)
    return _table(part) if isinstance(part, Table) else _figure(part)


def _figure(figure: Chart | Drawing) -> str:
    caption = _element("figcaption", figure.title)
    kind = "fluid" if isinstance(figure, Chart) and figure.is_fluid() else "fixed"
    drawn = _element("div", _inline(figure), "drawn", raw=True)
    note = _element("p", figure.note, "note") if figure.note else ""
    return f'<figure id="{escape(figure.name)}" class="{kind}">{caption}{drawn}{note}</figure>'


def _inline(figure: Chart | Drawing) -> str:
    """The drawing with names that no other drawing of the page has."""
    svg, prefix = figure.svg(), re.sub(r"\W", "-", figure.name)
    for name in sorted(set(re.findall(r'\bid="([^"]+)"', svg)), key=len, reverse=True):
        svg = svg.replace(f'id="{name}"', f'id="{prefix}-{name}"').replace(f"#{name})", f"#{prefix}-{name})")
        svg = svg.replace(f'href="#{name}"', f'href="#{prefix}-{name}"')
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(figure.title)}" ', 1)


def _table(table: Table) -> str:
    head = "".join(_cell("th", name, i < table.labels) for i, name in enumerate(table.columns))
    rows = "".join(f"<tr>{_row(row, table.labels)}</tr>\n" for row in table.rows)
    inner = _element("caption", table.caption) + f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>"
    note = _element("p", table.note, "note") if table.note else ""
    kind = "table" if len(table.rows) <= _SHORT else "table long"
    return _element("div", f"<table>{inner}</table>", kind, raw=True) + note


def _row(row: Sequence[str], labels: int) -> str:
    return "".join(_cell("td", cell, i < labels) for i, cell in enumerate(row))


def _cell(tag: str, text: str, label: bool) -> str:
    return _element(tag, text, "label" if label else "")


def _data(chart: Chart) -> str:
    """The specification of a chart, with its rows, where `page.js` finds it."""
    text = json.dumps(chart.vega_lite(), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" data-chart="{escape(chart.name)}">{text}</script>'


def _element(tag: str, content: str, kind: str = "", raw: bool = False) -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<{tag}{attribute}>{content if raw else escape(content, quote=False)}</{tag}>"
