"""How anything drawn reaches the terminal, or the file that stands in for it.

A table that is wider than that wraps its names, at places where a name may break. If that is not
enough its columns go on below, next to the names again. Numbers and their units are never cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from .escapes import visible

WIDTH = 100
"""Columns of a file or a pipe, unless COLUMNS says otherwise."""
_NARROWEST = 16
"""Names are not wrapped to less than this: columns go on below instead."""
_PIECE = re.compile(r"[^\s._/,:>-]*(?:[\s._/,:>-]+|$)")
"""Characters of a name that stay on one line, with the separator that ends them."""


class Terminal(Console):
    """A console that shows control characters instead of sending them, and fits tables to its
    width."""

    def __init__(
        self, file: TextIO | None = None, width: int | None = None, stderr: bool = False
    ) -> None:
        super().__init__(
            highlight=False, markup=False, emoji=False, file=file, width=width, stderr=stderr
        )
        if width is None and not self.is_terminal and "COLUMNS" not in self._environ:
            self.width = WIDTH

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Print as rich does, with every text made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401
        """Render as rich does, with tables that fit."""
        for each in objects:
            for part in fitted(each, self.width):
                super().print(part, **{"crop": False, **options})


def emit(console: Console, parts: Iterable[RenderableType]) -> None:
    """Prints `parts`: tables fit the width, lines of text are never broken, no line ends in
    blanks."""
    with console.capture() as captured:
        for whole in parts:
            for part in fitted(whole, console.width):
                console.print(part, soft_wrap=isinstance(part, Text), crop=False)
    lines = captured.get().splitlines()
    console.file.write("\n".join(line.rstrip() for line in lines) + "\n")


def fitted(part: RenderableType, width: int) -> Iterator[RenderableType]:
    """`part`, or if it is a table wider than `width`, the tables that show all of it."""
    around = (
        (part.top, part.right, part.bottom, part.left)
        if isinstance(part, Padding)
        else (0, 0, 0, 0)
    )
    inner = part.renderable if isinstance(part, Padding) else part
    if not isinstance(inner, Table):
        yield part
        return
    for index, each in enumerate(_tables(inner, width - around[1] - around[3])):
        if index:
            yield ""
        sides = sum(each.padding[1::2])
        needed = sum((column.width or 0) + sides for column in each.columns)
        yield _Uncut(Padding(each, around) if any(around) else each, needed + sum(around[1::2]))


class _Uncut:
    """Drawn as wide as it is, `needed` columns at most, where that is wider than the terminal."""

    def __init__(self, part: RenderableType, needed: int) -> None:
        self.part, self.needed = part, needed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield from console.render(
            self.part, options.update(max_width=max(options.max_width, self.needed))
        )


def natural_width(table: Table) -> int:
    """Columns that a table takes with nothing wrapped."""
    columns = [_Cells(column, table.show_header) for column in table.columns]
    gap = sum(table.padding[1::2])
    return sum(column.width + gap for column in columns) - gap


def _tables(table: Table, width: int) -> Iterator[Table]:
    """The table with its names wrapped, split into the pieces that fit."""
    columns = [_Cells(column, table.show_header) for column in table.columns]
    # The last column's padding may stick out: it is blank.
    gap = sum(table.padding[1::2])
    names = [column for column in columns if column.is_name]
    numbers = [column for column in columns if not column.is_name]
    room = width - sum(column.width + gap for column in numbers) + gap
    if sum(column.width + gap for column in names) > room:
        _wrap(names, max(room, width // 2), gap)
    labels = sum(column.width + gap for column in names)
    for chosen in _groups(numbers, width - labels + gap, gap):
        yield _assembled(
            table, [column for column in columns if column.is_name or column in chosen]
        )


class _Cells:
    """A column as text: its head and cells, and how wide it is."""

    def __init__(self, column: Column, with_head: bool) -> None:
        self.column = column
        self.is_name = column.justify == "left" and not column.no_wrap
        self.head = column.header if with_head else ""
        self.cells = [_text(cell) for cell in column.cells]
        self.narrowest = max(
            (cell_len(piece) for text in self._texts() for piece in _pieces(text.plain)), default=0
        )
        self.width = self._width()

    def _texts(self) -> list[Text]:
        return [*self.cells, _text(self.head)]

    def _width(self) -> int:
        return max(
            (cell_len(line) for text in self._texts() for line in text.plain.split("\n")), default=0
        )

    def wrap(self, width: int) -> None:
        """Breaks every cell so that it is at most `width` wide, if its pieces are."""
        self.cells = [_broken(text, width) for text in self.cells]
        self.width = self._width()


def _text(cell: RenderableType) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(str(cell))
    shown = visible(text.plain)
    return text if shown == text.plain else Text(shown, text.style)


def _pieces(name: str) -> list[str]:
    return [piece.rstrip() for piece in _PIECE.findall(name) if piece]


def _wrap(names: Sequence[_Cells], room: int, gap: int) -> None:
    """Makes the widest columns of names narrower until all fit, where their pieces allow."""
    least = {id(column): min(column.width, max(column.narrowest, _NARROWEST)) for column in names}
    widths = {id(column): column.width for column in names}
    while sum(widths.values()) + gap * len(names) > room:
        widest = max(names, key=lambda column: widths[id(column)] - least[id(column)], default=None)
        if widest is None or widths[id(widest)] <= least[id(widest)]:
            break
        widths[id(widest)] -= 1
    for column in names:
        if widths[id(column)] < column.width:
            column.wrap(widths[id(column)])


def _broken(text: Text, width: int) -> Text:
    """The text with line ends between its pieces."""
    lines, at, length = [], 0, 0
    for piece in _PIECE.findall(text.plain):
        if at and length + cell_len(piece.rstrip()) > width:
            lines.append(at)
            length = 0
        at += len(piece)
        length += cell_len(piece)
    parts = text.divide(lines)
    for part in parts:
        part.rstrip()
    return Text("\n").join(parts)


def _groups(numbers: Sequence[_Cells], room: int, gap: int) -> Iterator[list[_Cells]]:
    """Neighbouring columns of numbers, in groups of about the same number of columns."""
    count, widths = 1, [column.width + gap for column in numbers]
    while count < len(numbers):
        size = -(-len(numbers) // count)
        if all(sum(widths[at : at + size]) <= room for at in range(0, len(numbers), size)):
            break
        count += 1
    size = -(-len(numbers) // count) if numbers else 1
    yield from ([*numbers[at : at + size]] for at in range(0, max(len(numbers), 1), size))


def _assembled(like: Table, columns: Sequence[_Cells]) -> Table:
    """A table of `columns` that looks as `like`. Its columns have widths, so that rich measures no
    cells."""
    table = Table(
        box=like.box,
        pad_edge=like.pad_edge,
        padding=like.padding,
        header_style=like.header_style,
        title=like.title,
        title_justify=like.title_justify,
        show_header=like.show_header,
    )
    for each in columns:
        table.add_column(
            each.column.header,
            justify=each.column.justify,
            style=each.column.style,
            no_wrap=True,
            width=each.width,
        )
    for row in zip(*(each.cells for each in columns), strict=True):
        table.add_row(*row)
    return table
