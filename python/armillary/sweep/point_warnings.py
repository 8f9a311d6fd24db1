"""Warnings of the points of a sweep, grouped by their text: number of points, the first of them.

Texts that differ in numbers alone are one warning, worded as the first point has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..run_warnings import pattern
from ..units import counted
from .frame import Frame

COLUMN = "warning_texts"
_SHOWN = 20


@dataclass(frozen=True)
class Warned:
    """One warning of one or more points."""

    text: str
    points: int
    first: int
    """Index of the first point that has it."""


def warned(table: Frame) -> list[Warned]:
    """Warnings by the number of points that have them, the most frequent first."""
    if COLUMN not in table.columns:
        return []
    found: dict[str, tuple[str, list[int]]] = {}
    for index, texts in zip(table["index"], table[COLUMN], strict=True):
        for key, text in {pattern(each): each for each in _lines(texts)}.items():
            found.setdefault(key, (text, []))[1].append(index)
    made = [Warned(text, len(points), points[0]) for text, points in found.values()]
    return sorted(made, key=lambda each: (-each.points, each.first, each.text))


def _lines(texts: str | None) -> list[str]:
    return texts.split("\n") if texts else []


def said(table: Frame) -> Iterator[str]:
    """The most frequent warnings, each with its points."""
    found, ran = warned(table), table["error"].count(None)
    for each in found[:_SHOWN]:
        which = f"{each.points:,} of {ran:,} points, first {each.first}"
        yield each.text if each.points == ran else f"{each.text} ({which})"
    if more := len(found) - _SHOWN:
        yield from [f"{counted(more, 'more warning')}: see column {COLUMN}"] if more > 0 else []
