"""Simulating a run again with other settings and options, or why that is not possible.

Here: the types. Not here: what repeats a run (`api.rerun`, `Result.again`), what is tried
(`explain/whatif.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .schema import Report

Again = Callable[[Mapping[str, str], bool, Mapping[str, object]], Report]
"""Simulates a run again with some keys of its platform set, with its detail or without, and with
some options of its model changed."""


@dataclass(frozen=True, slots=True)
class Unrepeatable:
    """A run that nothing can simulate again."""

    why: str

    @property
    def sentence(self) -> str:
        """The reason as a part of a sentence."""
        return f"the run can't be repeated: {self.why}"
