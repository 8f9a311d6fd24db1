"""A page on a terminal, or as plain text: what stands on it in words and tables, without its
drawings."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from .parts import Section, Table
from .plain_names import Named
from .terminal import Terminal, emit

if TYPE_CHECKING:
    from .page import Page

_WIDTH = 100


def show(page: Page, console: Console) -> None:
    """Prints a page to fit the console's width."""
    emit(console, _parts(page))


def show_table(table: Table, console: Console) -> None:
    """Prints a table by itself, without its caption."""
    emit(console, [grid(table)])


def text(page: Page, width: int = _WIDTH) -> str:
    """A page as text of at most `width` columns, where its words allow."""
    written = io.StringIO()
    show(page, Terminal(file=written, width=width))
    return written.getvalue()


def grid(table: Table) -> Grid:
    """The rows of a table as rich has them: names wrap, numbers don't."""
    made = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    kinds = table.kinds()
    named = table.brief.columns or table.columns
    shown = [at for at, name in enumerate(table.columns) if name in named]
    for at in shown:
        made.add_column(table.columns[at], justify="right" if kinds[at] == "number" else "left")
    for row in table.rows[: table.brief.rows]:
        made.add_row(*(_cell(row[at]) for at in shown if at < len(row)))
    return made


def _cell(cell: str) -> str:
    return cell.name if isinstance(cell, Named) else cell


def _parts(page: Page) -> Iterator[RenderableType]:
    yield Padding(Text(page.title, "bold green"), (0, 0))
    if page.verdict:
        yield Padding(Text(page.verdict), (0, 0))
    if page.lead:
        yield Padding(Text(page.lead), (0, 0))
    for fact in page.facts:
        note = f" ({fact.note})" if fact.note else ""
        yield Text(f"{fact.label}: {fact.value}{note}")
    for warning in page.warnings:
        yield Padding(Text("warning: ", "bold yellow").append(warning, "default"), (0, 0))
    for section in page.sections:
        parts = [part for part in section.parts if isinstance(part, str | Table)]
        if parts and section.only != "page":
            yield ""
            yield Padding(Text(section.title, "bold"), (0, 0))
            for part in parts:
                yield from _section_part(part, section)


def _section_part(part: Table | str, section: Section) -> Iterator[RenderableType]:
    """A paragraph, or a table; one that is named as its section needs no caption."""
    if isinstance(part, str):
        yield Padding(Text(part), (0, 0, 0, 2))
        return
    if part.caption != section.title:
        yield ""
        yield Padding(Text(part.caption, "italic"), (0, 0, 0, 2))
    yield Padding(grid(part), (0, 0, 0, 2))
    if left := len(part.rows[part.brief.rows :]) if part.brief.rows else 0:
        yield Padding(Text(f"and {left:,} more", "dim"), (0, 0, 0, 2))
    if part.note:
        yield Padding(Text(part.note, "dim"), (0, 0, 0, 2))
