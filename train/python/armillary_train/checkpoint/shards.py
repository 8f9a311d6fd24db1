"""The tables of a run as a checkpoint sees them: parts of whole tables, on one rank.

Here: finding them in the modules of a model, reading and writing their rows. Not here: files
(`saver.py`, `restore.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..build import Embeddings
from ..ranks.sharded import ShardedEmbeddingCollection
from ..tables.embedding import EmbeddingCollection
from ..tables.table import Table
from ..tables.tensor_train import SplitEmbeddings, TensorTrainCollection
from ..tensor_files import TYPES
from .manifest import Stored, StoredType
from .snapshot import Snapshot, Watch, Watches, rows_of_piece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .snapshot import Parts

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
}
_STORED: dict[str, StoredType] = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a table on this rank."""

    collection: EmbeddingCollection
    table: Table
    watch: Watch
    whole: Stored
    """The table that it is a part of."""
    mine: bool
    """Whether this rank writes it; other ranks have the same part otherwise."""

    @property
    def rows(self) -> range:
        """Rows of the shard in the whole table."""
        first = self.table.whole.first_row
        return range(first, first + self.table.rows)

    @property
    def columns(self) -> range:
        """Columns of the shard in the whole table."""
        first = self.table.whole.first_column
        return range(first, first + self.table.dim)

    @property
    def record(self) -> int:
        """Bytes of a row with its state."""
        width = TYPES[self.whole.dtype].itemsize * self.table.dim
        state = self.whole.state.values()
        return width + sum(4 if by_row else 4 * self.table.dim for by_row in state)

    @property
    def in_memory(self) -> bool:
        """Whether rows can be read while a step is under way: not those behind a cache or on a
        GPU."""
        return self.table.tier == "device" and self.collection.device.type == "cpu"

    def snapshot(self, rows: NDArray[np.bool_] | None) -> Snapshot:
        """The rows as they are now, copied when they are about to change. For tables in memory."""
        parts = self.collection.parts(self.table.name)
        found = Snapshot({name: array_of(part)[1] for name, part in parts.items()}, rows)
        self.watch.snapshot = found
        return found

    def pieces(self, rows: NDArray[np.bool_] | None) -> Iterator[tuple[NDArray[np.int64], Parts]]:
        """The rows of a table that is not in memory, some at a time: their numbers, and copies.
        Training waits meanwhile."""
        count = self.table.rows
        step = max(1, rows_of_piece({"": np.empty((1, self.record), np.uint8)}))
        for first in range(0, count, step):
            last = min(count, first + step)
            wanted = np.arange(first, last)
            if rows is not None:
                wanted = wanted[rows[first:last]]
            if not len(wanted):
                continue
            low, high = int(wanted[0]), int(wanted[-1]) + 1
            parts = self.collection.read_rows(self.table.name, range(low, high))
            some: Any = slice(None) if len(wanted) == high - low else wanted - low
            yield wanted, {name: array_of(part)[1][some] for name, part in parts.items()}

    def write(self, first: int, parts: Parts) -> None:
        """Gives rows from `first` on these values."""
        tensors = {
            name: tensor_of(values, self.whole.dtype if name == "weight" else "F32")
            for name, values in parts.items()
        }
        self.collection.write_rows(self.table.name, first, tensors)


def shards_of(embeddings: Embeddings, rank: int, ranks: int) -> list[Shard]:
    """This rank's parts of all tables. From now on their collections say which rows change."""
    found = []
    for collection, whole, copied in _collections(embeddings):
        places = {table.name: place for place, table in enumerate(collection.tables)}
        watches = Watches(
            [table.rows for table in collection.tables],
            [places[feature.table] for feature in collection.features],
        )
        collection.watch = watches
        for place, (table, watch) in enumerate(zip(collection.tables, watches.each, strict=True)):
            name = table.whole.table
            rows, dim = whole.get(name, (table.rows, table.dim))
            optimizer = collection.optimizer
            state = dict.fromkeys(optimizer.state, optimizer.by_row)
            stored = Stored(name, rows, dim, _STORED[table.dtype], state)
            mine = not copied or place % ranks == rank
            found.append(Shard(collection, table, watch, stored, mine))
    return found


def stored_tables(embeddings: Embeddings) -> list[Stored]:
    """All tables of the model, as they are stored, whichever ranks have them."""
    found = []
    for module in _modules(embeddings):
        tables = module.cores.tables if isinstance(module, TensorTrainCollection) else module.tables
        optimizer = (
            module.cores.optimizer
            if isinstance(module, TensorTrainCollection)
            else module.optimizer
        )
        state = dict.fromkeys(optimizer.state, optimizer.by_row)
        found += [
            Stored(each.name, each.rows, each.dim, _STORED[each.dtype], state) for each in tables
        ]
    return found


def steps_of(embeddings: Embeddings) -> int:
    """Updates of the tables so far. Adam's corrections and rounding by chance depend on it."""
    steps = [collection._engine.step for collection, _, _ in _collections(embeddings)]
    steps += [
        module._steps
        for module in _modules(embeddings)
        if isinstance(module, ShardedEmbeddingCollection)
    ]
    return max(steps)


def set_steps(embeddings: Embeddings, steps: int) -> None:
    """Sets `steps_of`."""
    for collection, _, _ in _collections(embeddings):
        collection._engine.step = steps
    for module in _modules(embeddings):
        if isinstance(module, ShardedEmbeddingCollection):
            module._steps = steps


def _modules(
    embeddings: Embeddings,
) -> list[EmbeddingCollection | ShardedEmbeddingCollection | TensorTrainCollection]:
    if isinstance(embeddings, SplitEmbeddings):
        plain = embeddings.plain
        assert isinstance(plain, EmbeddingCollection | ShardedEmbeddingCollection)
        return [plain, embeddings.trains]
    return [embeddings]


def _collections(
    embeddings: Embeddings,
) -> Iterator[tuple[EmbeddingCollection, dict[str, tuple[int, int]], bool]]:
    """This rank's collections, rows and columns of whole tables by name, and whether all ranks have
    the same."""
    for module in _modules(embeddings):
        if isinstance(module, TensorTrainCollection):
            yield module.cores, {}, True
        elif isinstance(module, ShardedEmbeddingCollection):
            sizes = module._sizes()
            for collection in module._held:
                yield collection, sizes, False
            for collection in module._copies:
                yield collection, sizes, True
        else:
            yield module, {}, False


def array_of(tensor: Tensor) -> tuple[str, NDArray[Any]]:
    """A tensor's type by its name in safetensors, and its elements; of bfloat16, their bits."""
    given = tensor.detach().cpu()
    name = _NAMES[given.dtype]
    if name == "BF16":
        return name, given.contiguous().view(torch.int16).numpy().view(np.uint16)
    return name, given.numpy()


def tensor_of(values: NDArray[Any], dtype: str) -> Tensor:
    """A tensor of elements of safetensors' type `dtype`."""
    given = np.ascontiguousarray(values).reshape(values.shape)  # Else a scalar becomes a row.
    if dtype == "BF16":
        return torch.from_numpy(given.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(given)
