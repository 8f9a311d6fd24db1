"""Embedding tables, what ranks exchange of them, and click logs as text, written in Rust
(`train/crates/py-train`)."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

__all__ = [
    "Blocks",
    "Columns",
    "Embedding",
    "EngineMemory",
    "Router",
    "RowSums",
    "StagedCache",
    "TextColumn",
    "TextRecipe",
    "check_batch",
    "pairs",
    "pairs_gradient",
]

_Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]
"""Lengths, indices and weights of a batch."""

@final
class EngineMemory:
    """Memory of a table, its state or a result, as a buffer of bytes that can be written."""

    def __len__(self) -> int:
        """The number of bytes."""

_Parts = tuple[NDArray[np.int64], list[NDArray[np.uint8]]]

@final
class StagedCache:
    """What the host does of a cache whose slots are in the memory of another device: which rows are
    in which slots, and the slower tier. Slots and rows are the bytes of int64."""

    def size(self) -> tuple[int, int]:
        """The number of slots, with those behind them, and bytes of the cache."""
    def stage(
        self, lookups: list[NDArray[np.int64]], batch: tuple[int, int], guests: bool
    ) -> tuple[bytes, bool, tuple[bytes, bytes], tuple[bytes, bytes], int, int]:
        """Makes rows in `lookups` slots. They are pinned for the first number of `batch`; slots of
        batches from the second one on keep their rows. With `guests`, rows for which there is no
        room get slots behind the others. Returns the slots, whether all rows have one, slots and
        rows that leave changed, slots and rows that come, how many rows made room, and how many are
        behind the slots.

        Raises:
            InputError: too little memory.
        """
    def exchange(self, out: _Parts, into: _Parts, now: int, threads: int) -> int:
        """Writes rows to the slower tier, as of batch `now`, and then reads others: weights as
        slots have them, and the parts of the state. Returns how many were there.

        Raises:
            InputError: too little memory; a disk failed.
        """
    def mark(self, slots: NDArray[np.int64]) -> None:
        """Notes that the rows of slots are changed."""
    def changed(self, guests: bool) -> tuple[bytes, bytes]:
        """Slots and rows that were changed; with `guests`, those behind the slots only."""
    def clean(self) -> None:
        """Notes that the slower tier has all rows as they are."""
    def forget(self, guests: bool) -> None:
        """Forgets all rows; with `guests`, those behind the slots only."""

@final
class TextColumn:
    """A column as a buffer of bytes that can't be written."""

    def __len__(self) -> int:
        """The number of bytes."""

@final
class TextRecipe:
    """Which field of a line is what, and how it changes. `armillary_train.data.recipe` describes
    the settings."""

    def __new__(
        cls,
        separator: int,
        fields: Sequence[tuple[str, int]],
        dense: Sequence[dict[str, Any]],
        categories: Sequence[dict[str, Any]],
    ) -> TextRecipe: ...
    narrow: bool
    """Whether rows have 32 bits."""
    varies: bool
    """Whether samples may have other than one value of a category."""
    dense: int
    """Dense columns."""
    categories: int

    def parse(
        self, text: Buffer, threads: int
    ) -> tuple[
        list[tuple[TextColumn, TextColumn, TextColumn, TextColumn]],
        list[tuple[int, str, str, str]],
    ]:
        """Labels (uint8), dense values (float32), lengths (int32) and rows of pieces of a text, in
        order; or its first faults: line (from 0), column, message, what is allowed."""

@final
class Embedding:
    """Embedding tables, their features and their optimizer. `armillary_train.tables.embedding`
    describes the settings."""

    def __new__(
        cls,
        tables: Sequence[dict[str, Any]],
        features: Sequence[dict[str, Any]],
        settings: dict[str, Any],
        seed: int,
        threads: int,
        storage: dict[str, Any] | None = None,
    ) -> Embedding:
        """Tables with initial weights, or those of the checkpoint in the folder of `storage`.

        Raises:
            InputError: a size is out of range, or there is too little memory; the folder can't be
                used.
            ValueError: a setting is missing or unknown.
        """
    @staticmethod
    def levels() -> list[str]:
        """Instruction sets of this machine, the widest last."""
    def forward(self, samples: int, batch: _Arrays, out: NDArray[Any]) -> None:
        """Looks up a batch into `out`.

        Raises:
            InputError: a fault of the batch.
        """
    def backward(
        self, samples: int, batch: _Arrays, grad: NDArray[Any], weights: NDArray[Any] | None
    ) -> None:
        """Applies the gradient `grad` of the result. Writes the gradients of the batch's weights
        into `weights`, if that is not `None`.

        Raises:
            InputError: a fault of the batch or of the gradient. Nothing has changed then.
        """
    def weight_gradients(
        self, samples: int, batch: _Arrays, grad: NDArray[Any], weights: NDArray[Any]
    ) -> None:
        """Writes the gradients of the batch's weights into `weights`. No row changes.

        Raises:
            InputError: a fault of the batch or of the gradient.
        """
    @staticmethod
    def rounds(settings: dict[str, Any]) -> int:
        """Rounds of `row_sums` and `set_row_sums` before `backward`, where a table has some columns
        of rows and an optimizer of these settings needs sums over all of them."""
    def row_sums(
        self, samples: int, batch: _Arrays, grad: NDArray[Any], round_of_table: tuple[int, int]
    ) -> RowSums:
        """The rows of a table that `backward` will change, with sums over the table's columns. The
        pair has the table and the round.

        Raises:
            InputError: a fault of the batch or of the gradient.
        """
    def set_row_sums(self, table: int, columns: int, rows: RowSums) -> None:
        """Makes further rounds and the next `backward` use these sums over `columns` columns."""
    def prefetch(self, samples: int, batch: _Arrays) -> None:
        """Begins to bring the rows of the next batch into the caches.

        Raises:
            InputError: a fault of the batch.
        """
    def settle(self) -> None:
        """Waits until caches read and write nothing in the background.

        Raises:
            InputError: a disk failed, now or before.
        """
    def cache(self, table: int) -> StagedCache:
        """The cache of a table, for slots in the memory of another device.

        Raises:
            InputError: the table has none.
        """
    def commit(self) -> None:
        """Makes the tables, as they are now, the checkpoint of their folder.

        Raises:
            InputError: there is no folder, or the disk fails. The last checkpoint is intact then.
        """
    def read_rows(self, table: int, first: int, records: NDArray[Any]) -> None:
        """Reads rows of a table with a cache: bytes of weights, then of state, row by row."""
    def write_rows(self, table: int, first: int, records: NDArray[Any]) -> None:
        """Writes rows of a table with a cache, as `read_rows` reads them."""
    def cache_report(self) -> dict[str, int | float]:
        """What the caches did so far."""
    def room(self, bytes: int) -> EngineMemory:
        """Memory for a result, whose bytes have any value. Dropped results leave theirs to the next
        ones.

        Raises:
            MemoryError: there is none.
        """
    def memory(self, table: int) -> tuple[EngineMemory, list[EngineMemory]]:
        """Memory of a table's rows, and of each part of the optimizer's state."""
    step: int
    """Backward passes so far."""
    learning_rate: float
    threads: int
    refuse_not_finite: bool
    """Whether a gradient that is not finite is an error."""
    level: str
    """The instruction set in use, one of `levels()`."""

@final
class RowSums:
    """Rows of a table, ascending, with sums over its columns: one or two numbers of each row."""

    def __len__(self) -> int:
        """Numbers of all rows."""
    def write(self, to: NDArray[Any]) -> None:
        """Writes the numbers, float32."""
    def replace(self, by: NDArray[Any]) -> None:
        """Takes sums over whole rows in their place, float32."""

def check_batch(
    samples: int, batch: _Arrays, features: Sequence[tuple[str, str, int, bool]]
) -> None:
    """Checks a batch. `features` are each feature's name, its table, the table's rows, and whether
    it takes weights.

    Raises:
        InputError: a fault of the batch.
    """

@final
class Router:
    """Sends the lookups of a batch to segments: copies of whole features, and the shards of those
    whose rows are cut."""

    def __new__(
        cls, cuts: Sequence[tuple[str, str, int, list[int]]], segments: Sequence[tuple[int, int]]
    ) -> Router:
        """`cuts` are each feature's name, table, rows, and where its shards end, or nothing if it
        is not cut. `segments` are features and shards, in the order in which they are sent.

        Raises:
            InputError: a shard without a segment, or a segment without a shard.
        """
    def count(self, samples: int, batch: _Arrays) -> list[int]:
        """The lookups of each segment.

        Raises:
            InputError: a fault of the batch.
        """
    def fill(self, batch: _Arrays, sent: _Arrays) -> None:
        """Writes the segments of the batch that was counted last: int32 lengths, int32 or int64
        rows within their shards, and weights.

        Raises:
            ValueError: there is room for more or less than was counted.
        """

@final
class Blocks:
    """Bags and lookups in blocks that lie one behind the other."""

    def __new__(cls, sizes: Sequence[int], lengths: NDArray[Any], lookups: int) -> Blocks:
        """Blocks of `sizes` bags with these lengths.

        Raises:
            InputError: a negative length, or lengths that do not add up to `lookups`.
        """
    def extent(self, order: Sequence[int]) -> tuple[int, int]:
        """Bags and lookups of the blocks `order`."""
    def permute_bags(self, order: Sequence[int], source: NDArray[Any], to: NDArray[Any]) -> None:
        """Copies the blocks `order` of an array with a number for each bag."""
    def permute_lookups(self, order: Sequence[int], source: NDArray[Any], to: NDArray[Any]) -> None:
        """Copies the blocks `order` of an array with a number for each lookup."""

def pairs(
    samples: int,
    features: tuple[NDArray[Any], NDArray[Any]],
    out: NDArray[Any],
    threads: int,
) -> None:
    """Writes the interaction of a DLRM to `out` [samples, D + F (F - 1) / 2], float32: the first
    feature of each sample, then the products of features i and j < i at D + i (i - 1) / 2 + j.
    `features` are the first ones [samples, D] and the others [samples, (F - 1) D], float32.

    Raises:
        InputError: arrays of other sizes.
        ValueError: no samples, or arrays that are not contiguous.
    """

def pairs_gradient(
    samples: int,
    features: tuple[NDArray[Any], NDArray[Any]],
    grad: NDArray[Any],
    to: tuple[NDArray[Any], NDArray[Any]],
    threads: int,
) -> None:
    """Writes the gradients of `features` to the arrays `to` of their shapes, by the gradient of
    the result of `pairs`.

    Raises:
        InputError: arrays of other sizes.
        ValueError: no samples, or arrays that are not contiguous.
    """

@final
class Columns:
    """Columns of pooled rows, between the rows of a batch and blocks of rows."""

    def __new__(
        cls, width: int, widths: Sequence[int], runs: Sequence[tuple[int, int, int, int, bool]]
    ) -> Columns:
        """Rows of `width` columns against blocks of `widths` columns. `runs` are blocks, first
        columns there and in the batch, widths, and whether they are added to earlier runs.

        Raises:
            InputError: a run leaves its block.
        """
    def collect(self, rows: int, blocks: Sequence[NDArray[Any]], batch: NDArray[Any]) -> None:
        """Rows of the batch from those of the blocks, added up in the order of the runs."""
    def spread(self, rows: int, batch: NDArray[Any], blocks: NDArray[Any]) -> bool:
        """Rows of the blocks, which lie one behind the other, from those of the batch. Returns
        whether all numbers are finite."""
