"""Samples in an order drawn by chance, with bounded memory.

Here: draws by the number of a sample, and a sort by them over a disk. The first pass gives each
sample to the bucket of its range of draws; the second sorts one bucket after the other. A draw
depends on seed and number of the sample alone, so the order never depends on memory or threads.

Source of the draws: SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number
generators, OOPSLA 2014)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from .columns import Columns, join

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_BUCKETS = 4096
"""Buckets, at most: each has an open file."""
_SHARE = 4
"""A bucket has about this part of the memory: it is read, joined and reordered."""


def draws(seed: int, stream: int, first: int, count: int) -> NDArray[np.uint64]:
    """Numbers of 64 bits drawn for samples `first` to `first + count - 1`."""
    gamma = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        state = _mixed(np.array([seed], np.uint64) * gamma + np.uint64(stream))
        numbers = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        return _mixed(state + numbers * gamma)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


class Shuffler:
    """Reorders samples. Raises `OSError` where a file can't be written."""

    def __init__(self, folder: Path, seed: int, memory: int, expected: int) -> None:
        """For samples of about `expected` bytes, with `memory` bytes at a time."""
        self._seed, self._memory = seed, memory
        wanted = -(-expected * _SHARE // memory)
        self.buckets = 1 if expected * 2 <= memory else min(max(wanted, 2), MOST_BUCKETS)
        self._paths = [folder / f"shuffle-{at:05}" for at in range(self.buckets)]
        self._parts: list[list[tuple[NDArray[np.uint64], Columns]]] = [[] for _ in self._paths]
        self._sizes: list[list[int]] = [[] for _ in self._paths]
        self._held = self._count = 0
        self._like: Columns | None = None
        """Some columns, for shapes and types of all."""

    def add(self, columns: Columns) -> None:
        """More samples."""
        keys = draws(self._seed, 1, self._count, len(columns))
        if self.buckets == 1:
            self._parts[0].append((keys, columns))
        else:
            half = np.uint64(32)
            where = ((keys >> half) * np.uint64(self.buckets)) >> half
            order = np.argsort(where, kind="stable")
            moved, keys = columns.take(order), keys[order]
            ends = np.searchsorted(where[order], np.arange(self.buckets), side="right")
            for at, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                if last > first:
                    self._parts[at].append((keys[first:last], moved.cut(first, last)))
            self._held += columns.bytes
            if self._held * 2 > self._memory:
                self._spill()
        self._count += len(columns)

    def shuffled(self) -> Iterator[Columns]:
        """All samples in the new order, bucket by bucket. Removes the files."""
        if self.buckets > 1:
            self._spill()
        for at, path in enumerate(self._paths):
            found = self._parts[at] if self.buckets == 1 else list(self._read(at))
            if found:
                keys = np.concatenate([each for each, _ in found])
                yield join([each for _, each in found]).take(np.argsort(keys, kind="stable"))
            self._parts[at] = []
            path.unlink(missing_ok=True)

    def _spill(self) -> None:
        for at, parts in enumerate(self._parts):
            if not parts:
                continue
            keys = np.concatenate([each for each, _ in parts])
            columns = join([each for _, each in parts])
            self._like = columns.cut(0, 0)
            with self._paths[at].open("ab", buffering=0) as stream:
                sizes = len(columns), len(columns.indices)
                for array in (keys, *_arrays(columns)):
                    _write(stream, array)
            self._sizes[at].extend(sizes)
            self._parts[at] = []
        self._held = 0

    def _read(self, at: int) -> Iterator[tuple[NDArray[np.uint64], Columns]]:
        sizes, like = iter(self._sizes[at]), self._like
        if like is None or not self._sizes[at]:
            return
        dense, categories, lengths = like.dense.shape[1], like.categories, None
        with self._paths[at].open("rb") as stream:
            for count, indices in zip(sizes, sizes, strict=True):
                keys = np.fromfile(stream, np.uint64, count)
                labels = np.fromfile(stream, np.uint8, count)
                values = np.fromfile(stream, np.float32, count * dense).reshape(count, dense)
                if like.lengths is not None:
                    lengths = np.fromfile(stream, np.int32, categories * count)
                    lengths = lengths.reshape(categories, count)
                rows = np.fromfile(stream, like.indices.dtype, indices)
                yield keys, Columns(labels, values, lengths, rows, categories)


def _arrays(columns: Columns) -> Iterator[NDArray[np.generic]]:
    yield columns.labels
    yield columns.dense
    if columns.lengths is not None:
        yield columns.lengths
    yield columns.indices


def _write(stream: IO[bytes], array: NDArray[np.generic]) -> None:
    left = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    while left:
        left = left[stream.write(left) :]
