"""Contents of files that are not workloads.

Here: which files have contents. Not here: the contents (`measured_memory.py`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .. import first_bytes

if TYPE_CHECKING:
    from .explanation import Explanation


def is_snapshot(path: str | os.PathLike[str]) -> bool:
    """Whether a file may be a snapshot of PyTorch's memory, by its first bytes. `False` for what
    can't be read."""
    return first_bytes.may_be_snapshot(first_bytes.of(path))


def contents(path: str | os.PathLike[str]) -> Explanation | None:
    """The content of a file that is not a workload: a snapshot of PyTorch's memory. `None` for
    another file. Raises `InputError` for a damaged one."""
    return _snapshot(os.fspath(path)) if is_snapshot(path) else None


def _snapshot(path: str) -> Explanation | None:
    """The content of a snapshot; none for a dump of a flight recorder, which is a pickle, too."""
    from ..workload.importer import reading

    recordings = reading.read(Path(path))
    if not any(isinstance(each.document, reading.SnapshotDocument) for each in recordings):
        return None
    from . import measured_memory

    return measured_memory.contents(path, recordings)
