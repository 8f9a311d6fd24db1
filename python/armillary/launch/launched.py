"""A launch file in the words of our options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.files import Model


@dataclass(frozen=True, slots=True)
class Launched:
    """A job that runs today, as a model and options of its family."""

    format: str
    """Name of the format that was read."""
    model: Model
    options: Mapping[str, object]
    """Options of the model's family: those that the file decides."""
    notes: tuple[str, ...]
    """Assumptions, and keys that were left out although they may take time."""
    idle: Mapping[str, str]
    """Keys of the file that change no time, and why."""
