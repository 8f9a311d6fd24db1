"""Embedding tables as a module of torch. The optimizer is part of the backward pass, so no gradient
of a table's size ever exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from armillary import _core
from armillary.errors import InputError, Problem
from armillary.trainer.batch import SparseBatch
from armillary.trainer.optimizers import Optimizer
from armillary.trainer.tables import Feature, Table

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
"""Types of tables that are trained."""

BatchParts = tuple[Tensor, Tensor, Tensor | None]
"""Lengths, indices and weights, of types that an engine reads."""
_Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]
"""Lengths, indices and weights, as numpy arrays."""


class EmbeddingCollection(torch.nn.Module):
    """Tables and the features that look them up, all in one call.

    Initial weights are uniform between plus and minus one by the root of a table's rows. They
    depend on the seed, the table's name, the row and the column only.
    """

    device = torch.device("cpu")
    """Where the tables are, and the results."""

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[Feature],
        optimizer: Optimizer,
        *,
        seed: int = 0,
        threads: int = 1,
        refuse_not_finite: bool = True,
    ) -> None:
        """Tables with initial weights. `refuse_not_finite` makes an infinite gradient, or one that
        is not a number, an error.

        Raises:
            InputError: two tables have one name, or a feature names an unknown table; features with
                and without pooling; a table without rows or columns, or too large for the memory.
        """
        super().__init__()
        self.tables = tuple(tables)
        self.features = tuple(features)
        self.optimizer = optimizer
        places = {table.name: place for place, table in enumerate(self.tables)}
        _check(self.tables, self.features)
        self._engine = _core.Embedding(
            [self._settings(table) for table in self.tables],
            [
                {"name": each.name, "table": places[each.table], "pooling": each.pooling}
                for each in self.features
            ],
            optimizer.settings(),
            seed,
            threads,
        )
        self._engine.refuse_not_finite = refuse_not_finite
        dims = [self.tables[places[each.table]].dim for each in self.features]
        self._unpooled = any(each.pooling == "none" for each in self.features)
        self._width = dims[0] if self._unpooled else sum(dims)
        self._weights: dict[str, Tensor] = {}
        self._state: dict[str, dict[str, Tensor]] = {}
        for place, table in enumerate(self.tables):
            self._view(place, table)

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

    def forward(self, sparse: SparseBatch) -> Tensor:
        """The pooled rows of all features side by side, float32 [samples, sum of dims]; without
        pooling the rows of all lookups, float32 [lookups, dim].

        Raises:
            InputError: a negative length, lengths that do not add up, an index out of range, a
                weight that is not finite. It names table, feature and sample.
        """
        return _opaque_lookup(self, sparse)

    def weight(self, table: str) -> Tensor:
        """The rows of a table [rows, dim]; a view of the engine's memory. Of `int8` tables, the
        bytes [rows, dim + 8], with a float32 scale and offset at the end of each row."""
        return self._weights[table]

    def state(self, table: str) -> dict[str, Tensor]:
        """The optimizer's state of a table, by name; views of the engine's memory."""
        return dict(self._state[table])

    def set_learning_rate(self, rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        self._engine.learning_rate = rate

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads. It changes no result."""
        self._engine.threads = threads

    def _arrays(self, parts: BatchParts) -> _Arrays:
        """A batch as the engine reads it."""
        lengths, indices, weights = parts
        return lengths.numpy(), indices.numpy(), None if weights is None else weights.numpy()

    def _run_forward(self, samples: int, arrays: _Arrays) -> Tensor:
        rows = arrays[1].size if self._unpooled else samples
        out = torch.empty(rows, self._width)
        self._engine.forward(samples, arrays, out.numpy())
        return out

    def _run_backward(
        self, samples: int, arrays: _Arrays, grad: Tensor, weights: Tensor | None
    ) -> None:
        gradient = grad.detach().to(torch.float32).contiguous().numpy()
        into = None if weights is None else weights.numpy()
        self._engine.backward(samples, arrays, gradient, into)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for table in self.tables:
            destination[f"{prefix}{table.name}.weight"] = self._weights[table.name]
            for name, part in self._state[table.name].items():
                destination[f"{prefix}{table.name}.{name}"] = part
        destination[f"{prefix}step"] = torch.tensor(self._engine.step)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        expected = {
            f"{prefix}{table.name}.{name}": part
            for table in self.tables
            for name, part in {
                "weight": self._weights[table.name],
                **self._state[table.name],
            }.items()
        }
        step = f"{prefix}step"
        found = {key for key in state_dict if key.startswith(prefix)}
        missing_keys += sorted({*expected, step} - found)
        unexpected_keys += sorted(found - {*expected, step})
        for key, part in expected.items():
            if key not in found:
                continue
            if state_dict[key].shape != part.shape:
                shapes = f"{list(state_dict[key].shape)}, expected {list(part.shape)}"
                error_msgs.append(f"{key} has the shape {shapes}")
                continue
            part.copy_(state_dict[key])
        if step in found:
            self._engine.step = int(state_dict[step])


def _check(tables: Sequence[Table], features: Sequence[Feature]) -> None:
    problems = []
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
    if problems:
        raise InputError(problems)


def _lookup(collection: EmbeddingCollection, sparse: SparseBatch) -> Tensor:
    """Looks up a batch; with gradients, if torch records them."""
    arrays = collection._arrays(batch_parts(sparse))
    if not torch.is_grad_enabled():
        return collection._run_forward(sparse.samples, arrays)
    anchor = torch.empty(0, device=collection.device, requires_grad=True)
    result = _Lookup.apply(anchor, sparse.weights, collection, sparse.samples, arrays)
    assert isinstance(result, Tensor)
    return result


_opaque_lookup: Callable[[EmbeddingCollection, SparseBatch], Tensor]
_opaque_lookup = torch.compiler.disable(_lookup)  # type: ignore[no-untyped-call]
"""`_lookup`, which `torch.compile` calls and does not look into."""


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
    """What the two halves of a lookup have in common."""

    collection: EmbeddingCollection
    samples: int
    arrays: Any
    home: torch.device | None
    needs_input_grad: tuple[bool, ...]


class _Lookup(torch.autograd.Function):
    """The lookup as torch's autograd sees it. An empty tensor with a gradient makes torch call
    `backward`, because the tables are not tensors with gradients."""

    @staticmethod
    def forward(
        ctx: _Context,
        anchor: Tensor,
        weights: Tensor | None,
        collection: EmbeddingCollection,
        samples: int,
        arrays: Any,  # noqa: ANN401 - what the collection's engine reads
    ) -> Tensor:
        ctx.collection, ctx.samples, ctx.arrays = collection, samples, arrays
        ctx.home = None if weights is None else weights.device
        return collection._run_forward(samples, arrays)

    @staticmethod
    def backward(ctx: _Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weights = None
        if ctx.needs_input_grad[1]:
            weights = torch.empty(len(ctx.arrays[1]), device=ctx.collection.device)
        ctx.collection._run_backward(ctx.samples, ctx.arrays, gradients[0], weights)
        return None, None if weights is None else weights.to(ctx.home), None, None, None
