"""Contents of files that are not workloads.

Here: which files have contents. Not here: the contents (`measured_memory.py`,
`flexflow_tables.py`, `inspector_ranks.py`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .. import documents, first_bytes

if TYPE_CHECKING:
    from .explanation import Explanation


def is_snapshot(path: str | os.PathLike[str]) -> bool:
    """Whether a file may be a snapshot of PyTorch's memory, by its first bytes. `False` for what
    can't be read."""
    return first_bytes.may_be_snapshot(first_bytes.of(path))


def contents(path: str | os.PathLike[str]) -> Explanation | None:
    """The content of a file that is not a workload: a snapshot of PyTorch's memory, a strategy or
    measured operators of FlexFlow (a `Listing`), dumps of NCCL's inspector (also a folder of them).
    `None` for another file. Raises `InputError` for a damaged one."""
    name = os.fspath(path)
    if documents.is_folder(name):
        return _inspector_folder(name)
    head = first_bytes.of(path)
    if first_bytes.is_inspector(head):
        from . import inspector_ranks

        return inspector_ranks.contents(name, [name])
    if first_bytes.may_be_snapshot(head):
        return _snapshot(name)
    is_strategy = first_bytes.is_strategy(head)
    if not is_strategy and not first_bytes.is_operators(head):
        return None
    from ..workload.importer import reading
    from . import flexflow_tables

    [(inside, data)] = reading.unpack(Path(name))
    of = flexflow_tables.of_strategy if is_strategy else flexflow_tables.of_operators
    return of(name, inside, data)


def _inspector_folder(path: str) -> Explanation | None:
    """The content of a folder of dumps of NCCL's inspector; none for another folder."""
    files = sorted(each for each in Path(path).iterdir() if documents.is_file(each))
    if not files or not all(first_bytes.is_inspector(first_bytes.of(each)) for each in files):
        return None
    from . import inspector_ranks

    return inspector_ranks.contents(path, list(map(str, files)))


def _snapshot(path: str) -> Explanation | None:
    """The content of a snapshot; none for a dump of a flight recorder, which is a pickle, too."""
    from ..workload.importer import reading

    recordings = reading.read(Path(path))
    if not any(isinstance(each.document, reading.SnapshotDocument) for each in recordings):
        return None
    from . import measured_memory

    return measured_memory.contents(path, recordings)
