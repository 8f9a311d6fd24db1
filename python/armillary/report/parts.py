"""Parts of a page: facts, tables, drawings, sections.

Here: data only. Not here: the page (`page.py`), its HTML (`markup.py`), charts (`chart.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from .chart import Chart

Place = Literal["page", "terminal"]
Kind = Literal["label", "words", "number"]

_SENTENCE = 48
"""Letters of a cell from which a column breaks into lines."""


@dataclass(frozen=True)
class Fact:
    """A number of the headline, such as the step time: what it is, its value with unit, and a few
    words below.

    The `main` ones are larger than the others and come first.
    """

    label: str
    value: str
    note: str = ""
    main: bool = False


@dataclass(frozen=True)
class Brief:
    """Part of a table that a terminal shows."""

    columns: Sequence[str] = ()
    """Names of columns; without, all."""
    rows: int | None = None
    """The first rows; without, all."""


@dataclass(frozen=True)
class Table:
    """Rows of text below `columns`; the first `labels` columns are names, the others numbers with
    their units.

    All `rows` are in the page. A screen shows `shown` of them until the reader asks for all or
    filters them; columns sort by what their cells say, exactly where a cell is a
    `quantity.Quantity`. A terminal shows all, or what `brief` says."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    labels: int = 1
    shown: int = 15
    brief: Brief = Brief()

    def kinds(self) -> list[Kind]:
        """How each column is set: names, sentences, which break into lines, or numbers."""
        return [
            "label" if at < self.labels else "words" if self._is_long(at) else "number"
            for at in range(len(self.columns))
        ]

    def _is_long(self, at: int) -> bool:
        return any(len(row[at]) > _SENTENCE for row in self.rows if at < len(row))


@dataclass(frozen=True)
class Drawing:
    """A ready SVG document, such as the picture of a platform. `name` and `title` are those of a
    chart."""

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


Part: TypeAlias = "Chart | Drawing | Table | str"
"""A part of a section; a text is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it. `anchor` is its address within the page; made of the
    title if not given. `only`: the one place where it stands, for details that a terminal has no
    room for, or what a page draws."""

    title: str
    parts: Sequence[Part]
    anchor: str = ""
    only: Place | None = None
