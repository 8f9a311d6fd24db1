"""Bars made of characters. Shapes as well as colours distinguish the parts of the step, so plain
text keeps the meaning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from rich.text import Text

from ..step_parts import PARTS


def stacked(shares: Sequence[float], width: int, ascii_only: bool) -> Text:
    """The shares of `PARTS` side by side in `width` characters; the largest remainders get the odd
    characters."""
    cells = _apportion(shares, width)
    bar = Text()
    for part, length in zip(PARTS, cells, strict=True):
        style = part.style
        bar.append((style.ascii if ascii_only else style.mark) * length, style.terminal)
    return bar


def legend(ascii_only: bool, used: Sequence[bool]) -> Text:
    """The legend of `stacked` for the parts that are `used`."""
    line = Text()
    for part in compress(PARTS, used):
        style = part.style
        line.append(style.ascii if ascii_only else style.mark, style.terminal)
        line.append(f" {(part.doing or part).label}  ")
    return line


def filled(part: float, width: int, ascii_only: bool) -> Text:
    """A bar filled to `part` (0..1); empty and full only where `part` is exactly 0 or 1."""
    length = round(min(max(part, 0.0), 1.0) * width)
    if 0 < part < 1:
        length = min(max(length, 1), width - 1)
    full, empty = ("#", ".") if ascii_only else ("\u2588", "\u2591")
    return Text(full * length, "cyan").append(empty * (width - length), "bright_black")


def _apportion(shares: Sequence[float], width: int) -> list[int]:
    exact = [max(share, 0.0) * width for share in shares]
    cells = [int(value) for value in exact]
    missing = min(width, round(sum(exact))) - sum(cells)
    for i in sorted(range(len(exact)), key=lambda i: cells[i] - exact[i])[:missing]:
        cells[i] += 1
    return cells
