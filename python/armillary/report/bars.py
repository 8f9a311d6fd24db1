"""Bars out of characters, which tell parts apart by shape as well as by colour: plain text keeps
the meaning."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from rich.text import Text

PARTS = (
    ("compute", "\u2588", "#", "green"),
    ("communication", "\u2593", "=", "red"),
    ("remote memory", "\u2592", "~", "yellow"),
    ("local memory", "\u259e", ":", "blue"),
    ("waiting for launches", "\u25a4", "-", "magenta"),
    ("host", "\u25a5", "*", "cyan"),
    ("idle", "\u2591", ".", "bright_black"),
)
"""Name, character, character where only ASCII can be shown, colour."""


def stacked(shares: Sequence[float], width: int, ascii_only: bool) -> Text:
    """The shares of `PARTS` side by side in `width` characters; the largest remainders get the odd
    characters."""
    cells = _apportion(shares, width)
    bar = Text()
    for (_, block, plain, style), length in zip(PARTS, cells, strict=True):
        bar.append((plain if ascii_only else block) * length, style)
    return bar


def legend(ascii_only: bool, used: Sequence[bool]) -> Text:
    """What the characters of `stacked` mean, of those parts that are `used`."""
    line = Text()
    for (name, block, plain, style), _ in filter(
        operator.itemgetter(1), zip(PARTS, used, strict=True)
    ):
        line.append(plain if ascii_only else block, style).append(f" {name}  ")
    return line


def filled(part: float, width: int, ascii_only: bool) -> Text:
    """A bar of which `part` (0..1) is filled; empty and full only where `part` is exactly 0 or
    1."""
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
