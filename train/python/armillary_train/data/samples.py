"""Samples as arrays, and where they come from.

Here: what every source of data gives, and how a batch is shared out over ranks. Not here: the
sources (`synthetic.py`, `criteo.py`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DENSE = 13
"""Counts of a sample, as in Criteo's logs."""

LEAST_COUNT = -1
"""Counts below are raised to it: Criteo's Terabyte logs have none."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples as arrays, `n` of them, with `F` categories.

    `dense` float32 [n, counts], `lengths` int32 [F, n], `indices` [sum of lengths] in the same
    order (category by category; `narrowed`), `labels` float32 [n]."""

    dense: NDArray[np.float32]
    lengths: NDArray[np.int32]
    indices: NDArray[np.int32] | NDArray[np.int64]
    labels: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, count: int) -> Samples:
        """The first `count` of them."""
        kept = np.broadcast_to(np.arange(len(self)) < count, self.lengths.shape)
        indices = self.indices[np.repeat(kept.ravel(), self.lengths.ravel())]
        lengths = np.ascontiguousarray(self.lengths[:, :count])
        return Samples(self.dense[:count], lengths, indices, self.labels[:count])


@dataclass(frozen=True, slots=True)
class Position:
    """Where a source of data is: what was trained on lies before it, and what was not behind it.

    It doesn't depend on the number of ranks or on the size of batches. A checkpoint stores it."""

    epoch: int = 0
    """Whole passes before this one."""
    sample: int = 0
    """Samples of this pass that lie before, in the order of the pass."""

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return {"epoch": self.epoch, "sample": self.sample}

    @classmethod
    def from_dict(cls, values: object) -> Position:
        """The reverse of `as_dict`. Raises `ValueError` for anything else."""
        if isinstance(values, dict) and values.keys() == {"epoch", "sample"}:
            epoch, sample = values["epoch"], values["sample"]
            if type(epoch) is int and type(sample) is int and epoch >= 0 and sample >= 0:
                return cls(epoch, sample)
        raise ValueError(f"not a position: {values!r}")


START = Position()
"""Before the first sample."""


Turn = tuple[int, int]
"""Which batches a reader reads: `(i, n)` means the batches `i`, `i + n`, `i + 2 n` and so on."""

ALL: Turn = (0, 1)
"""Every batch."""


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's samples of a batch."""

    samples: Samples
    first: int
    """Index of the first of them in the source."""
    whole: int
    """Samples of the batch on all ranks."""
    after: Position
    """Where the source is behind the batch; the same on all ranks."""

    def cut(self, count: int, rank: int, ranks: int) -> Part:
        """The part of `rank` if the batch ends behind `count` samples."""
        if count >= self.whole:
            return self
        kept = count - share(self.whole, rank, ranks).start
        after = Position(self.after.epoch, self.after.sample - self.whole + count)
        return Part(self.samples.first(max(0, kept)), self.first, count, after)


class Source(Protocol):
    """Samples in a fixed order."""

    @property
    def size(self) -> int | None:
        """Samples of one pass; `None` when only reading them all shows it, or they never end."""

    @property
    def identity(self) -> str:
        """Names the data and its order. A run that goes on from a `Position` needs the same one."""

    def parts(
        self, batch: int, rank: int, ranks: int, start: Position = START, turn: Turn = ALL
    ) -> Iterator[Part]:
        """The rest of the pass behind `start`, in batches of `batch` samples over all ranks: what
        `rank` of `ranks` has of each. Every rank gets the same number of parts; the last batch may
        be smaller, and its parts may be empty. At the end of a pass there are none.
        With a `turn`, only its batches."""

    def bound(self, first: int, count: int) -> NDArray[np.float64] | None:
        """Logits of the best possible predictions for these samples, float64 [count]; `None` where
        they are not known."""


def share(whole: int, rank: int, ranks: int) -> range:
    """Which of `whole` samples a rank has: consecutive ones, the first ranks one more."""
    each, rest = divmod(whole, ranks)
    first = rank * each + min(rank, rest)
    return range(first, first + each + (rank < rest))


def identity(kind: str, *facts: object) -> str:
    """A short name for data with these facts, which must have the same `repr` on every machine."""
    return f"{kind}:{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}"


def narrowed(
    indices: NDArray[np.int64], rows: Sequence[int]
) -> NDArray[np.int32] | NDArray[np.int64]:
    """Indices in 32 bits where all of `rows` allow it: half as much to send between ranks."""
    return indices.astype(np.int32) if max(rows) < 2**31 else indices


def logarithms(counts: NDArray[np.generic]) -> NDArray[np.float32]:
    """Counts as a model reads them: `log(count - least + 2)`, where `least` is `LEAST_COUNT`.

    Source: the preprocessing of Criteo Terabyte in torchrec (`datasets/criteo.py`)."""
    raised = np.maximum(counts, LEAST_COUNT).astype(np.float32)
    return np.asarray(np.log(raised - np.float32(LEAST_COUNT - 2)), np.float32)
