"""A page on a terminal, or as plain text: what stands on it in words and tables, without its
drawings."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from .page import Page, Table
from .plain_names import Named
from .terminal import Terminal, emit

_WIDTH = 100


def show(page: Page, console: Console) -> None:
    """Prints a page to fit the console's width."""
    emit(console, _parts(page))


def text(page: Page, width: int = _WIDTH) -> str:
    """A page as text of at most `width` columns, where its words allow."""
    written = io.StringIO()
    show(page, Terminal(file=written, width=width))
    return written.getvalue()


def _parts(page: Page) -> Iterator[RenderableType]:
    yield Padding(Text(page.title, "bold green"), (0, 0))
    if page.verdict:
        yield Padding(Text(page.verdict), (0, 0))
    if page.lead:
        yield Padding(Text(page.lead), (0, 0))
    for fact in page.facts:
        yield Text(f"{fact.label}: {fact.value} {fact.note}".rstrip())
    for warning in page.warnings:
        yield Padding(Text("warning: ", "bold yellow").append(warning, "default"), (0, 0))
    for section in page.sections:
        yield ""
        yield Padding(Text(section.title, "bold"), (0, 0))
        for part in section.parts:
            if isinstance(part, str):
                yield Padding(Text(part), (0, 0, 0, 2))
            elif isinstance(part, Table):
                yield from _table(part)


def _table(table: Table) -> Iterator[RenderableType]:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, name in enumerate(table.columns):
        grid.add_column(name, justify="left" if index < table.labels else "right")
    for row in table.rows:
        grid.add_row(*(cell.name if isinstance(cell, Named) else cell for cell in row))
    yield ""
    yield Padding(Text(table.caption, "italic"), (0, 0, 0, 2))
    yield Padding(grid, (0, 0, 0, 2))
    if table.note:
        yield Padding(Text(table.note, "dim"), (0, 0, 0, 2))
