"""Simulating a run again with other settings, or why that is not possible.

Here: the types. Not here: what repeats a run (`api.rerun`, `Result.again`), what is tried
(`explain/whatif.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .schema import Report

Again = Callable[[Mapping[str, str], bool], Report]
"""Simulates a run again with some keys of its platform set, and with its detail or without."""


@dataclass(frozen=True, slots=True)
class Unrepeatable:
    """A run that nothing can simulate again."""

    why: str

    @property
    def sentence(self) -> str:
        """The reason as a part of a sentence."""
        return f"the run can't be repeated: {self.why}"
