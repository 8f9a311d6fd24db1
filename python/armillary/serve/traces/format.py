"""A format of recorded loads: its name, how it is recognized, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from .recorded import Recorded
from .source import Source


@dataclass(frozen=True, slots=True)
class Format:
    """A format of recorded loads."""

    said: str
    """Name in messages."""
    kinds: tuple[str, ...]
    """Kinds of files (`Source.kind`)."""
    recognises: Callable[[Set[str]], bool]
    """Whether columns or keys are those of the format."""
    read: Callable[[Source, Recorded], None]
    """Reads all requests. Raises `InputError`."""


NO_CONTENTS = "prompts share nothing: the file has no contents"
"""The assumption about files with lengths alone."""
TURNS_ALONE = "prompts share nothing but their conversations: the file has no contents"
"""That about files with lengths and conversations."""
