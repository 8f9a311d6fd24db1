"""What a step trains on. Lengths and indices of all features are one tensor each."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class SparseBatch:
    """The bags of all features: those of the first feature, sample by sample, then those of the
    second."""

    lengths: Tensor
    """Rows of each bag, int32 or int64 [features, samples]."""
    indices: Tensor
    """The rows, bag by bag, int32 or int64 [lookups]."""
    weights: Tensor | None = None
    """What each row is multiplied by, float32 [lookups]; only for features that are summed."""

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
