"""Collections as torch's users know modules: tensors that change before the backward pass, frozen
tables, other types and devices, and batches whose features have names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from armillary.errors import InputError
from armillary.model.sharding_plan import ShardingPlan, TablePlan
from armillary_train.ranks.sharded import ShardedEmbeddingCollection
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.caching import Caching
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import AdaGrad
from armillary_train.tables.table import Feature, Table
from armillary_train.tables.tensor_train import TensorTrainCollection
from armillary_train.tables.tensor_train_shapes import Shape

Collection = EmbeddingCollection | ShardedEmbeddingCollection | TensorTrainCollection

ROWS, DIM = 60, 4
TABLES = [Table("t", ROWS, DIM)]
FEATURES = [Feature("f", "t")]
RULE = AdaGrad(learning_rate=1.0)


def plain() -> Collection:
    return EmbeddingCollection(TABLES, FEATURES, RULE)


def cached() -> Collection:
    tables = [Table("t", ROWS, DIM, tier="host")]
    return EmbeddingCollection(tables, FEATURES, RULE, caching=Caching(2**16))


def sharded() -> Collection:
    plan = ShardingPlan("p", 1, 1, (TablePlan("t", ROWS, DIM, "row", (0,)),))
    return ShardedEmbeddingCollection(TABLES, FEATURES, RULE, plan)


def copied() -> Collection:
    plan = ShardingPlan("p", 1, 1, (TablePlan("t", ROWS, DIM, "data", (0,)),))
    return ShardedEmbeddingCollection(TABLES, FEATURES, RULE, plan)


def train() -> Collection:
    return TensorTrainCollection([Shape("t", ROWS, DIM, (6, 10), (2, 2), (3,))], FEATURES, RULE)


MAKERS: list[Callable[[], Collection]] = [plain, cached, sharded, copied, train]
each_kind = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


def batch() -> SparseBatch:
    return SparseBatch(
        torch.tensor([[1, 1]]),
        torch.tensor([1, 2]),
        torch.tensor([1.0, 2.0], requires_grad=True),
    )


def rows(collection: Collection) -> Tensor:
    with torch.no_grad():
        found: Tensor = collection(
            SparseBatch(torch.ones(1, ROWS, dtype=torch.int64), torch.arange(ROWS))
        )
    return found


@each_kind
@pytest.mark.parametrize("part", ["lengths", "indices", "weights"])
def test_a_tensor_that_changed_is_refused(make: Callable[[], Collection], part: str) -> None:
    """As `torch.nn.EmbeddingBag`, which raises too. No row changes."""
    collection, given = make(), batch()
    before = rows(collection)
    out = collection(given)
    with torch.no_grad():
        getattr(given, part)[0] = 0
    with pytest.raises(InputError, match=f"batch: {part}: changed in place"):
        out.sum().backward()
    assert torch.equal(rows(collection), before)


def test_what_pytorch_refuses() -> None:
    """The reference of the test before."""
    bag = torch.nn.EmbeddingBag(ROWS, DIM, mode="sum")
    indices = torch.tensor([1, 2])
    out = bag(indices, torch.tensor([0, 1]))
    indices[0] = 50
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@each_kind
def test_a_batch_may_change_after_the_backward_pass(make: Callable[[], Collection]) -> None:
    """As that of a loader with one buffer."""
    collection, given = make(), batch()
    for row in (3, 4):
        given.indices[:] = row
        collection(given).sum().backward()


@each_kind
def test_frozen_tables_do_not_change_and_weights_get_gradients(
    make: Callable[[], Collection],
) -> None:
    """The gradient of a weight of a sum is the sum of its row. The module around the collection
    freezes it, and lets it train again."""
    collection, given = make(), batch()
    outer = torch.nn.Sequential(collection)
    before = rows(collection)
    start = {name: part.clone() for name, part in collection.state_dict().items()}
    outer.requires_grad_(False)
    assert given.weights is not None
    collection(given).sum().backward()
    assert given.weights.grad is not None
    torch.testing.assert_close(given.weights.grad, before[[1, 2]].sum(1), rtol=1e-6, atol=1e-6)
    assert not collection(SparseBatch(given.lengths, given.indices)).requires_grad
    assert torch.equal(rows(collection), before)
    after = collection.state_dict()
    assert all(torch.equal(part, start[name]) for name, part in after.items())
    outer.requires_grad_(True)
    collection(given).sum().backward()
    assert not torch.equal(rows(collection), before)


@each_kind
def test_eval_does_not_freeze(make: Callable[[], Collection]) -> None:
    """As `torch.nn.Embedding`: only `requires_grad` decides."""
    collection = make().eval()
    before = rows(collection)
    collection(batch()).sum().backward()
    assert not torch.equal(rows(collection), before)


@each_kind
@pytest.mark.parametrize(
    "move",
    [
        lambda module: module.half(),
        lambda module: module.double(),
        lambda module: module.to(torch.bfloat16),
        lambda module: module.to("meta"),
        lambda module: module.to_empty(device="meta"),
    ],
)
def test_other_types_and_devices_are_refused(
    make: Callable[[], Collection], move: Callable[[torch.nn.Module], object]
) -> None:
    """Also through the module around the collection."""
    with pytest.raises(InputError, match="tables can't be moved from float32 on cpu to"):
        move(torch.nn.Sequential(make()))


@each_kind
def test_the_own_type_and_device_are_taken(make: Callable[[], Collection]) -> None:
    collection = make()
    assert collection.float().cpu().to("cpu", torch.float32) is collection


@each_kind
def test_a_state_has_only_tables(make: Callable[[], Collection]) -> None:
    collection = make()
    state = collection.state_dict()
    assert not any("anchor" in name for name in state)
    assert sum(each.numel() for each in collection.parameters()) == 0
    collection.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*nothing"):
        collection.load_state_dict({**state, "nothing": torch.ones(1)})


@dataclass
class Jagged:
    """The part of TorchRec's `KeyedJaggedTensor` that is read, with its names."""

    features: list[str]
    counts: list[int]
    rows: list[int]
    factors: list[float] | None = None

    def keys(self) -> list[str]:
        return self.features

    def lengths(self) -> Tensor:
        return torch.tensor(self.counts)

    def values(self) -> Tensor:
        return torch.tensor(self.rows)

    def weights_or_none(self) -> Tensor | None:
        return None if self.factors is None else torch.tensor(self.factors)


@pytest.mark.parametrize("factors", [None, [1.0, 2.0, 3.0, 4.0, 5.0]])
@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"], ["b", "other", "a"]])
def test_features_are_found_by_their_names(order: list[str], factors: list[float] | None) -> None:
    bags = {"a": ([2, 1], [7, 8, 9]), "b": ([0, 2], [1, 2]), "other": ([1, 0], [5])}
    given = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0], "other": [6.0]}
    features = [Feature("a", "t"), Feature("b", "t")]
    collection = EmbeddingCollection(TABLES, features, RULE)
    wanted = collection(
        SparseBatch(
            torch.tensor([[2, 1], [0, 2]]),
            torch.tensor([7, 8, 9, 1, 2]),
            None if factors is None else torch.tensor(factors),
        )
    )
    jagged = Jagged(
        order,
        [count for name in order for count in bags[name][0]],
        [row for name in order for row in bags[name][1]],
        None if factors is None else [each for name in order for each in given[name]],
    )
    assert torch.equal(collection(jagged), wanted)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Jagged(["b"], [1], [1]), "feature 'f': is 0 times in the batch"),
        (Jagged(["f", "f"], [1, 1], [1, 2]), "feature 'f': is 2 times in the batch"),
        (Jagged(["f", "g"], [1, 1, 1], [1, 2, 3]), "3 lengths of 2 features"),
        (Jagged(["g", "f"], [1, 1], [1, 2, 3]), "3 values, but lengths of 2"),
        (torch.tensor([1, 2]), "a batch of the type Tensor"),
        ({"f": torch.tensor([1])}, "a batch of the type dict"),
    ],
)
@each_kind
def test_other_batches_are_refused(
    make: Callable[[], Collection], given: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make()(given)
