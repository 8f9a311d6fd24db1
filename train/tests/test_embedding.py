"""The embedding engine against plain numpy with 64 bits, on random cases."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from embedding_reference import (
    KERNELS,
    Array,
    Case,
    Reference,
    collection_of,
    forward,
    levels,
    of_weights,
    use_level,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

from armillary_train.checkpoint.eight_bits import eight_bits
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import AdaGrad, Adam, Lamb, Optimizer, RowWiseAdaGrad, Sgd
from armillary_train.tables.table import DType, Feature, Pooling, Table

OPTIMIZERS: list[Optimizer] = [
    Sgd(learning_rate=0.5),
    Sgd(learning_rate=0.1, weight_decay=0.3, clip_value=1.5),
    AdaGrad(learning_rate=0.1, eps=0.1),
    AdaGrad(learning_rate=0.1, eps=0.1, weight_decay=0.2, decoupled=True),
    RowWiseAdaGrad(learning_rate=0.1, eps=0.1),
    RowWiseAdaGrad(learning_rate=0.1, eps=0.1, weight_decay=0.1, clip_norm=2.0),
    Adam(learning_rate=0.05, eps=0.1),
    Adam(learning_rate=0.05, eps=0.1, weight_decay=0.1, decoupled=True),
    Lamb(learning_rate=0.05, eps=0.1),
]

DIMS = [*range(1, 36), 48, 63, 64, 65, 100, 128, 129, 160, 300]

Numbers = torch.Tensor | Array

CASES = 1 if KERNELS else 8
"""Cases of one example of hypothesis, whose own cost is more than theirs."""

SHARE = 10 if KERNELS else 1
"""What numbers of examples are divided by: the interpreter of kernels is slow."""

ROWS = 10 if KERNELS else 40
"""Rows of tables that are compared with other optimizers."""

PRECISION = {"float32": 2e-6, "float16": 2**-10, "bfloat16": 2**-7}
"""Largest relative error of one step, next to that of the type."""


def made(random: np.random.Generator, dtypes: list[DType], pooled: bool) -> Case:
    """A random case. Gradients are eighths, so that their sums are exact."""
    unpooled_dim = int(random.choice(DIMS))
    tables = [
        Table(
            f"table {number}",
            int(random.integers(1, 30)),
            int(random.choice(DIMS)) if pooled else unpooled_dim,
            dtype=dtypes[random.integers(len(dtypes))],
        )
        for number in range(random.integers(1, 4))
    ]
    weighted = pooled and random.random() < 0.3
    poolings: list[Pooling] = ["sum"] if weighted else ["sum", "mean"]
    features = [
        Feature(
            f"feature {number}",
            tables[random.integers(len(tables))].name,
            poolings[random.integers(len(poolings))] if pooled else "none",
        )
        for number in range(random.integers(1, 5))
    ]
    samples = int(random.integers(0, 9))
    lengths = random.integers(0, 5, (len(features), samples)) * (random.random() < 0.9)
    rows = {table.name: table.rows for table in tables}
    parts = [
        random.integers(0, rows[feature.table], lengths[number].sum())
        for number, feature in enumerate(features)
    ]
    indices = torch.from_numpy(np.concatenate(parts))
    small, narrow = random.random(2) < 0.5
    weights = torch.from_numpy(random.integers(-8, 9, len(indices)) / 4).float()
    batch = SparseBatch(
        torch.from_numpy(lengths).to(torch.int32 if small else torch.int64),
        indices.to(torch.int32 if narrow else torch.int64),
        weights if weighted else None,
    )
    dims = {table.name: table.dim for table in tables}
    width = sum(dims[feature.table] for feature in features) if pooled else unpooled_dim
    shape = (samples if pooled else len(indices), width)
    grad = torch.from_numpy(random.integers(-16, 17, shape) / 8).float()
    return Case(tables, features, batch, grad, OPTIMIZERS[random.integers(len(OPTIMIZERS))])


def taken(collection: EmbeddingCollection, case: Case) -> dict[str, Array]:
    return {
        table.name: collection.weight(table.name).to(torch.float64).cpu().numpy().copy()
        for table in case.tables
    }


def close(found: Numbers, expected: Numbers, precision: float) -> None:
    found, expected = (
        each.cpu() if isinstance(each, torch.Tensor) else each for each in (found, expected)
    )
    np.testing.assert_allclose(found, expected, rtol=precision, atol=4 * precision)


@settings(max_examples=usually(30, 600) // SHARE, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(["float32", "float16", "bfloat16"]))
def test_steps_equal_numpy(seed: int, pooled: bool, dtype: DType) -> None:
    """240 cases with a forward and two backward passes each."""
    random = np.random.default_rng(seed)
    for _ in range(CASES):
        case = made(random, [dtype], pooled)
        collection = case.collection(
            seed=int(random.integers(100)), threads=int(random.integers(1, 3))
        )
        use_level(collection, random.choice(levels()))
        reference = Reference(case.optimizer, taken(collection, case))
        for _ in range(2):
            result = collection(case.batch)
            close(result.detach(), forward(case, reference.weights), 2e-6)
            result.backward(case.grad)
            reference.update(case)
            for name, expected in reference.weights.items():
                close(collection.weight(name).double(), expected, PRECISION[dtype])
                reference.weights[name] = collection.weight(name).double().cpu().numpy().copy()
            for table in case.tables:
                for part, state in collection.state(table.name).items():
                    expected = reference.state.get(table.name, {}).get(part, np.zeros(()))
                    close(state, expected, 1e-5)


@settings(max_examples=usually(30, 600) // SHARE, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["float32", "float16", "bfloat16"]))
def test_bits_do_not_depend_on_threads_or_instructions(seed: int, dtype: DType) -> None:
    random = np.random.default_rng(seed)
    case = made(random, [dtype], bool(random.random() < 0.8))
    case.tables = [
        Table(table.name, table.rows, table.dim, dtype, stochastic_rounding=True)
        for table in case.tables
    ]
    case.grad += torch.from_numpy(random.standard_normal(tuple(case.grad.shape))).float()
    seen = set()
    for level in levels():
        for threads in (1, 3):
            collection = case.collection(threads=threads)
            use_level(collection, level)
            bits = b""
            for _ in range(2):
                result = collection(case.batch)
                bits += result.detach().numpy().tobytes()
                result.backward(case.grad)
            for part in collection.state_dict().values():
                bits += part.reshape(-1).view(torch.uint8).cpu().numpy().tobytes()
            seen.add(bits)
    assert len(seen) == 1


@pytest.mark.skipif(KERNELS, reason="kernels have no threads to share rows out to")
def test_bits_do_not_depend_on_threads_in_large_batches() -> None:
    """Rows of a table are shared out to threads."""
    random, seen = np.random.default_rng(4), set()
    indices = torch.from_numpy(random.zipf(1.2, 80_000) % 5_000)
    batch = SparseBatch(torch.full((2, 400), 100), indices)
    grad = torch.from_numpy(random.standard_normal((400, 40))).float()
    for threads in (1, 2, 5):
        tables = [Table("shared", 5_000, 20)]
        features = [Feature("one", "shared"), Feature("other", "shared", "mean")]
        case = Case(tables, features, batch, grad, RowWiseAdaGrad())
        collection = case.collection(threads=threads)
        result = collection(batch)
        result.backward(grad)
        weights = collection.weight("shared").numpy().tobytes()
        seen.add(result.detach().numpy().tobytes() + weights)
    assert len(seen) == 1


@pytest.mark.skipif(KERNELS, reason="kernels have no threads")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    random = np.random.default_rng(5)
    batch = SparseBatch(
        torch.full((2, 400), 100), torch.from_numpy(random.integers(0, 5_000, 80_000))
    )
    tables = [Table("one", 5_000, 20), Table("other", 5_000, 20)]
    features = [Feature(each.name, each.name) for each in tables]
    collection = EmbeddingCollection(tables, features, Sgd(), threads=3)
    with torch.no_grad():
        wanted = collection(batch).clone()
        child = os.fork()
        if not child:
            os._exit(3 - 3 * torch.equal(collection(batch), wanted))
        deadline = time.monotonic() + 60
        ended, status = os.waitpid(child, os.WNOHANG)
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
        assert ended, "the child waits for threads that it does not have"
        assert os.waitstatus_to_exitcode(status) == 0


@settings(max_examples=usually(20, 400) // SHARE, deadline=None)
@given(st.integers(0, 2**32))
def test_gradients_of_weights(seed: int) -> None:
    """Against numpy, and against finite differences of the forward pass."""
    random = np.random.default_rng(seed)
    for _ in range(CASES):
        case = made(random, ["float32"], True)
        case.features = [Feature(each.name, each.table) for each in case.features]
        weights = torch.rand(len(case.batch.indices), requires_grad=True)
        case.batch = SparseBatch(case.batch.lengths, case.batch.indices, weights.detach())
        collection = case.collection()
        before = taken(collection, case)
        batch = SparseBatch(case.batch.lengths, case.batch.indices, weights)
        with torch.no_grad():
            changed = weights.detach().clone()
            if len(changed):
                changed[-1] += 0.5
            moved = collection(SparseBatch(batch.lengths, batch.indices, changed))
            loss = ((moved - collection(batch)) * case.grad).sum() / 0.5
        collection(batch).backward(case.grad)
        assert weights.grad is not None
        close(weights.grad, of_weights(case, before), 1e-5)
        if len(changed):
            assert weights.grad[-1].item() == pytest.approx(loss.item(), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("pooling", ["sum", "mean", "none"])
def test_gradients_are_finite_differences(pooling: Pooling) -> None:
    """With SGD at rate 1, the change of a table is its gradient. The loss is a square, for which
    central differences are exact."""
    dim = 2 if KERNELS else 5
    tables = [Table("t", 6, dim)]
    features = [Feature("f", "t", pooling), Feature("g", "t", pooling)]
    batch = SparseBatch(
        torch.tensor([[2, 0, 3], [1, 2, 0]]), torch.tensor([1, 1, 0, 4, 1, 2, 0, 4])
    )
    case = Case(tables, features, batch, torch.empty(0), Sgd(learning_rate=1))
    collection = case.collection(seed=3)
    weight = collection.weight("t")

    def loss() -> torch.Tensor:
        result: torch.Tensor = collection(batch)
        return (result**2).sum()

    expected = torch.zeros_like(weight)
    with torch.no_grad():
        for place in np.ndindex(6, dim):
            values, old = [], weight[place].item()
            for step in (0.5, -0.5):
                weight[place] = old + step
                values.append(loss().item())
            weight[place] = old
            expected[place] = values[0] - values[1]
    before = weight.clone()
    torch.autograd.backward(loss())
    close(before - weight, expected, 1e-5)
    assert (expected[[3, 5]] == 0).all()
    assert torch.equal(weight[[3, 5]], before[[3, 5]])


DENSE: list[tuple[Optimizer, Any, dict[str, Any]]] = [
    (Sgd(learning_rate=0.3), "SGD", {"lr": 0.3}),
    (Sgd(learning_rate=0.3, weight_decay=0.1), "SGD", {"lr": 0.3, "weight_decay": 0.1}),
    (AdaGrad(learning_rate=0.3), "Adagrad", {"lr": 0.3}),
    (
        AdaGrad(learning_rate=0.3, weight_decay=0.1),
        "Adagrad",
        {"lr": 0.3, "weight_decay": 0.1},
    ),
    (Adam(learning_rate=0.03), "Adam", {"lr": 0.03}),
    (Adam(learning_rate=0.03, eps=1e-30), "SparseAdam", {"lr": 0.03, "eps": 1e-30}),
    (
        Adam(learning_rate=0.03, weight_decay=0.1, decoupled=True),
        "AdamW",
        {"lr": 0.03, "weight_decay": 0.1},
    ),
]


@pytest.mark.parametrize(
    ("optimizer", "name", "options"),
    DENSE,
    ids=[f"{at}-{each[1]}" for at, each in enumerate(DENSE)],
)
def test_optimizers_equal_those_of_torch(
    optimizer: Optimizer, name: str, options: dict[str, Any]
) -> None:
    """Every row is in every batch, because torch's dense optimizers change all rows. SparseAdam
    changes those of the batch, and its batches have half of the rows; its `eps` is another one."""
    sparse, rows = name == "SparseAdam", ROWS
    random = np.random.default_rng(1)
    case = Case([Table("t", rows, 24)], [Feature("f", "t")], None, torch.empty(0), optimizer)  # type: ignore[arg-type]
    collection = case.collection()
    theirs = torch.nn.EmbeddingBag(rows, 24, mode="sum", sparse=sparse)
    theirs.weight.data.copy_(collection.weight("t"))
    torch_optimizer = getattr(torch.optim, name)(theirs.parameters(), **options)
    for _ in range(5):
        indices = random.permutation(np.tile(np.arange(rows), 3))
        if sparse:
            indices = np.where(indices < rows // 2, indices, 0)
        batch = SparseBatch(torch.full((1, rows * 3 // 10), 10), torch.from_numpy(indices))
        grad = torch.from_numpy(random.standard_normal((rows * 3 // 10, 24))).float()
        collection(batch).backward(grad)
        torch_optimizer.zero_grad()
        theirs(batch.indices, torch.arange(0, rows * 3, 10)).backward(grad)
        torch_optimizer.step()
    close(collection.weight("t"), theirs.weight.detach(), 2e-6)


SCALES = (1e-4,) if KERNELS else (1.0, 1e-2, 1e-4, 1e-6)
"""Sizes of gradients: `eps` matters for small ones. Kernels give the bits of the engine."""


def stepped(
    optimizer: Optimizer, theirs: Callable[..., Any], options: dict[str, Any], scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tables that were zeros, after three steps of gradients of about `scale`, each row looked up
    once; and those of an optimizer of torch."""
    rows, sparse = ROWS, theirs is torch.optim.SparseAdam
    case = Case([Table("t", rows, 24)], [Feature("f", "t")], None, torch.empty(0), optimizer)  # type: ignore[arg-type]
    collection = case.collection()
    collection.weight("t").zero_()
    bag = torch.nn.EmbeddingBag(rows, 24, mode="sum", sparse=sparse)
    bag.weight.data.zero_()
    steps, random = theirs(bag.parameters(), **options), torch.Generator().manual_seed(5)
    for _ in range(3):
        grad = scale * torch.randn(rows, 24, generator=random)
        collection(SparseBatch(torch.ones(1, rows).int(), torch.arange(rows))).backward(grad)
        steps.zero_grad()
        bag(torch.arange(rows), torch.arange(rows)).backward(grad)
        steps.step()
    return collection.weight("t"), bag.weight.detach()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("optimizer", "name", "options"),
    DENSE,
    ids=[f"{at}-{each[1]}" for at, each in enumerate(DENSE)],
)
def test_optimizers_equal_those_of_torch_for_small_gradients(
    optimizer: Optimizer, name: str, options: dict[str, Any], scale: float
) -> None:
    ours, theirs = stepped(optimizer, getattr(torch.optim, name), options, scale)
    size = theirs.abs().max()
    close(ours / size, theirs / size, 2e-6)


def test_adam_is_not_sparse_adam_where_eps_matters() -> None:
    """SparseAdam adds `eps` before it corrects the bias: `sqrt(1 - beta2 ** step)` times less, 32
    times in the first step. In units of the learning rate."""
    for scale, least, most in ((1.0, 0.0, 0.01), (1e-5, 0.3, 2.0)):
        ours, theirs = stepped(
            Adam(learning_rate=0.01), torch.optim.SparseAdam, {"lr": 0.01}, scale
        )
        assert least <= (ours - theirs).abs().max().item() / 0.01 <= most


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "optimizer",
    [Sgd(), AdaGrad(), RowWiseAdaGrad(), Adam(), Lamb(), Lamb(weight_decay=0.1)],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_small_gradients_against_numpy(optimizer: Optimizer, scale: float) -> None:
    """With 64 bits, by the formulas of the papers."""
    rows = ROWS
    batch = SparseBatch(torch.ones(1, rows).int(), torch.arange(rows))
    case = Case([Table("t", rows, 24)], [Feature("f", "t")], batch, torch.empty(0), optimizer)
    collection, random = case.collection(), torch.Generator().manual_seed(6)
    weight = collection.weight("t")
    weight.mul_(scale)
    reference = Reference(optimizer, {"t": weight.double().numpy().copy()})
    for _ in range(3):
        case.grad = scale * torch.randn(rows, 24, generator=random)
        collection(batch).backward(case.grad)
        reference.update(case)
    size = np.abs(reference.weights["t"]).max()
    close(weight.double() / size, reference.weights["t"] / size, 3e-6)


def test_rates_can_change_between_steps() -> None:
    case = Case([Table("t", 1, 1)], [Feature("f", "t")], None, torch.ones(1, 1), Sgd())  # type: ignore[arg-type]
    collection = case.collection()
    start, batch = (
        collection.weight("t").item(),
        SparseBatch(torch.ones(1, 1).int(), torch.zeros(1).int()),
    )
    for rate in (0.5, 0.25):
        collection.set_learning_rate(rate)
        collection(batch).backward(case.grad)
    assert collection.weight("t").item() == pytest.approx(start - 0.75)


@pytest.mark.skipif(KERNELS, reason="kernels give the bits of the engine")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("start", [1.0, 3e-6, 60000.0])
def test_rounding_by_chance_is_right_on_average(dtype: DType, start: float) -> None:
    """A step of a quarter of the last place moves a quarter of the elements by one place."""
    table = Table("t", 64, 100, dtype, stochastic_rounding=True)
    batch = SparseBatch(torch.ones(1, 64).long(), torch.arange(64))
    case = Case([table], [Feature("f", "t")], batch, torch.empty(0), Sgd(learning_rate=1))
    collection = case.collection()
    weight = collection.weight("t")
    weight.fill_(start)
    first = weight[0, 0].double().item()
    bits = weight.view(torch.int16)
    lower = (bits[:1, :1] - 1).view(weight.dtype)[0, 0].double().item()
    step = (first - lower) / 4
    collection(batch).backward(torch.full((64, 100), step))
    moved = weight.double() != first
    # 6,400 coins that fall with one in four: five standard deviations are 173.
    assert abs(moved.sum().item() - 1600) < 173
    assert (weight.double()[moved] == lower).all()
    other = case.collection(seed=1)
    other.weight("t").fill_(start)
    other(batch).backward(torch.full((64, 100), step))
    assert not torch.equal(other.weight("t"), weight)


def test_rows_of_eight_bits() -> None:
    random = np.random.default_rng(2)
    batch = SparseBatch(torch.full((1, 9), 4), torch.from_numpy(random.integers(0, 50, 36)))
    for dim in (1, 16, 33, 128):
        case = Case(
            [Table("t", 50, dim, "int8")], [Feature("f", "t")], batch, torch.zeros(9, dim), Sgd()
        )
        collection = case.collection()
        stored = collection.weight("t").cpu().numpy()
        values = stored[:, :dim].astype(np.float64)
        scale, offset = stored[:, dim:].copy().view(np.float32).astype(np.float64).T
        weights = {"t": values * scale[:, None] + offset[:, None]}
        assert np.abs(weights["t"]).max() <= 1 / math.sqrt(50) + 1e-6
        for level in levels():
            use_level(collection, level)
            close(collection(batch).detach(), forward(case, weights), 2e-6)


def test_trained_rows_become_rows_of_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a step is the largest error; a step is the row's range by 255."""
    monkeypatch.setattr("armillary_train.checkpoint.eight_bits._ELEMENTS", 64)
    draw = torch.Generator().manual_seed(4)
    weight = torch.randn(11, 20, generator=draw) * torch.logspace(-6, 3, 11)[:, None]
    weight[3] = 0.75
    collection = collection_of([Table("t", 11, 20, "int8")], [Feature("f", "t", "none")], Sgd())
    for dtype in (torch.float32, torch.bfloat16):
        rows = weight.to(dtype)
        collection.weight("t").copy_(eight_bits(rows))
        found = collection(SparseBatch(torch.full((1, 11), 1), torch.arange(11))).double()
        wide = rows.double()
        step = (wide.max(1).values - wide.min(1).values) / 255
        rounding = wide.abs().max(1).values * 2.0**-22
        assert ((found - wide).abs() <= (step / 2 + rounding)[:, None]).all()
        assert (found[3] == 0.75).all()
