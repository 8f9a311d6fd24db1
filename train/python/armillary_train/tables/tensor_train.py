"""Embedding tables as trains of tensors, which need a small part of a table's memory.

Here: lookups, gradients and updates of cores, and a model's features shared out to tables and
trains. Not here: shapes (`tensor_train_shapes.py`).

Model (Yin et al., TT-Rec, MLSys 2021, sections 3 and 4). With the rows that a batch looks up, each
once:

    look up   slices of the cores by the digits of the rows; batched products of matrices
    pool      the rows of each bag
    backward  the exact gradient of each core, which is as small as the core
    update    slices that were looked up, once, by the optimizer of tables

The cores are tables of the engine, a slice a row. So all optimizers of tables work on them, and
row-wise AdaGrad has one state for each slice. With several processes, all of them have all cores,
and the gradients of cores are added up over processes before the update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from armillary.errors import InputError, Problem

from .. import _train
from ..compiler import opaque
from .batch import Keyed, SparseBatch, batch_of
from .embedding import EmbeddingCollection, batch_parts
from .module import Given, TablesModule
from .optimizers import Optimizer
from .table import Feature, Table
from .tensor_train_shapes import Shape


class Embeddings(Protocol):
    """Tables in one process, or a rank's part of them."""

    def __call__(self, sparse: SparseBatch) -> Any: ...  # noqa: ANN401, D102 - a module's
    def set_learning_rate(self, rate: float) -> None: ...  # noqa: D102
    def set_threads(self, threads: int) -> None: ...  # noqa: D102


Add = Callable[[Tensor], object]
"""Adds up a tensor over all processes, in place."""

_TAIL = 2.0
"""Numbers nearer to zero than this are not drawn; TT-Rec's sampled Gaussian (section 3.2)."""


class TensorTrainCollection(TablesModule):
    """Tables that are trains of tensors, and their features; as `EmbeddingCollection`.

    Rows start about normal, with the variance of `EmbeddingCollection`'s uniform weights: 1 / (3
    rows). They depend on the seed and the table's name only.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        features: Sequence[Feature],
        optimizer: Optimizer,
        *,
        seed: int = 0,
        threads: int = 1,
        refuse_not_finite: bool = True,
        add: Add | None = None,
        make: Callable[..., EmbeddingCollection] = EmbeddingCollection,
    ) -> None:
        """Cores with initial weights. `make` makes the tables that the cores are; `add` adds up
        over processes.

        Raises:
            InputError: as `EmbeddingCollection`.
        """
        super().__init__()
        # Tables of one row each check features.
        stubs = [Table(shape.table, 1, shape.dim) for shape in shapes]
        EmbeddingCollection(stubs, features, optimizer)
        self.shapes = {shape.table: shape for shape in shapes}
        self.features = tuple(features)
        self._add, self._finite_only = add, refuse_not_finite
        cores = [
            Table(f"{shape.table}.core{number}", rows, width)
            for shape in shapes
            for number, (rows, width) in enumerate(
                zip(shape.row_factors, shape.slices, strict=True)
            )
        ]
        self.cores = make(
            cores,
            [Feature(core.name, core.name) for core in cores],
            optimizer,
            seed=seed,
            refuse_not_finite=False,
        )
        self.set_threads(threads)
        self.device = self.cores.device
        for shape in shapes:
            _fill(shape, self._of(shape), seed)

    def forward(self, sparse: SparseBatch | Keyed) -> Tensor:
        """The pooled rows of all features side by side, float32 [samples, sum of dims]; without
        pooling the rows of all lookups, float32 [lookups, dim]. Raises as `EmbeddingCollection`."""
        return _lookup(self, batch_of(sparse, self.features))

    def whole(self, table: str) -> Tensor:
        """All rows of a table, float32 [rows, dim]."""
        shape = self.shapes[table]
        rows = torch.arange(shape.rows, device=self.device)
        return _rows(shape, self._of(shape), _digits(shape, rows))

    def set_learning_rate(self, rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        self.cores.set_learning_rate(rate)

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads of the update. It changes no result."""
        self.cores.set_threads(threads)

    def _of(self, shape: Shape) -> list[Tensor]:
        """The cores of a table [slices, elements of a slice]; views of the engine's memory."""
        count = len(shape.row_factors)
        return [self.cores.weight(f"{shape.table}.core{number}") for number in range(count)]

    def _check(self, sparse: SparseBatch) -> None:
        lengths, indices, weights = (
            None if part is None else part.cpu() for part in batch_parts(sparse)
        )
        assert lengths is not None
        assert indices is not None
        arrays = (lengths.numpy(), indices.numpy(), None if weights is None else weights.numpy())
        expected = [
            (each.name, each.table, self.shapes[each.table].rows, each.pooling == "sum")
            for each in self.features
        ]
        _train.check_batch(sparse.samples, arrays, expected)

    def _pooled(
        self, sparse: SparseBatch, cores: Mapping[str, list[Tensor]], weights: Tensor | None
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """The result of a batch, and which slices of each core it needs."""
        lengths, indices = sparse.lengths.to(self.device), sparse.indices.to(self.device)
        counts = lengths.sum(1).tolist()
        of_feature = list(torch.split(indices, counts))
        parts = [None] * len(counts) if weights is None else list(torch.split(weights, counts))
        found: list[Tensor] = [indices] * len(counts)
        digits = {}
        for name, shape in self.shapes.items():
            places = [at for at, each in enumerate(self.features) if each.table == name]
            joined = torch.cat([of_feature[at] for at in places])
            unique, inverse = torch.unique(joined, return_inverse=True)
            digits[name] = _digits(shape, unique)
            rows = _rows(shape, cores[name], digits[name])
            split = torch.split(inverse, [counts[at] for at in places])
            for at, of in zip(places, split, strict=True):
                found[at] = _pool(self.features[at], rows, of, lengths[at], parts[at])
        unpooled = self.features[0].pooling == "none"
        return torch.cat(found, 0 if unpooled else 1), digits

    def _update(
        self, digits: Mapping[str, list[Tensor]], gradients: Mapping[str, list[Tensor]]
    ) -> None:
        """Changes the slices that were looked up by the sums of their gradients."""
        most = max(core.rows for core in self.cores.tables)
        widths = [core.dim for core in self.cores.tables]
        whole = torch.zeros(most * sum(widths) + most * len(widths), device=self.device)
        gradient = whole[: most * sum(widths)].view(most, -1)
        looked_up = whole[most * sum(widths) :].view(len(widths), most)
        at = first = 0
        for name in self.shapes:
            for digit, core in zip(digits[name], gradients[name], strict=True):
                looked_up[at, digit] = 1
                gradient[: len(core), first : first + widths[at]] = core
                at, first = at + 1, first + widths[at]
        if self._add is not None:
            self._add(whole)
        lengths = (looked_up > 0).to(torch.int64)
        batch = SparseBatch(lengths, lengths.nonzero()[:, 1].contiguous())
        arrays = self.cores._arrays((batch.lengths, batch.indices, None))
        self.cores._run_backward(most, arrays, gradient, None)

    def _require_finite(self, gradient: Tensor) -> None:
        if not self._finite_only or bool(gradient.isfinite().all()):
            return
        row, column = (~gradient.isfinite()).nonzero()[0].tolist()
        place, width = f"lookup {row}", 0
        for each in self.features if self.features[0].pooling != "none" else ():
            width += self.shapes[each.table].dim
            if column < width:
                place = f'feature "{each.name}": sample {row}'
                break
        said = f"{gradient[row, column].item()} in the gradient"
        raise InputError([Problem("", f"gradient: {place}", said, "finite numbers")])


class SplitEmbeddings(torch.nn.Module):
    """The pooled features of a model, some of them of trains of tensors."""

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[Feature],
        plain: Embeddings,
        trains: TensorTrainCollection,
    ) -> None:
        """`plain` and `trains` have the features that are theirs, in the order of `features`;
        `tables` are those of all."""
        super().__init__()
        self.plain, self.trains, self.features = plain, trains, tuple(features)
        dims = {table.name: table.dim for table in tables}
        self._widths = [dims[each.table] for each in features]
        mine = [each.table in trains.shapes for each in features]
        self._mine = [at for at, is_mine in enumerate(mine) if is_mine]
        self._others = [at for at, is_mine in enumerate(mine) if not is_mine]

    def forward(self, sparse: SparseBatch | Keyed) -> Tensor:
        """The pooled rows of all features side by side. Raises as `EmbeddingCollection`."""
        batch = batch_of(sparse, self.features)
        found: list[Tensor] = [batch.lengths] * len(self._widths)
        for module, places in ((self.plain, self._others), (self.trains, self._mine)):
            pooled: Tensor = module(_some(batch, places))
            widths = [self._widths[at] for at in places]
            for at, part in zip(places, torch.split(pooled, widths, 1), strict=True):
                found[at] = part
        return torch.cat(found, 1)

    def set_learning_rate(self, rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        self.plain.set_learning_rate(rate)
        self.trains.set_learning_rate(rate)

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads. It changes no result."""
        self.plain.set_threads(threads)
        self.trains.set_threads(threads)


def _some(sparse: SparseBatch, features: list[int]) -> SparseBatch:
    """The bags of some features."""
    counts = sparse.lengths.sum(1).tolist()
    if sum(counts) != len(sparse.indices) or min(counts, default=0) < 0:
        return sparse  # Whoever looks it up says what is wrong.
    weights = None
    if sparse.weights is not None:
        parts = torch.split(sparse.weights, counts)
        weights = torch.cat([parts[at] for at in features])
    indices = torch.split(sparse.indices, counts)
    chosen = torch.cat([indices[at] for at in features])
    return SparseBatch(sparse.lengths[features], chosen, weights)


def _digits(shape: Shape, rows: Tensor) -> list[Tensor]:
    """The digits of numbers of rows, the first one of the most worth, int64 [rows] each."""
    found, rows = [], rows.to(torch.int64)
    for base in reversed(shape.row_factors[1:]):
        found.append(rows % base)
        rows = rows // base
    return [rows, *reversed(found)]


def _rows(shape: Shape, cores: Sequence[Tensor], digits: Sequence[Tensor]) -> Tensor:
    """Products of slices: float32 [rows, dim]."""
    count, bounds = len(digits[0]), shape.bounds
    product = cores[0].index_select(0, digits[0]).view(count, shape.dim_factors[0], bounds[1])
    for core, digit, before, after in zip(
        cores[1:], digits[1:], bounds[1:], bounds[2:], strict=False
    ):
        slices = core.index_select(0, digit).view(count, before, -1)
        product = torch.bmm(product, slices)
        product = product.view(count, math.prod(product.shape[1:]) // after, after)
    return product.view(count, shape.dim)


def _pool(
    feature: Feature, rows: Tensor, inverse: Tensor, lengths: Tensor, weights: Tensor | None
) -> Tensor:
    """The bags of a feature, from rows [unique, dim] and where each lookup finds its row."""
    if feature.pooling == "none":
        return rows.index_select(0, inverse)
    starts = lengths.to(torch.int64).cumsum(0) - lengths
    if not len(rows):
        return rows.new_zeros(len(lengths), rows.shape[1]) + rows.sum()
    return torch.nn.functional.embedding_bag(
        inverse, rows, starts, mode=feature.pooling, per_sample_weights=weights
    )


def _fill(shape: Shape, cores: Sequence[Tensor], seed: int) -> None:
    """TT-Rec's sampled Gaussian: normal numbers that are not near zero, so that their products are
    not either, scaled to the variance of a row."""
    outside = 0.5 * math.erfc(_TAIL / math.sqrt(2))
    density = math.exp(-(_TAIL**2) / 2) / math.sqrt(2 * math.pi)
    square = 1 + _TAIL * density / outside
    terms = math.prod(shape.ranks)
    variance = (1 / (3 * shape.rows * terms)) ** (1 / len(cores))
    for number, core in enumerate(cores):
        random = np.random.default_rng([seed, number, *shape.table.encode()])
        drawn = torch.from_numpy(random.random(core.numel()))
        signs = torch.from_numpy(random.integers(0, 2, core.numel())) * 2 - 1
        values = -torch.special.ndtri(outside * (1 - drawn)) * signs * math.sqrt(variance / square)
        core.copy_(values.view(core.shape))


@opaque
def _lookup(collection: TensorTrainCollection, sparse: SparseBatch) -> Tensor:
    """Looks up a batch; with gradients, if torch records them."""
    collection._check(sparse)
    if not torch.is_grad_enabled():
        cores = {name: collection._of(shape) for name, shape in collection.shapes.items()}
        weights = None if sparse.weights is None else sparse.weights.to(collection.device)
        return collection._pooled(sparse, cores, weights)[0]
    result = _Lookup.apply(collection.anchor, sparse.weights, collection, sparse)
    assert isinstance(result, Tensor)
    return result


class _Context(Protocol):
    """Common part of the two halves of a lookup."""

    collection: TensorTrainCollection
    given: Given
    cores: dict[str, list[Tensor]]
    digits: dict[str, list[Tensor]]
    weights: Tensor | None
    home: torch.device | None
    pooled: Tensor
    needs_input_grad: tuple[bool, ...]


class _Lookup(torch.autograd.Function):
    """The lookup as torch's autograd sees it. Its own graph, from cores to result, is kept for the
    backward pass, which updates the cores."""

    @staticmethod
    def forward(
        ctx: _Context,
        anchor: Tensor,
        weights: Tensor | None,
        collection: TensorTrainCollection,
        sparse: SparseBatch,
    ) -> Tensor:
        with torch.enable_grad():
            ctx.cores = {
                name: [core.detach().requires_grad_() for core in collection._of(shape)]
                for name, shape in collection.shapes.items()
            }
            ctx.weights = ctx.home = None
            if weights is not None:
                ctx.home = weights.device
                ctx.weights = weights.detach().to(collection.device).requires_grad_()
            ctx.pooled, ctx.digits = collection._pooled(sparse, ctx.cores, ctx.weights)
        ctx.collection, ctx.given = collection, Given(sparse)
        return ctx.pooled.detach()

    @staticmethod
    def backward(ctx: _Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ctx.given.require_same()
        ctx.collection._require_finite(gradients[0])
        update, of_weights = ctx.needs_input_grad[:2]
        leaves = [core for cores in ctx.cores.values() if update for core in cores]
        if ctx.weights is not None and of_weights:
            leaves.append(ctx.weights)
        found = list(torch.autograd.grad(ctx.pooled, leaves, gradients[0]))
        if update:
            of_cores = {name: [found.pop(0) for _ in cores] for name, cores in ctx.cores.items()}
            ctx.collection._update(ctx.digits, of_cores)
        return None, found[0].to(ctx.home) if found else None, None, None
