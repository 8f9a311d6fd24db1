"""A reader that is fuzzed.

Its `read` may return or raise `InputError` (`StalledError` for a run); anything else is a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Files = Mapping[str, bytes]
"""Name in a folder of its own, and content."""


@dataclass(frozen=True)
class Target:
    """A reader. Of each case one of `cases` is written, and one of its files is damaged."""

    name: str
    cases: Callable[[], list[Files]]
    read: Callable[[Path, Files], object]
    whole: str = "/"
    """Files whose name ends so stay as they are."""
