"""Rows of tables as they were at one moment, while training goes on.

Here: which rows changed since the last checkpoint, and copy-on-write of rows. Not here: files
(`tensor_files.py`), who writes (`saver.py`).

A snapshot begins without a copy. A row that training is about to change is copied before that,
unless it was written already. All other rows are read from the table when their turn comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Parts = dict[str, NDArray[Any]]
    """`weight` and the parts of the optimizer's state, [rows, ...] each."""

PIECE = 2**22
"""Bytes of rows that are copied at a time; training waits for no more than that."""


class Snapshot:
    """Rows of a table in memory, as they are when the snapshot is made."""

    def __init__(self, parts: Mapping[str, NDArray[Any]], rows: NDArray[np.bool_] | None) -> None:
        """`parts` are views of the table's memory; `rows` says which rows are wanted, or `None` for
        all of them."""
        self._parts = parts
        count = len(parts["weight"])
        self.size = count if rows is None else int(np.count_nonzero(rows))
        """Rows that are wanted."""
        self._pending = np.ones(count, np.bool_) if rows is None else rows
        self._lock = threading.Lock()
        self._saved: list[tuple[NDArray[np.int64], Parts]] = []

    def keep(self, rows: NDArray[Any]) -> None:
        """Copies those of `rows` that are still to be written. Called before they change."""
        with self._lock:
            rows = rows[self._pending[rows]]
            if not len(rows):
                return
            rows = np.unique(rows).astype(np.int64)
            self._saved.append((rows, {name: part[rows] for name, part in self._parts.items()}))
            self._pending[rows] = False

    def pieces(self) -> Iterator[tuple[NDArray[np.int64], Parts]]:
        """The wanted rows in their order, some at a time: their numbers, and copies of them. Called
        once, from any thread."""
        count = len(self._pending)
        step = rows_of_piece(self._parts)
        for first in range(0, count, step):
            found = self._piece(first, min(count, first + step))
            if len(found[0]):
                yield found

    def _piece(self, first: int, last: int) -> tuple[NDArray[np.int64], Parts]:
        with self._lock:
            pending = self._pending[first:last]
            rows = np.flatnonzero(pending) + first
            whole = len(rows) == last - first
            some = slice(first, last) if whole else rows
            # A slice is a view: copy it, so that training may go on.
            parts = {name: np.array(part[some]) for name, part in self._parts.items()}
            pending[:] = False
            if whole:
                return rows, parts
            saved = list(self._saved)
        all_rows, all_parts = [rows], [parts]
        for kept, values in saved:
            start, end = np.searchsorted(kept, (first, last))
            if start < end:
                all_rows.append(kept[start:end])
                all_parts.append({name: part[start:end] for name, part in values.items()})
        if len(all_rows) == 1:
            return rows, parts
        rows = np.concatenate(all_rows)
        order = np.argsort(rows, kind="stable")
        names = list(self._parts)
        return rows[order], {
            name: np.concatenate([each[name] for each in all_parts])[order] for name in names
        }


class Watch:
    """Which rows of a table changed since the last checkpoint, and its snapshot under way."""

    def __init__(self, rows: int) -> None:
        self._touched = np.zeros(rows, np.bool_)
        self.snapshot: Snapshot | None = None

    def change(self, rows: NDArray[Any]) -> None:
        """Called before `rows` change."""
        snapshot = self.snapshot
        if snapshot is not None:
            snapshot.keep(rows)
        self._touched[rows] = True

    @property
    def touched(self) -> int:
        """Rows that changed since `take`."""
        return int(np.count_nonzero(self._touched))

    def take(self) -> NDArray[np.bool_]:
        """Which rows changed since the last call."""
        found = self._touched
        self._touched = np.zeros(len(found), np.bool_)
        return found


class Watches:
    """The watches of a collection's tables, which it calls before a backward pass."""

    def __init__(self, rows: list[int], tables: list[int]) -> None:
        """`rows` of each table, and the table of each feature."""
        self.each = [Watch(count) for count in rows]
        self._tables = tables

    def __call__(self, arrays: Any) -> None:  # noqa: ANN401 - arrays, or tensors on a GPU
        """Notes the rows of a batch: lengths [features, samples] and indices."""
        lengths, indices = (_array(each) for each in arrays[:2])
        counts = lengths.reshape(len(self._tables), -1).sum(1, dtype=np.int64)
        first = 0
        for table, count in zip(self._tables, counts.tolist(), strict=True):
            if count:
                self.each[table].change(indices[first : first + count])
            first += count


def rows_of_piece(parts: Mapping[str, NDArray[Any]]) -> int:
    """Rows that are copied at a time."""
    row = sum(part[:1].nbytes for part in parts.values())
    return max(1, PIECE // max(1, row))


def _array(values: Any) -> NDArray[Any]:  # noqa: ANN401
    return values if isinstance(values, np.ndarray) else np.asarray(values.cpu())
