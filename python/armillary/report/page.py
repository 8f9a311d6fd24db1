"""A page: one HTML file that needs nothing else, on a screen, on a phone and on paper.

Here: `Page`, its document, and `write_figures`, which writes the same charts as files for a paper.
Not here: what stands on a page (`run_page.py` and whoever makes one), its parts (`parts.py`) and
their HTML (`markup.py`), how charts are drawn (`chart.py`). Charts stand in the page as drawings,
so that it reads without scripts and prints; `charts.js` makes them interactive. All text is
escaped. A content policy within the page forbids every request, and every script but the two of the
page, which it names by their hashes."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import files
from . import markup, viewer
from .chart import Chart, can_draw
from .markup import fragment
from .parts import Brief, Drawing, Fact, Part, Section, Table
from .scale import Scale

__all__ = [
    "Brief",
    "Drawing",
    "Fact",
    "Page",
    "Part",
    "Section",
    "Table",
    "body",
    "fragment",
    "write_figures",
]

_SCRIPTS = ("page.js", "tables.js", "load.js", "charts.js")


@dataclass(frozen=True)
class Page:
    """A page. `verdict`, one sentence that says what matters most, stands below the title; `lead`
    below that.

    `warnings` and `facts` come before the sections, `footer` at the end. `unit` is that of its axes
    of time: columns of times that are parts of the step have it as well. Names of its charts and
    drawings must differ."""

    title: str
    sections: Sequence[Section]
    lead: str = ""
    facts: Sequence[Fact] = ()
    warnings: Sequence[str] = ()
    footer: str = ""
    verdict: str = ""
    unit: Scale | None = None

    def html(self) -> str:
        """The page as one HTML document; the same bytes for the same page."""
        charts = [figure for figure in self.figures() if isinstance(figure, Chart)]
        if charts and not can_draw():
            warnings.warn(markup.UNDRAWN, RuntimeWarning, stacklevel=2)
        code = [*([viewer.script()] if charts else []), "\n".join(map(_file, _SCRIPTS))]
        scripts = [markup.element("script", each, raw=True) for each in code]
        scripts[-1:-1] = map(markup.data, charts)
        anchors = self.anchors()
        bar = markup.element("header", markup.element("p", self.title, "name"), "bar", raw=True)
        nav = markup.contents(zip(anchors, (each.title for each in self.drawn()), strict=True))
        main = markup.element("main", body(self), raw=True, id="main")
        parts = [_SKIP, bar, nav, main, markup.element("footer", self.footer), *scripts]
        return _document(self.title, "\n".join(parts), code)

    def drawn(self) -> list[Section]:
        """The sections of the HTML document; `words.py` shows those of a terminal."""
        return [each for each in self.sections if each.only != "terminal"]

    def anchors(self) -> list[str]:
        """Addresses of its sections within the page."""
        taken = {figure.name for figure in self.figures()} | {"main"}
        found: list[str] = []
        sections = self.drawn()
        for each in sections:
            word = (
                each.anchor
                or re.sub(r"[^a-z0-9]+", "-", each.title.lower()).strip("-")
                or "section"
            )
            tries = (
                word,
                *(f"{word}-{count}" for count in range(2, len(sections) + len(taken) + 3)),
            )
            found.append(next(name for name in tries if name not in taken))
            taken.add(found[-1])
        return found

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to `path`, whole or not at all. Raises `InputError` where that can't
        be."""
        files.write_text(path, self.html())

    def figures(self) -> list[Chart | Drawing]:
        """Charts and drawings of the page, for `write_figures`."""
        return [
            part
            for section in self.drawn()
            for part in section.parts
            if isinstance(part, Chart | Drawing)
        ]


def body(page: Page) -> str:
    """Content of a page as HTML that can be put into another document, such as a notebook."""
    undrawn = not can_draw() and any(isinstance(figure, Chart) for figure in page.figures())
    said = [*page.warnings, *([markup.UNDRAWN] if undrawn else [])]
    head = markup.head(page.title, page.verdict, page.lead, said, page.facts)
    each = zip(page.drawn(), page.anchors(), strict=True)
    return "\n".join([head, *(markup.section(*section, page.unit) for section in each)])


def write_figures(
    directory: str | os.PathLike[str], figures: Iterable[Chart | Drawing]
) -> list[str]:
    """Writes `NAME.svg` and `NAME.png` of each, and `NAME.csv` of charts, into `directory`, which
    is made.

    Where charts can't be drawn (`chart.can_draw`), only their CSV. Returns the names of the files.
    Raises `InputError` where the directory can't be written to; nothing is there then."""
    if not can_draw():
        warnings.warn(_ONLY_CSV, RuntimeWarning, stacklevel=2)
    with files.directory(directory) as folder:
        for figure in figures:
            if can_draw() or isinstance(figure, Drawing):
                (folder / f"{figure.name}.svg").write_text(figure.svg(), encoding="utf-8")
                (folder / f"{figure.name}.png").write_bytes(figure.png())
            if isinstance(figure, Chart):
                (folder / f"{figure.name}.csv").write_text(figure.csv(), encoding="utf-8")
        return sorted(file.name for file in folder.iterdir())


_ONLY_CSV = (
    "charts are not drawn: a limit (ulimit -v, ulimit -n) leaves no room for it; "
    "their CSV is written"
)
_SKIP = '<a class="skip" href="#main">Skip to the report</a>'


def _document(title: str, content: str, scripts: Iterable[str]) -> str:
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        markup.element("title", title),
        markup.element("style", _file("page.css"), raw=True),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n'
        + "\n".join(head)
        + f"\n</head>\n<body>\n{content}\n</body>\n</html>\n"
    )


def _policy(scripts: Iterable[str]) -> str:
    """Permissions of the page: run these scripts, apply its own styles, show its own images."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; img-src data: blob:; "
        "font-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _file(name: str) -> str:
    """A file that goes into every page as it is."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
