"""Warnings of runs for whoever shows a result without the run's own page: what a run warned of, and
what it assumed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .schema import Report

_NUMBERS = re.compile(r"[0-9][0-9,.]*")


def of(report: Report) -> list[str]:
    """Warnings of a run, then what it assumed."""
    return texts(report["warnings"], report["assumptions"])


def texts(warnings: Iterable[str], assumptions: Iterable[str]) -> list[str]:
    """Warnings, and assumptions that say what they are."""
    return [*warnings, *(f"assumed: {each}" for each in assumptions)]


def pattern(text: str) -> str:
    """A text with a star for each number in it: runs differ in numbers and mean the same."""
    return _NUMBERS.sub("*", text)


def distinct(found: Iterable[str]) -> list[str]:
    """The first of the texts that differ only in numbers."""
    first: dict[str, str] = {}
    for text in found:
        first.setdefault(pattern(text), text)
    return list(first.values())
