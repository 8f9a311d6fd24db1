"""How far measured kernels disagree with each other: no prediction can be better than this.

Rows of one GPU are grouped by their shape, and each row's error is its distance from the median of
the group, in logarithms. *Repeats* have the same shape, library and version. *Any library* leaves
out what a user may not know: the engine, the library and its version. *Twins* are the same kernel
on a B200 and on a GB200, whose data sheets differ by a tenth: half of their distance counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from armillary.kernels.tables import Measured

_OF_LIBRARIES = {"library", "engine", "source", "kernels", "launch", "copies", "choices", "form"}
Key = Callable[[Measured], object]


def floors(rows: Sequence[Measured]) -> Iterator[tuple[str, list[float]]]:
    """Names of the ways to group rows, and the distances from the medians of groups."""
    yield "repeats", _distances(rows, lambda row: (row.system, row.shape, row.software))
    yield "any library", _distances(rows, lambda row: (row.system, _plain(row)))
    twins = [row for row in rows if row.system in ("b200", "gb200")]
    yield "B200 and GB200", _distances(twins, lambda row: (row.shape, row.software), pairs=True)


def _plain(row: Measured) -> tuple[tuple[str, object], ...]:
    fields = [field.name for field in dataclasses.fields(row.shape)]
    return tuple((name, getattr(row.shape, name)) for name in fields if name not in _OF_LIBRARIES)


def _distances(rows: Sequence[Measured], key: Key, pairs: bool = False) -> list[float]:
    """`pairs` asks for rows of different GPUs."""
    by: dict[object, list[Measured]] = {}
    for row in rows:
        by.setdefault(key(row), []).append(row)
    found: list[float] = []
    for group in by.values():
        if len(group) < 2 or (pairs and len({row.system for row in group}) < 2):
            continue
        logs = np.log([row.us for row in group])
        found += np.abs(logs - np.median(logs)).tolist()
    return found
