"""Samples as columns, on their way into a file: cut, put together, reordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import _train
from .samples import Samples

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class Columns:
    """`n` samples with `D` dense values and `F` categories."""

    labels: NDArray[np.uint8]
    """0 or 1 [n]."""
    dense: NDArray[np.float32]
    """[n, D]."""
    lengths: NDArray[np.int32] | None
    """Values of each category [F, n]; `None`: one."""
    indices: NDArray[Any]
    """Values category by category, int32 or int64 [sum of lengths]."""
    categories: int
    """F."""

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(
        cls,
        given: tuple[_train.TextColumn, _train.TextColumn, _train.TextColumn, _train.TextColumn],
        recipe: _train.TextRecipe,
    ) -> Columns:
        """Columns from the arrays of the core's parser."""
        labels = _array(given[0], np.uint8)
        count = len(labels)
        return cls(
            labels,
            _array(given[1], np.float32).reshape(count, recipe.dense),
            _array(given[2], np.int32).reshape(recipe.categories, count) if recipe.varies else None,
            _array(given[3], np.int32 if recipe.narrow else np.int64),
            recipe.categories,
        )

    @property
    def bytes(self) -> int:
        """Bytes of all columns."""
        lengths = 0 if self.lengths is None else self.lengths.nbytes
        return self.labels.nbytes + self.dense.nbytes + lengths + self.indices.nbytes

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the values of each bag begin, and the end of the last one [F n + 1]."""
        assert self.lengths is not None
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    def cut(self, first: int, last: int) -> Columns:
        """Samples `first` to `last - 1`."""
        if (first, last) == (0, len(self)):
            return self
        some, lengths = slice(first, last), None
        if self.lengths is None:
            indices = self.indices.reshape(self.categories, len(self))[:, some].ravel()
        else:
            lengths, starts = self.lengths[:, some], self.starts
            places = [each * len(self) for each in range(self.categories)]
            found = [self.indices[starts[at + first] : starts[at + last]] for at in places]
            indices = np.concatenate([self.indices[:0], *found])
        return Columns(self.labels[some], self.dense[some], lengths, indices, self.categories)

    def take(self, order: NDArray[np.int64]) -> Columns:
        """These samples, in this order."""
        count, lengths = len(self), None
        if self.lengths is None:
            indices = self.indices.reshape(self.categories, count)[:, order].ravel()
        else:
            lengths = self.lengths[:, order]
            bags = (np.arange(self.categories)[:, None] * count + order).ravel()
            sizes = lengths.ravel().astype(np.int64)
            ends = np.cumsum(sizes)
            within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
            indices = self.indices[np.repeat(self.starts[bags], sizes) + within]
        return Columns(self.labels[order], self.dense[order], lengths, indices, self.categories)


def samples_of(columns: Columns) -> Samples:
    """The columns as a trainer reads them."""
    count, lengths = len(columns), columns.lengths
    if lengths is None:
        lengths = np.ones((columns.categories, count), np.int32)
    labels = columns.labels.astype(np.float32)
    dense, indices = _writable(columns.dense), _writable(columns.indices)
    return Samples(dense, _writable(lengths), indices, labels)


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """A copy of an array that may not be written, which PyTorch warns of."""
    return np.require(array, requirements=["C", "W"])


def join(parts: Sequence[Columns]) -> Columns:
    """All samples of at least one part."""
    if len(parts) == 1:
        return parts[0]
    categories, lengths = parts[0].categories, None
    if parts[0].lengths is None:
        shaped = [each.indices.reshape(categories, len(each)) for each in parts]
        indices = np.concatenate(shaped, axis=1).ravel()
    else:
        lengths = np.concatenate([_lengths(each) for each in parts], axis=1)
        cuts = [each.starts[:: len(each)] if len(each) else None for each in parts]
        found = [
            each.indices[cut[at] : cut[at + 1]]
            for at in range(categories)
            for each, cut in zip(parts, cuts, strict=True)
            if cut is not None
        ]
        indices = np.concatenate([parts[0].indices[:0], *found])
    labels = np.concatenate([each.labels for each in parts])
    dense = np.concatenate([each.dense for each in parts])
    return Columns(labels, dense, lengths, indices, categories)


def _lengths(columns: Columns) -> NDArray[np.int32]:
    assert columns.lengths is not None
    return columns.lengths


def _array(column: _train.TextColumn, kind: type[np.generic]) -> NDArray[Any]:
    if not len(column):
        return np.empty(0, kind)
    # A buffer, which a class can say of itself from Python 3.12 on only.
    return np.frombuffer(memoryview(cast("Buffer", column)), kind)
