"""Kernels of GPUs against the engine on processors. `test_gpu.py` runs this in a process of its
own: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from embedding_reference import KERNELS_ON, Case, Reference, to_host
from hypothesis import given, settings
from hypothesis import strategies as st
from test_embedding import close, made, taken

from armillary.errors import InputError, Problem
from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary_train.data import open_data
from armillary_train.ranks.world import World
from armillary_train.run import loop
from armillary_train.run.pipeline import windows
from armillary_train.settings import Settings
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.caching import Caching, Policy
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.gpu import GpuEmbeddingCollection
from armillary_train.tables.gpu_cache import CachedGpuEmbeddingCollection
from armillary_train.tables.optimizers import AdaGrad, Adam, Optimizer, RowWiseAdaGrad, Sgd
from armillary_train.tables.table import DType, Feature, Part, Table
from armillary_train.tables.tensor_train import TensorTrainCollection
from armillary_train.tables.tensor_train_shapes import Shape

DTYPES: list[DType] = ["float32", "float16", "bfloat16"]


def kernels(*given: Any, **settings: Any) -> GpuEmbeddingCollection:  # noqa: ANN401
    return to_host(GpuEmbeddingCollection(*given, device=KERNELS_ON, **settings))


def cached_kernels(*given: Any, **settings: Any) -> CachedGpuEmbeddingCollection:  # noqa: ANN401
    return to_host(CachedGpuEmbeddingCollection(*given, device=KERNELS_ON, **settings))


def on_gpu(case: Case, seed: int = 0, chunk: int = 1024) -> GpuEmbeddingCollection:
    return kernels(case.tables, case.features, case.optimizer, seed=seed, chunk=chunk)


def bits(collection: EmbeddingCollection) -> dict[str, bytes]:
    return {
        name: part.reshape(-1).view(torch.uint8).cpu().numpy().tobytes()
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
    for make in (EmbeddingCollection, kernels):
        weights = torch.linspace(0.1, 1.7, 5).requires_grad_()
        collection = make(tables, features, RowWiseAdaGrad())
        result = collection(SparseBatch(lengths, indices, weights))
        result.backward(torch.linspace(-1, 3, 3 * dim).view(3, dim))
        assert weights.grad is not None
        found.append((weights.grad, collection.weight("t").cpu()))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_parts_start_as_the_engines(dtype: DType) -> None:
    part = Part("whole", 50, first_row=12, first_column=7)
    tables, features = [Table("t", 20, 33, dtype, part=part)], [Feature("f", "t")]
    engine = EmbeddingCollection(tables, features, Sgd(), seed=3)
    other = kernels(tables, features, Sgd(), seed=3)
    assert bits(engine) == bits(other)
    batch = SparseBatch(torch.tensor([[3, 0, 2]]), torch.tensor([19, 0, 7, 7, 1]))
    assert torch.equal(engine(batch).detach(), other(batch).detach())


@settings(max_examples=5 if KERNELS_ON == "cuda" else 3, deadline=None)
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


@pytest.mark.parametrize("chunk", [20, 40, 1024])
def test_rows_of_more_lookups_than_are_changed_together(chunk: int) -> None:
    """Numbers of lookups around `SHORT` and beyond it, in tables of two widths. Gradients are
    eighths, whose sums are exact in any order, unless all are added up in one order."""
    random = np.random.default_rng(chunk)
    counts, samples = (31, 32, 33, 1, 64, 95), 32
    tables = [Table("narrow", len(counts), 5), Table("wide", len(counts), 70, "float16")]
    features = [Feature("a", "narrow", "mean"), Feature("b", "wide")]
    rows = np.repeat(np.arange(len(counts)), counts)
    lengths = torch.full((2, samples), len(rows) // samples)
    indices = torch.from_numpy(np.concatenate([random.permutation(rows) for _ in features]))
    grad = random.integers(-16, 17, (samples, 75)) / 8
    if chunk > max(counts):
        grad += random.standard_normal(grad.shape)
    batch = SparseBatch(lengths, indices)
    case = Case(tables, features, batch, torch.from_numpy(grad).float(), RowWiseAdaGrad())
    engine, other = EmbeddingCollection(tables, features, case.optimizer), on_gpu(case, chunk=chunk)
    for each in (engine, other):
        each(batch).backward(case.grad)
    assert bits(engine) == bits(other)


def test_elements_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows that are used take memory."""
    monkeypatch.setattr(GpuEmbeddingCollection, "_fill", lambda self: None)
    rows = 2**27 + 3
    table = Table("t", rows, 16, "bfloat16")
    assert rows * 16 > 2**31
    collection = kernels([table], [Feature("f", "t")], Sgd(learning_rate=1))
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
    other = kernels(tables, features, optimizer, seed=2)
    other(batch).sum().backward()
    engine.load_state_dict(other.state_dict())
    for each in (engine, other):
        each.set_learning_rate(0.3)
        each(batch).sum().backward()
    assert bits(engine) == bits(other)


def test_a_model_trains_to_the_bits_of_the_engine() -> None:
    facts = parse(load_model("dlrm-small"))
    steps = 3
    run = Settings("dlrm-small", global_batch=12, threads=1)
    tables = [Table(each.name, each.rows, each.dim) for each in facts.tables]
    features = [Feature(each.name, each.name) for each in facts.tables]
    on_kernels = kernels(tables, features, RowWiseAdaGrad())
    engine = EmbeddingCollection(tables, features, RowWiseAdaGrad())
    behind = cached_kernels(
        [replace(table, tier="host") for table in tables],
        features,
        RowWiseAdaGrad(),
        caching=Caching(2**20),
    )
    losses = []
    for collection, cache in ((engine, None), (on_kernels, None), (behind, "1MiB")):
        settings = replace(run, cache=cache)
        trainer = loop.Trainer(settings, facts, World(), collection)
        source, _ = open_data(settings, facts)
        parts = islice(source.parts(run.global_batch, 0, 1), steps)
        known = windows(parts, trainer.ahead)
        losses.append([trainer.step(part, 1.0, following) for part, following in known])
    assert losses[0] == losses[1] == losses[2]
    assert bits(engine) == bits(on_kernels) == bits(behind)
    assert behind.cache_report()["prefetched_batches"] == steps - 1


def test_cores_of_tensor_trains_have_the_bits_of_the_engine() -> None:
    """Not on a GPU, where PyTorch multiplies matrices in another order."""
    shape = Shape("t", 23, 12, (3, 4, 2), (2, 3, 2), (3, 2))
    batch = SparseBatch(torch.tensor([[3, 2]]), torch.tensor([1, 8, 1, 0, 22]))
    make = partial(GpuEmbeddingCollection, device=KERNELS_ON)
    both = [
        to_host(TensorTrainCollection([shape], [Feature("f", "t")], Adam(), make=each))
        for each in (EmbeddingCollection, make)
    ]
    for _ in range(2):
        for each in both:
            each(batch).backward(torch.linspace(-1, 1, 24).view(2, 12))
    close(both[0].whole("t"), both[1].whole("t"), 1e-5)
    if KERNELS_ON == "cpu":
        assert torch.equal(both[0].whole("t"), both[1].whole("t"))


FEATURES = [Feature("fa", "a"), Feature("fb", "b", "mean"), Feature("fc", "a")]
DONE = (
    "lookups",
    "misses",
    "evictions",
    "overflow_rows",
    "rows_read",
    "rows_written",
    "batches",
    "prefetched_batches",
    "cached_rows",
)


def cached_tables(dtype: DType, *, by_chance: bool = True) -> list[Table]:
    """Two tables in memory of the host."""
    return [
        Table("a", 300, 5, dtype, by_chance, tier="host"),
        Table("b", 40, 8, dtype, by_chance, tier="host"),
    ]


def cached_batch(step: int, samples: int = 9) -> SparseBatch:
    draw = torch.Generator().manual_seed(step)
    sizes = [torch.randint(0, rows, (2 * samples,), generator=draw) for rows in (300, 40, 300)]
    return SparseBatch(torch.full((3, samples), 2), torch.cat(sizes))


def trained(collection: EmbeddingCollection, steps: int, samples: int = 9) -> list[torch.Tensor]:
    """Results of steps, with every other batch fetched before."""
    found = []
    for step in range(steps):
        out = collection(cached_batch(step, samples))
        found.append(out.detach())
        if step % 2:
            collection.prefetch(cached_batch(step + 1, samples))
        (out * out).sum().backward()
    return found


@pytest.mark.parametrize(
    ("dtype", "precision", "optimizer", "policy", "samples", "memory"),
    [
        ("float32", None, RowWiseAdaGrad(), "lru", 9, 12_000),
        ("float32", None, Adam(), "lfu", 9, 12_000),
        ("bfloat16", None, AdaGrad(), "lru", 9, 7_500),
        # 32 slots of the first table, and about 60 rows in a batch.
        ("float32", None, RowWiseAdaGrad(), "lru", 16, 5_000),
        ("float16", "float32", RowWiseAdaGrad(), "lru", 9, 12_000),
        ("bfloat16", "float32", Adam(), "lfu", 16, 7_400),
    ],
)
def test_a_cache_on_a_gpu_is_one_in_memory(
    dtype: DType,
    precision: Literal["float32"] | None,
    optimizer: Optimizer,
    policy: Policy,
    samples: int,
    memory: int,
) -> None:
    """The same bits and the same counts, with and without wide rows over narrow ones. Where caches
    don't round, the bits are also those without caches."""
    caching = Caching(memory, policy=policy, precision=precision)
    given = cached_tables(dtype), FEATURES, optimizer
    one = EmbeddingCollection(*given, seed=3, caching=caching)
    other = cached_kernels(*given, seed=3, caching=caching)
    results = [torch.cat(trained(each, 4, samples)) for each in (one, other)]
    assert torch.equal(*results)
    for each in (one, other):
        each.settle()
    reports = [each.cache_report() for each in (one, other)]
    assert [reports[0][name] for name in DONE] == [reports[1][name] for name in DONE]
    assert reports[1]["evictions"] > 0 and reports[1]["rows_written"] > 0
    assert (reports[1]["overflow_rows"] > 0) == (samples == 16)
    assert bits(one) == bits(other)
    if precision is None:
        plain = [replace(table, tier="device") for table in given[0]]
        whole = EmbeddingCollection(plain, FEATURES, optimizer, seed=3)
        trained(whole, 4, samples)
        assert bits(whole) == bits(other)


def test_a_cache_on_a_gpu_over_a_disk_goes_on(tmp_path: Path) -> None:
    """Checkpoints, states of other collections, wrong indices and gradients of weights."""
    tables = [replace(table, tier="disk") for table in cached_tables("float32")]
    caching = Caching(2**21 + 2**18, str(tmp_path))
    make = partial(cached_kernels, tables, FEATURES, Adam())
    first = make(caching=caching)
    trained(first, 3)
    first.checkpoint()
    expected = bits(first)
    trained(first, 2)
    assert bits(first) != expected
    del first
    again = make(caching=replace(caching, resume=True))
    assert bits(again) == expected
    host = [replace(table, tier="device") for table in tables]
    engine = EmbeddingCollection(host, FEATURES, Adam(), seed=9)
    trained(engine, 2)
    again.load_state_dict(engine.state_dict())
    for each in (engine, again):
        each.set_learning_rate(0.3)
        trained(each, 2)
    assert bits(engine) == bits(again)
    with pytest.raises(
        InputError, match=r'feature "fc": sample 8: index 300 \(allowed: 0 to 299\)'
    ):
        batch = cached_batch(0)
        batch.indices[-1] = 300
        again(batch)
    with pytest.raises(InputError, match="nan in the gradient"):
        again(cached_batch(0)).backward(torch.full((9, 18), torch.nan))


def test_gradients_of_weights_through_a_cache_on_a_gpu() -> None:
    features = [replace(each, pooling="sum") for each in FEATURES]
    found = []
    for make in (
        EmbeddingCollection,
        cached_kernels,
    ):
        collection = make(
            cached_tables("float32"), features, RowWiseAdaGrad(), caching=Caching(12_000)
        )
        batch = cached_batch(1)
        weights = torch.linspace(-1, 2, len(batch.indices)).requires_grad_()
        collection(replace(batch, weights=weights)).sum().backward()
        assert weights.grad is not None
        found.append(weights.grad)
    assert torch.equal(*found)


def test_a_slower_tier_that_fails_while_the_next_batch_comes() -> None:
    class Failing:
        """A cache whose disk is full."""

        def __init__(self, cache: Any) -> None:  # noqa: ANN401
            self.cache = cache

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(self.cache, name)

        def exchange(self, *_: object) -> int:
            raise InputError([Problem("table-0.rows", "", "no space left")])

    collection = cached_kernels(cached_tables("float32"), FEATURES, Sgd(), caching=Caching(12_000))
    out = collection(cached_batch(0))
    caches: list[Any] = collection._staged
    caches[0] = Failing(caches[0])
    collection.prefetch(cached_batch(1))
    # Rows of the current batch are there.
    out.sum().backward()
    for use in (collection.settle, lambda: collection(cached_batch(0))):
        with pytest.raises(InputError, match="no space left"):
            use()
