"""Batch that a step trains on. Lengths and indices of all features are one tensor each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from armillary.errors import InputError, Problem

from .table import Feature


@dataclass(frozen=True, slots=True)
class SparseBatch:
    """The bags of all features: those of the first feature, sample by sample, then those of the
    second."""

    lengths: Tensor
    """Rows of each bag, int32 or int64 [features, samples]."""
    indices: Tensor
    """The rows, bag by bag, int32 or int64 [lookups]."""
    weights: Tensor | None = None
    """Factor of each row, float32 [lookups]; only for features that are summed."""

    @property
    def samples(self) -> int:
        """Samples of the batch."""
        return self.lengths.shape[1]


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples of a recommendation model."""

    dense: Tensor
    """Numbers of each sample, float32 [samples, dense features]."""
    sparse: SparseBatch
    labels: Tensor
    """0 or 1, float32 [samples]."""


@runtime_checkable
class Keyed(Protocol):
    """A batch whose features have names: TorchRec's `KeyedJaggedTensor`, and what is like it."""

    def keys(self) -> Sequence[str]: ...  # noqa: D102
    def lengths(self) -> Tensor: ...  # noqa: D102
    def values(self) -> Tensor: ...  # noqa: D102
    def weights_or_none(self) -> Tensor | None: ...  # noqa: D102


def batch_of(given: object, features: Sequence[Feature]) -> SparseBatch:
    """The argument of a collection with these features, as a batch. Features of a `Keyed` are found
    by their names, and others are left out.

    Raises:
        InputError: it is neither; a feature is missing, or twice; features with different numbers
            of samples.
    """
    if isinstance(given, SparseBatch):
        return given
    if not isinstance(given, Keyed):
        said = f"a batch of the type {type(given).__name__}"
        allowed = "SparseBatch, or a KeyedJaggedTensor"
        raise InputError([Problem("", "batch", said, allowed)])
    keys, names = list(given.keys()), [each.name for each in features]
    problems = [
        Problem("", f"feature {name!r}", f"is {keys.count(name)} times in the batch", "once")
        for name in names
        if keys.count(name) != 1
    ]
    if problems:
        raise InputError(problems)
    lengths = given.lengths()
    if getattr(given, "variable_stride_per_key", bool)() or len(lengths) % len(keys):
        said = f"{len(lengths)} lengths of {len(keys)} features"
        raise InputError([Problem("", "batch", said, "the same samples for all features")])
    shaped = lengths.view(len(keys), -1)
    if keys == names:
        return SparseBatch(shaped, given.values(), given.weights_or_none())
    places = [keys.index(name) for name in names]
    counts = shaped.sum(1).tolist()

    def chosen(values: Tensor) -> Tensor:
        if sum(counts) != len(values) or min(counts) < 0:
            said = f"{len(values)} values, but lengths of {sum(counts)}"
            raise InputError([Problem("", "batch", said, "a value for each lookup")])
        parts = torch.split(values, counts)
        return torch.cat([parts[place] for place in places])

    weights = given.weights_or_none()
    return SparseBatch(
        shaped[places], chosen(given.values()), None if weights is None else chosen(weights)
    )
