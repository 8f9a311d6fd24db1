"""Kernels of GPUs against the engine on processors. `test_gpu.py` runs this in a process of its
own, in Triton's interpreter."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from embedding_reference import Case, Reference
from hypothesis import given, settings
from hypothesis import strategies as st
from test_embedding import close, made, taken

from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary.trainer import loop
from armillary.trainer.batch import SparseBatch
from armillary.trainer.data import open_data
from armillary.trainer.embedding import EmbeddingCollection
from armillary.trainer.gpu import GpuEmbeddingCollection
from armillary.trainer.optimizers import AdaGrad, Adam, RowWiseAdaGrad, Sgd
from armillary.trainer.settings import Settings
from armillary.trainer.tables import DType, Feature, Part, Table
from armillary.trainer.tensor_train import TensorTrainCollection
from armillary.trainer.tensor_train_shapes import Shape
from armillary.trainer.world import World

DTYPES: list[DType] = ["float32", "float16", "bfloat16"]


def on_gpu(case: Case, seed: int = 0, chunk: int = 1024) -> GpuEmbeddingCollection:
    return GpuEmbeddingCollection(
        case.tables, case.features, case.optimizer, seed=seed, device="cpu", chunk=chunk
    )


def bits(collection: EmbeddingCollection) -> dict[str, bytes]:
    return {
        name: part.reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, part in collection.state_dict().items()
    }


@settings(max_examples=7, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_bits_are_those_of_the_engine(seed: int, pooled: bool, by_chance: bool) -> None:
    """Initial weights, results, rows and state, with gradients of any bits."""
    random = np.random.default_rng(seed)
    case = made(random, DTYPES, pooled)
    case.tables = [
        Table(table.name, table.rows, table.dim, table.dtype, stochastic_rounding=by_chance)
        for table in case.tables
    ]
    case.grad += torch.from_numpy(random.standard_normal(tuple(case.grad.shape))).float()
    engine = EmbeddingCollection(case.tables, case.features, case.optimizer, seed=7)
    both = engine, on_gpu(case, seed=7)
    assert bits(both[0]) == bits(both[1])
    for _ in range(2):
        first, second = (collection(case.batch) for collection in both)
        assert torch.equal(first, second)
        first.backward(case.grad)
        second.backward(case.grad)
        assert bits(both[0]) == bits(both[1])


@pytest.mark.parametrize("dim", [1, 65, 300])
def test_gradients_of_weights_have_the_bits_of_the_engine(dim: int) -> None:
    generator = torch.Generator().manual_seed(dim)
    lengths = torch.tensor([[2, 0, 3]])
    indices = torch.randint(0, 9, (5,), generator=generator)
    tables, features = [Table("t", 9, dim)], [Feature("f", "t")]
    found = []
    for make in (EmbeddingCollection, lambda *parts: GpuEmbeddingCollection(*parts, device="cpu")):
        weights = torch.linspace(0.1, 1.7, 5).requires_grad_()
        collection = make(tables, features, RowWiseAdaGrad())
        result = collection(SparseBatch(lengths, indices, weights))
        result.backward(torch.linspace(-1, 3, 3 * dim).view(3, dim))
        assert weights.grad is not None
        found.append((weights.grad, collection.weight("t")))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_parts_start_as_the_engines(dtype: DType) -> None:
    part = Part("whole", 50, first_row=12, first_column=7)
    tables, features = [Table("t", 20, 33, dtype, part=part)], [Feature("f", "t")]
    engine = EmbeddingCollection(tables, features, Sgd(), seed=3)
    other = GpuEmbeddingCollection(tables, features, Sgd(), seed=3, device="cpu")
    assert bits(engine) == bits(other)
    batch = SparseBatch(torch.tensor([[3, 0, 2]]), torch.tensor([19, 0, 7, 7, 1]))
    assert torch.equal(engine(batch).detach(), other(batch).detach())


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_rows_of_many_lookups_are_added_up_in_chunks(seed: int, chunk: int) -> None:
    """Gradients are eighths, whose sums are exact in any order."""
    random = np.random.default_rng(seed)
    case = made(random, ["float32"], True)
    case.tables = [Table(each.name, min(each.rows, 3), each.dim) for each in case.tables]
    rows = {table.name: table.rows for table in case.tables}
    lengths = case.batch.lengths
    most = [
        torch.full((int(n.sum()),), rows[f.table])
        for f, n in zip(case.features, lengths, strict=True)
    ]
    indices = case.batch.indices % torch.cat(most)
    case.batch = SparseBatch(lengths, indices, case.batch.weights)
    collection = on_gpu(case, chunk=chunk)
    reference = Reference(case.optimizer, taken(collection, case))
    again = on_gpu(case, chunk=chunk)
    for each in (collection, again):
        each(case.batch).backward(case.grad)
    reference.update(case)
    assert bits(collection) == bits(again)
    for name, expected in reference.weights.items():
        close(collection.weight(name).double(), expected, 2e-6)


def test_elements_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows that are used take memory."""
    monkeypatch.setattr(GpuEmbeddingCollection, "_fill", lambda self: None)
    rows = 2**27 + 3
    table = Table("t", rows, 16, "bfloat16")
    assert rows * 16 > 2**31
    collection = GpuEmbeddingCollection(
        [table], [Feature("f", "t")], Sgd(learning_rate=1), device="cpu"
    )
    collection.weight("t")[[0, rows - 1]] = 0
    batch = SparseBatch(torch.tensor([[2, 1]]), torch.tensor([rows - 1, 0, rows - 1]))
    collection(batch).backward(torch.tensor([[1.0], [2.0]]).expand(2, 16))
    assert (collection.weight("t")[rows - 1] == -3).all()
    assert (collection(batch).detach() == torch.tensor([[-4.0], [-3.0]])).all()


@pytest.mark.parametrize("optimizer", [AdaGrad(), Adam(weight_decay=0.1, decoupled=True)])
def test_the_engine_continues_from_its_state(optimizer: AdaGrad | Adam) -> None:
    tables, features = [Table("t", 9, 5)], [Feature("f", "t", "mean")]
    batch = SparseBatch(torch.tensor([[3, 2]]), torch.tensor([1, 8, 1, 0, 7]))
    engine = EmbeddingCollection(tables, features, optimizer, seed=1)
    other = GpuEmbeddingCollection(tables, features, optimizer, seed=2, device="cpu")
    other(batch).sum().backward()
    engine.load_state_dict(other.state_dict())
    for each in (engine, other):
        each.set_learning_rate(0.3)
        each(batch).sum().backward()
    assert bits(engine) == bits(other)


def test_a_model_trains_to_the_bits_of_the_engine() -> None:
    facts = parse(load_model("dlrm-small"))
    run = Settings("dlrm-small", batch=12, steps=2, threads=1)
    tables = [Table(each.name, each.rows, each.dim) for each in facts.tables]
    features = [Feature(each.name, each.name) for each in facts.tables]
    on_kernels = GpuEmbeddingCollection(tables, features, RowWiseAdaGrad(), device="cpu")
    engine = EmbeddingCollection(tables, features, RowWiseAdaGrad())
    losses = []
    for collection in (engine, on_kernels):
        trainer = loop.Trainer(run, facts, World(), collection)
        source, _ = open_data(run, facts)
        parts = source.parts(run.batch, 0, 1)
        losses.append([trainer.step(next(parts), 1.0) for _ in range(2)])
    assert losses[0] == losses[1]
    assert bits(engine) == bits(on_kernels)


def test_cores_of_tensor_trains_have_the_bits_of_the_engine() -> None:
    shape = Shape("t", 23, 12, (3, 4, 2), (2, 3, 2), (3, 2))
    batch = SparseBatch(torch.tensor([[3, 2]]), torch.tensor([1, 8, 1, 0, 22]))
    make = partial(GpuEmbeddingCollection, device="cpu")
    both = [
        TensorTrainCollection([shape], [Feature("f", "t")], Adam(), make=each)
        for each in (EmbeddingCollection, make)
    ]
    for _ in range(2):
        for each in both:
            each(batch).backward(torch.linspace(-1, 1, 24).view(2, 12))
    assert torch.equal(both[0].whole("t"), both[1].whole("t"))
