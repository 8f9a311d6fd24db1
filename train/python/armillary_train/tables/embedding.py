"""Embedding tables as a module of torch. The optimizer is part of the backward pass, so no gradient
of a table's size ever exists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armillary import machine
from armillary.errors import InputError, Problem
from armillary.model.sharding_plan import TIERS

from .. import _train, profile_ranges
from ..compiler import opaque
from .batch import Keyed, SparseBatch, batch_of
from .caching import Caching, require_ranks
from .module import Given, TablesModule
from .optimizers import Optimizer
from .table import WIDTHS, Feature, Pooling, Table

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
"""Types of tables that are trained."""

BatchParts = tuple[Tensor, Tensor, Tensor | None]
"""Lengths, indices and weights, of types that an engine reads."""
_CHUNK = 2**26
"""Bytes of the rows that are written to a cached table at a time."""

_Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]
"""Lengths, indices and weights, as numpy arrays."""


class EmbeddingCollection(TablesModule):
    """Tables and the features that look them up, all in one call.

    Initial weights are uniform between plus and minus one by the root of a table's rows. They
    depend on the seed, the table's name, the row and the column only.
    """

    device = torch.device("cpu")
    """Where the tables are, and the results."""
    watch: Callable[[Any], None] | None = None
    """Gets the arrays of each batch before its rows change."""

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[Feature],
        optimizer: Optimizer,
        *,
        seed: int = 0,
        threads: int = 1,
        refuse_not_finite: bool = True,
        caching: Caching | None = None,
    ) -> None:
        """Tables with initial weights, or those of the checkpoint that `caching` goes on from.
        `refuse_not_finite` makes an infinite gradient, or one that is not a number, an error.
        `caching` is for tables that are not in memory (`Table.tier`).

        Raises:
            InputError: two tables have one name, or a feature names an unknown table; features with
                and without pooling; a table without rows or columns, of an unknown type, or too
                large for the memory; a seed out of range; too little memory for a cache; a folder
                that can't be used.
        """
        super().__init__()
        self.tables = tuple(tables)
        self.features = tuple(features)
        self.optimizer = optimizer
        places = {table.name: place for place, table in enumerate(self.tables)}
        require_valid(self.tables, self.features, seed)
        self._index = places
        self._cached = {each.name for each in self.tables if each.tier != "device"}
        caches = self._caches(caching)
        on_disk = caching is not None and any(each.tier == "disk" for each in self.tables)
        if caching is not None and caching.folder is not None:
            require_ranks(caching.folder, None)
        self._engine = _train.Embedding(
            [
                {**self._settings(table), **cache}
                for table, cache in zip(self.tables, caches, strict=True)
            ],
            [
                {"name": each.name, "table": places[each.table], "pooling": each.pooling}
                for each in self.features
            ],
            optimizer.settings(),
            seed,
            threads,
            {"folder": caching.folder, "resume": caching.resume} if caching and on_disk else None,
        )
        self._engine.refuse_not_finite = refuse_not_finite
        dims = [self.tables[places[each.table]].dim for each in self.features]
        self._unpooled = any(each.pooling == "none" for each in self.features)
        self._width = dims[0] if self._unpooled else sum(dims)
        self._weights: dict[str, Tensor] = {}
        self._state: dict[str, dict[str, Tensor]] = {}
        for place, table in enumerate(self.tables):
            if table.name not in self._cached:
                self._view(place, table)

    def _caches(self, caching: Caching | None) -> list[dict[str, Any]]:
        """Settings of the tables' caches."""
        if caching is not None:
            return caching.settings(
                self.tables, [numbers_of(self.optimizer, each) for each in self.tables]
            )
        if self._cached:
            said = "tables in slower memory or on disk, but no memory for their caches"
            raise InputError([Problem("", "tables", said, "--cache BYTES")])
        return [{} for _ in self.tables]

    def _settings(self, table: Table) -> dict[str, Any]:
        """A table's settings as the native engine reads them."""
        whole = table.whole
        return {
            "name": table.name,
            "rows": table.rows,
            "dim": table.dim,
            "dtype": table.dtype,
            "stochastic_rounding": table.stochastic_rounding,
            "whole": whole.table,
            "whole_rows": whole.rows,
            "first_row": whole.first_row,
            "first_column": whole.first_column,
        }

    def _view(self, place: int, table: Table) -> None:
        memory, state = self._engine.memory(place)
        if table.dtype == "int8":
            shape = (table.rows, table.dim + 8)
            self._weights[table.name] = torch.frombuffer(memory, dtype=torch.uint8).view(shape)
            self._state[table.name] = {}
            return
        rows = torch.frombuffer(memory, dtype=TYPES[table.dtype])
        self._weights[table.name] = rows.view(table.rows, table.dim)
        parts = [torch.frombuffer(part, dtype=torch.float32) for part in state]
        self._state[table.name] = {
            name: part if self.optimizer.by_row else part.view(table.rows, table.dim)
            for name, part in zip(self.optimizer.state, parts, strict=True)
        }

    def forward(self, sparse: SparseBatch | Keyed) -> Tensor:
        """The pooled rows of all features side by side, float32 [samples, sum of dims]; without
        pooling the rows of all lookups, float32 [lookups, dim].

        Raises:
            InputError: a negative length, lengths that do not add up, an index out of range, a
                weight that is not finite. It names table, feature and sample.
        """
        return _lookup(self, batch_of(sparse, self.features))

    def weight(self, table: str) -> Tensor:
        """The rows of a table [rows, dim]; a view of the engine's memory, or a copy if the table
        has a cache. Of `int8` tables, the bytes [rows, dim + 8], with a float32 scale and offset at
        the end of each row.

        Raises:
            InputError: the table has a cache, and no room in memory.
        """
        return self.parts(table)["weight"]

    def state(self, table: str) -> dict[str, Tensor]:
        """The optimizer's state of a table, by name; views or copies as of `weight`."""
        return {name: part for name, part in self.parts(table).items() if name != "weight"}

    def parts(self, table: str) -> dict[str, Tensor]:
        """`weight` and `state` together. Raises as `weight`."""
        if table not in self._cached:
            return {"weight": self._weights[table], **self._state[table]}
        found = self.tables[self._index[table]]
        _require_memory(found, self._record(found).itemsize)
        return self.read_rows(table, range(found.rows))

    def read_rows(self, table: str, rows: range) -> dict[str, Tensor]:
        """Copies of rows that follow each other: `weight` and the parts of the optimizer's state.
        Of a table with a cache, these are the rows as they are in the slower tier.

        Raises:
            InputError: the table does not have these rows; a disk fails.
        """
        self._require_rows(table, rows)
        if table not in self._cached:
            parts = {"weight": self._weights[table], **self._state[table]}
            return {name: part[rows.start : rows.stop].clone() for name, part in parts.items()}
        found = self.tables[self._index[table]]
        records = np.empty(len(rows), self._record(found))
        self._engine.read_rows(self._index[table], rows.start, records.view(np.uint8))
        parts = {}
        for name, shape in self._shapes(found).items():
            part = torch.from_numpy(np.ascontiguousarray(records[name]))
            parts[name] = part.view(self._type(found, name)).view(len(rows), *shape[1:])
        return parts

    def write_rows(self, table: str, first: int, parts: Mapping[str, Tensor]) -> None:
        """Gives rows from `first` on the values that `read_rows` gives.

        Raises:
            InputError: the table does not have these rows; parts that are missing or have another
                shape; a disk fails.
        """
        self._require_parts(table, first, parts)
        if table not in self._cached:
            count = len(parts["weight"])
            for name, part in {"weight": self._weights[table], **self._state[table]}.items():
                part[first : first + count] = parts[name]
            return
        found = self.tables[self._index[table]]
        record = self._record(found)
        count = max(1, _CHUNK // record.itemsize)
        for start in range(0, len(parts["weight"]), count):
            some = {name: part[start : start + count] for name, part in parts.items()}
            records = np.empty(len(some["weight"]), record)
            for name, part in some.items():
                values = part.to(self._type(found, name)).contiguous().view(len(part), -1)
                records[name] = values.view(torch.uint8).numpy()
            self._engine.write_rows(self._index[table], first + start, records.view(np.uint8))

    def _require_rows(self, table: str, rows: range) -> None:
        most = self.tables[self._index[table]].rows
        if rows.step != 1 or not 0 <= rows.start <= rows.stop <= most:
            allowed = f"rows that follow each other, of 0 to {most - 1:,}"
            raise InputError([Problem("", f"table {table!r}", f"no such rows: {rows}", allowed)])

    def _require_parts(self, table: str, first: int, parts: Mapping[str, Tensor]) -> None:
        count = len(parts["weight"]) if "weight" in parts else 0
        self._require_rows(table, range(first, first + count))
        shapes = self._shapes(self.tables[self._index[table]])
        expected = {name: [count, *shape[1:]] for name, shape in shapes.items()}
        found = {name: list(part.shape) for name, part in parts.items()}
        if found != expected:
            said = f"parts of the shapes {found}"
            raise InputError([Problem("", f"table {table!r}", said, f"{expected}")])

    def _record(self, table: Table) -> np.dtype[Any]:
        """A row's weights and state, as bytes."""
        fields = []
        for name, shape in self._shapes(table).items():
            width = torch.empty(0, dtype=self._type(table, name)).element_size()
            fields.append((name, np.uint8, (width * math.prod(shape[1:]),)))
        return np.dtype(fields)

    def _type(self, table: Table, name: str) -> torch.dtype:
        """The type of a table's weights or state."""
        if name != "weight":
            return torch.float32
        return torch.uint8 if table.dtype == "int8" else TYPES[table.dtype]

    def prefetch(self, sparse: SparseBatch) -> None:
        """Begins to bring the rows of the next batch into the caches, while the current one goes
        on. It changes no result, unless caches round. Raises `InputError` as `forward`."""
        if self._cached:
            self._engine.prefetch(sparse.samples, self._arrays(batch_parts(sparse)))

    @property
    def is_cached(self) -> bool:
        """Whether a table has a cache."""
        return bool(self._cached)

    @property
    def is_on_disk(self) -> bool:
        """Whether all tables are on a disk, so that `checkpoint` can be called."""
        return all(table.tier == "disk" for table in self.tables)

    def settle(self) -> None:
        """Waits until caches read and write nothing in the background.

        Raises:
            InputError: a disk failed, now or before.
        """
        self._engine.settle()

    def checkpoint(self) -> None:
        """Makes the tables, as they are now, the checkpoint of their folder.

        Raises:
            InputError: a table is not on a disk; the disk fails. The last checkpoint is intact.
        """
        self._engine.commit()

    def cache_report(self) -> dict[str, int | float]:
        """Counts of the caches so far, bytes and seconds."""
        return self._engine.cache_report() if self._cached else {}

    def set_learning_rate(self, rate: float) -> None:
        """Sets the learning rate of the steps to come. Raises `InputError`: not a finite number
        from 0."""
        if not 0 <= rate < math.inf:
            replace(self.optimizer, learning_rate=rate)  # Says what is wrong.
        self._engine.learning_rate = rate

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads. It changes no result."""
        self._engine.threads = threads

    def _arrays(self, parts: BatchParts) -> _Arrays:
        """A batch as the engine reads it."""
        lengths, indices, weights = parts
        return lengths.numpy(), indices.numpy(), None if weights is None else weights.numpy()

    def _run_forward(self, samples: int, arrays: _Arrays, into: Tensor | None = None) -> Tensor:
        out = self._empty(samples, arrays) if into is None else into
        with profile_ranges.part("embedding.forward"):
            self._engine.forward(samples, arrays, out.numpy())
        return out

    def row_sums(
        self, samples: int, arrays: _Arrays, grad: Tensor, round_of_table: tuple[int, int]
    ) -> tuple[Any, Tensor]:
        """For a table with some columns of whole rows: the rows that this gradient changes, and the
        sums over its columns that a round of the optimizer needs, float32, one or two numbers of
        each row. `round_of_table`: the table, and which round."""
        gradient = grad.detach().to(torch.float32).contiguous().numpy()
        rows = self._engine.row_sums(samples, arrays, gradient, round_of_table)
        sums = torch.empty(len(rows))
        rows.write(sums.numpy())
        return rows, sums

    def set_row_sums(self, table: int, columns: int, rows: Any, total: Tensor) -> None:  # noqa: ANN401
        """Gives `rows` of `row_sums` the sums over all `columns` columns, for further rounds and
        the next backward pass."""
        rows.replace(total.numpy())
        self._engine.set_row_sums(table, columns, rows)

    def _empty(self, samples: int, arrays: _Arrays) -> Tensor:
        """Room for the result of a batch."""
        shape = (len(arrays[1]) if self._unpooled else samples, self._width)
        size = math.prod(shape)
        if size == 0 or self.device.type != "cpu":
            return torch.empty(shape, device=self.device)
        flat = torch.frombuffer(self._engine.room(4 * size), dtype=torch.float32, count=size)
        # Not a view of `flat`, because torch refuses to change those in place.
        return torch.from_numpy(flat.numpy().reshape(shape))

    def _run_backward(
        self,
        samples: int,
        arrays: _Arrays,
        grad: Tensor,
        weights: Tensor | None,
        *,
        update: bool = True,
    ) -> None:
        """Writes the gradients of weights, if asked, and changes the rows unless not to `update`
        them."""
        gradient = grad.detach().to(torch.float32).contiguous().numpy()
        into = None if weights is None else weights.numpy()
        if not update:
            if into is not None:
                self._engine.weight_gradients(samples, arrays, gradient, into)
            return
        if self.watch is not None:
            self.watch(arrays)
        with profile_ranges.part("embedding.weight_gradient"):
            self._engine.backward(samples, arrays, gradient, into)

    def _shapes(self, table: Table) -> dict[str, torch.Size]:
        """Shapes of a table's weights and state."""
        if table.dtype == "int8":
            return {"weight": torch.Size((table.rows, table.dim + 8))}
        state = (table.rows,) if self.optimizer.by_row else (table.rows, table.dim)
        shapes = {name: torch.Size(state) for name in self.optimizer.state}
        return {"weight": torch.Size((table.rows, table.dim)), **shapes}

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for table in self.tables:
            for name, part in self.parts(table.name).items():
                destination[f"{prefix}{table.name}.{name}"] = part
        destination[f"{prefix}step"] = torch.tensor(self._engine.step)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        shapes = {
            f"{prefix}{table.name}.{name}": shape
            for table in self.tables
            for name, shape in self._shapes(table).items()
        }
        step = f"{prefix}step"
        found = {key for key in state_dict if key.startswith(prefix)}
        missing_keys += sorted({*shapes, step} - found)
        unexpected_keys += sorted(found - {*shapes, step})
        fits = True
        for key, shape in shapes.items():
            if key in found and state_dict[key].shape != shape:
                said = f"{list(state_dict[key].shape)}, expected {list(shape)}"
                error_msgs.append(f"{key} has the shape {said}")
            fits = fits and key in found and state_dict[key].shape == shape
        for table in self.tables if fits else ():
            names = self._shapes(table)
            parts = {name: state_dict[f"{prefix}{table.name}.{name}"] for name in names}
            self.write_rows(table.name, 0, parts)
        if step in found:
            self._engine.step = int(state_dict[step])


def numbers_of(optimizer: Optimizer, table: Table) -> int:
    """Numbers of the state of a row of a table."""
    if table.dtype == "int8":
        return 0
    return len(optimizer.state) * (1 if optimizer.by_row else table.dim)


def _require_memory(table: Table, record: int) -> None:
    """Refuses to copy a table, with this many bytes a row, that memory has no room for."""
    whole, free = table.rows * record, machine.available()
    if free is not None and whole > free:
        said = f"a copy needs {whole / 2**30:,.1f} GiB of memory"
        allowed = (
            f"at most {free / 2**30:,.1f} GiB, which is available; checkpoint() and read_rows() "
            "need less"
        )
        raise InputError([Problem("", f"table {table.name!r}", said, allowed)])


def require_valid(tables: Sequence[Table], features: Sequence[Feature], seed: int) -> None:
    """Raises `InputError` listing what tables, features and a seed can't be."""
    problems = []
    if not 0 <= seed < 2**64:
        problems.append(Problem("", "seed", f"{seed} is out of range", "0 to 2^64 - 1"))
    for kind, all_of in (("table", tables), ("feature", features)):
        counts = Counter(each.name for each in all_of)
        problems += [
            Problem("", f"{kind} {name!r}", f"{count} {kind}s have this name")
            for name, count in counts.items()
            if count > 1
        ]
    names = {table.name for table in tables}
    problems += [
        Problem("", f"feature {each.name!r}", f"unknown table {each.table!r}", ", ".join(names))
        for each in features
        if each.table not in names
    ]
    if not features:
        problems.append(Problem("", "features", "a collection without features"))
    problems += [problem for table in tables for problem in _table_problems(table)]
    kinds = get_args(Pooling)
    problems += [
        Problem("", f"feature {each.name!r}", f"unknown pooling {each.pooling!r}", ", ".join(kinds))
        for each in features
        if each.pooling not in kinds
    ]
    if problems:
        raise InputError(problems)


def _table_problems(table: Table) -> Iterator[Problem]:
    place = f"table {table.name!r}"
    for value, said, bits in (
        (table.rows, f"{table.rows} rows", 48),
        (table.dim, f"rows of {table.dim} elements", 16),
    ):
        if not isinstance(value, Integral) or not 1 <= value <= 2**bits:
            yield Problem("", place, said, f"1 to 2^{bits}")
    if table.tier not in TIERS:
        yield Problem("", place, f"unknown tier {table.tier!r}", ", ".join(TIERS))
    if table.dtype not in WIDTHS:
        yield Problem("", place, f"unknown type {table.dtype!r}", ", ".join(WIDTHS))


@opaque
def _lookup(collection: EmbeddingCollection, sparse: SparseBatch) -> Tensor:
    """Looks up a batch; with gradients, if torch records them."""
    arrays = collection._arrays(batch_parts(sparse))
    if not torch.is_grad_enabled():
        return collection._run_forward(sparse.samples, arrays)
    result = _Lookup.apply(collection.anchor, sparse.weights, collection, sparse, arrays)
    assert isinstance(result, Tensor)
    return result


def batch_parts(sparse: SparseBatch) -> BatchParts:
    """Lengths, indices and weights of a batch. Raises `InputError`: a tensor of another type, or
    lengths of another shape."""

    def part(name: str, tensor: Tensor, *types: torch.dtype) -> Tensor:
        if tensor.dtype not in types:
            allowed = " or ".join(map(str, types))
            raise InputError([Problem("", f"batch: {name}", f"type {tensor.dtype}", allowed)])
        return tensor.detach().contiguous()

    integers = (torch.int32, torch.int64)
    if sparse.lengths.dim() != 2:
        shape = f"shape {list(sparse.lengths.shape)}"
        raise InputError([Problem("", "batch: lengths", shape, "[features, samples]")])
    return (
        part("lengths", sparse.lengths, *integers),
        part("indices", sparse.indices, *integers),
        None if sparse.weights is None else part("weights", sparse.weights, torch.float32),
    )


class _Context(Protocol):
    """Common part of the two halves of a lookup."""

    collection: EmbeddingCollection
    samples: int
    arrays: Any
    given: Given
    home: torch.device | None
    needs_input_grad: tuple[bool, ...]


class _Lookup(torch.autograd.Function):
    """The lookup as torch's autograd sees it. The anchor, an empty tensor with a gradient, makes
    torch call `backward`, because the tables are not tensors with gradients."""

    @staticmethod
    def forward(
        ctx: _Context,
        anchor: Tensor,
        weights: Tensor | None,
        collection: EmbeddingCollection,
        sparse: SparseBatch,
        arrays: Any,  # noqa: ANN401 - what the collection's engine reads
    ) -> Tensor:
        ctx.collection, ctx.samples, ctx.arrays = collection, sparse.samples, arrays
        ctx.given = Given(sparse)
        ctx.home = None if weights is None else weights.device
        return collection._run_forward(sparse.samples, arrays)

    @staticmethod
    def backward(ctx: _Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ctx.given.require_same()
        update, of_weights = ctx.needs_input_grad[:2]
        weights = None
        if of_weights:
            weights = torch.empty(len(ctx.arrays[1]), device=ctx.collection.device)
        ctx.collection._run_backward(ctx.samples, ctx.arrays, gradients[0], weights, update=update)
        return None, None if weights is None else weights.to(ctx.home), None, None, None
