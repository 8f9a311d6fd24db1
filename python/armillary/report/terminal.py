"""How anything drawn reaches the terminal, or the file that stands in for it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.text import Text


def emit(console: Console, parts: Iterable[RenderableType]) -> None:
    """Prints `parts`: tables fit the width, lines of text are never broken, no line ends in blanks."""
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, Text))
    lines = captured.get().splitlines()
    console.file.write("\n".join(line.rstrip() for line in lines) + "\n")
