"""Embedding tables as a module: faults, state, parts of tables, and the rest of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from embedding_reference import KERNELS, collection_of

from armillary.errors import InputError
from armillary.model.sharding_plan import ShardingPlan, TablePlan
from armillary_train.ranks.sharded import ShardedEmbeddingCollection
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import Adam, Optimizer, RowWiseAdaGrad, Sgd
from armillary_train.tables.table import DType, Feature, Part, Table

OF_TWO = SparseBatch(torch.tensor([[2, 1], [0, 1]]), torch.tensor([1, 2, 3, 0]))
"""Two features, two samples."""


def two(dtype: DType = "float32", refuse_not_finite: bool = True) -> EmbeddingCollection:
    tables = [Table("first", 4, 3, dtype), Table("second", 2, 2, dtype)]
    features = [Feature("a", "first"), Feature("b", "second")]
    rule = Sgd(learning_rate=1)
    return collection_of(tables, features, rule, refuse_not_finite=refuse_not_finite)


def changed(batch: SparseBatch, **parts: list[Any]) -> SparseBatch:
    tensors = {name: torch.tensor(part) for name, part in parts.items()}
    return SparseBatch(
        tensors.get("lengths", batch.lengths),
        tensors.get("indices", batch.indices),
        tensors.get("weights"),
    )


FAULTS: list[tuple[dict[str, list[Any]], str, str]] = [
    (
        {"indices": [1, 2, 4, 0]},
        'table "first": feature "a": sample 1: index 4',
        "0 to 3",
    ),
    (
        {"indices": [1, 2, 3, -7]},
        'table "second": feature "b": sample 1: index -7',
        "0 to 1",
    ),
    (
        {"indices": [1, 2, 3, 1 << 40]},
        'table "second": feature "b": sample 1: index 1099511627776',
        "0 to 1",
    ),
    ({"lengths": [[2, 1], [-1, 2]]}, 'feature "b": sample 0: length -1', "0 or more"),
    ({"lengths": [[2, 1], [0, 2]]}, "batch: lengths sum to 5, but there are 4 indices", ""),
    (
        {"lengths": [[2, 1], [1 << 62, 1 << 62]]},
        "batch: lengths sum to 9223372036854775811, but there are 4 indices",
        "",
    ),
    ({"lengths": [[2, 2]]}, "batch: 2 lengths", "2 features x 2 samples"),
    ({"lengths": [2, 1, 0, 1]}, "batch: lengths: shape [4]", "[features, samples]"),
    ({"indices": [1.0, 2.0, 3.0, 0.0]}, "batch: indices: type torch.float32", "torch.int32"),
    ({"weights": [1.0, 2.0]}, "batch: 2 weights for 4 indices", ""),
    (
        {"weights": [1.0, 2.0, 3.0, float("nan")]},
        'table "second": feature "b": sample 1: the weight of a lookup is NaN',
        "",
    ),
]


@pytest.mark.parametrize(("parts", "message", "allowed"), FAULTS)
def test_a_faulty_batch_is_named(parts: dict[str, list[Any]], message: str, allowed: str) -> None:
    collection = two()
    before = collection.weight("first").clone()
    with pytest.raises(InputError) as caught:
        collection(changed(OF_TWO, **parts))
    (problem,) = caught.value.problems
    assert f"{problem.place}: {problem.message}" == message
    assert problem.help.startswith(allowed)
    assert torch.equal(before, collection.weight("first"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(value: float) -> None:
    collection = two()
    before = {name: part.clone() for name, part in collection.state_dict().items()}
    grad = torch.zeros(2, 5)
    grad[1, 3] = value
    with pytest.raises(InputError, match='gradient: feature "b": sample 1'):
        collection(OF_TWO).backward(grad)
    assert all(torch.equal(before[name], part) for name, part in collection.state_dict().items())
    collection = two(refuse_not_finite=False)
    collection(OF_TWO).backward(grad)
    assert not collection.weight("second")[0].isfinite().all()
    assert collection.weight("first").isfinite().all()


def test_tables_of_eight_bits_are_not_trained() -> None:
    collection = two("int8")
    result = collection(OF_TWO)
    with pytest.raises(InputError, match="rows of 8 bits are read only"):
        result.backward(torch.ones(2, 5))


@pytest.mark.parametrize(
    ("tables", "features", "message"),
    [
        ([Table("t", 1, 1)] * 2, [Feature("f", "t")], "2 tables have this name"),
        ([Table("t", 1, 1)], [Feature("f", "t")] * 3, "3 features have this name"),
        ([Table("t", 1, 1)], [Feature("f", "u")], "unknown table 'u'"),
        ([Table("t", 1, 1)], [], "without features"),
        ([Table("t", 0, 1)], [Feature("f", "t")], "0 rows"),
        ([Table("t", 1, 0)], [Feature("f", "t")], "rows of 0 elements"),
        ([Table("t", -3, 1)], [Feature("f", "t")], r"table 't': -3 rows \(allowed: 1 to 2\^48\)"),
        ([Table("t", 2.5, 1)], [Feature("f", "t")], r"2.5 rows"),  # type: ignore[arg-type]
        ([Table("t", 1, 1, "float64")], [Feature("f", "t")], "unknown type 'float64'"),  # type: ignore[arg-type]
        ([Table("t", 1, 1)], [Feature("f", "t", "max")], "unknown pooling 'max'"),  # type: ignore[arg-type]
        ([Table("t", 1, 1, tier="moon")], [Feature("f", "t")], "unknown tier 'moon'"),  # type: ignore[arg-type]
        ([Table("t", 1 << 45, 64)], [Feature("f", "t")], "no memory for 8388608.0 GiB"),
        (
            [Table("t", 1, 1)],
            [Feature("f", "t"), Feature("g", "t", "none")],
            "with and without pooling",
        ),
        (
            [Table("t", 1, 1), Table("u", 1, 2)],
            [Feature("f", "t", "none"), Feature("g", "u", "none")],
            "rows of 2 and of 1 elements",
        ),
    ],
)
def test_faulty_tables_are_named(
    tables: list[Table], features: list[Feature], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        collection_of(tables, features, Sgd())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Sgd(learning_rate=float("nan")), "Sgd: learning_rate: nan is out of range"),
        (lambda: RowWiseAdaGrad(learning_rate=-1), "learning_rate: -1 is out of range"),
        (lambda: RowWiseAdaGrad(eps=float("inf")), "eps: inf is out of range"),
        (lambda: Sgd(weight_decay=-0.1), "weight_decay: -0.1"),
        (lambda: Sgd(clip_norm=0.0), "clip_norm: 0.0"),
        (lambda: Sgd(clip_value=float("nan")), "clip_value: nan"),
        (lambda: Adam(beta1=1.0), r"Adam: beta1: 1.0 .*0 to below 1"),
    ],
)
def test_faulty_optimizers_are_named(made: Callable[[], Optimizer], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made()


def test_faulty_learning_rates_and_seeds_are_named() -> None:
    collection = two()
    with pytest.raises(InputError, match="learning_rate: nan is out of range"):
        collection.set_learning_rate(float("nan"))
    with pytest.raises(InputError, match="seed: -1 is out of range"):
        collection_of([Table("t", 1, 1)], [Feature("f", "t")], Sgd(), seed=-1)


@pytest.mark.parametrize(
    ("planned", "message"),
    [
        ({"ranks": (1,)}, r"tables\[0\].ranks: "),
        ({"scheme": "diagonal"}, r"tables\[0\].scheme: .*table, column, row, table_row, data"),
        ({"scheme": "row", "ranks": ()}, r"tables\[0\].ranks: "),
        ({"ranks": (0, 0)}, "a whole table on 2 ranks"),
        ({"scheme": "column", "ranks": (0, 0), "sizes": (3, 3)}, "add up to 4"),
        ({"name": "u"}, "'u': is in the sharding plan, but not in the model"),
    ],
)
def test_faulty_plans_are_named(planned: dict[str, Any], message: str) -> None:
    plan = {"name": "t", "rows": 9, "columns": 4, "scheme": "table", "ranks": (0,), **planned}
    tables, features = [Table("t", 9, 4)], [Feature("f", "t")]
    with pytest.raises(InputError, match=message):
        ShardedEmbeddingCollection(
            tables, features, Sgd(), ShardingPlan("m", 1, 1, (TablePlan(**plan),))
        )


def test_shards_are_refused_as_whole_tables_are() -> None:
    plan = ShardingPlan("m", 1, 1, (TablePlan("t", 9, 4, "row", (0,)),))
    tables = [Table("t", 9, 4, "int8")]
    for features, message in (
        ([Feature("f", "u")], "unknown table 'u'"),
        ([], "without features"),
        ([Feature("f", "t")] * 2, "2 features have this name"),
    ):
        with pytest.raises(InputError, match=message):
            ShardedEmbeddingCollection(tables, features, Sgd(), plan)
    shards = ShardedEmbeddingCollection(tables, [Feature("f", "t")], Sgd(), plan)
    result = shards(SparseBatch(torch.tensor([[1]]), torch.tensor([3])))
    with pytest.raises(InputError, match='table "t": rows of 8 bits are read only'):
        result.backward(torch.ones(1, 4))


def test_weights_need_sums() -> None:
    collection = collection_of([Table("t", 4, 3)], [Feature("f", "t", "mean")], Sgd())
    batch = SparseBatch(torch.tensor([[1]]), torch.tensor([1]), torch.ones(1))
    with pytest.raises(InputError, match='feature "f"'):
        collection(batch)


def test_nothing_is_recorded_without_gradients() -> None:
    collection = two()
    before = collection.weight("first").clone()
    with torch.no_grad():
        assert not collection(OF_TWO).requires_grad
    with torch.inference_mode():
        assert not collection(OF_TWO).requires_grad
    result = collection(OF_TWO)
    assert result.requires_grad
    assert torch.equal(before, collection.weight("first"))
    result.sum().backward()
    assert not torch.equal(before, collection.weight("first"))


def of_rows(optimizer: Optimizer, part: Part | None, rows: int, dim: int) -> EmbeddingCollection:
    table = Table("t", rows, dim, "bfloat16", stochastic_rounding=True, part=part)
    return collection_of([table], [Feature("f", "t")], optimizer, seed=5)


def test_parts_start_and_round_as_the_whole() -> None:
    """A part of rows or columns has the values of the whole table, before and after steps whose
    rounding is by chance."""
    batch, grad = SparseBatch(torch.ones(1, 20).int(), torch.arange(20)), torch.randn(20, 24)
    whole = of_rows(Sgd(), None, 20, 24)
    rows = of_rows(Sgd(), Part("t", 20, first_row=12), 8, 24)
    columns = of_rows(Sgd(), Part("t", 20, first_column=7), 20, 17)
    assert 0.2 < whole.weight("t").abs().max() <= 20**-0.5
    for _ in range(2):
        assert torch.equal(rows.weight("t"), whole.weight("t")[12:])
        assert torch.equal(columns.weight("t"), whole.weight("t")[:, 7:])
        whole(batch).backward(grad)
        rows(SparseBatch(torch.ones(1, 8).int(), torch.arange(8))).backward(grad[12:])
        columns(batch).backward(grad[:, 7:])
    other = collection_of(whole.tables, whole.features, Sgd(), seed=6)
    assert not torch.equal(other.weight("t"), whole.weight("t"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_training_continues_from_a_saved_state(dtype: DType) -> None:
    tables = [Table("t", 9, 5, dtype, stochastic_rounding=True)]
    batch = SparseBatch(torch.tensor([[3, 2]]), torch.tensor([1, 8, 1, 0, 7]))

    def make(seed: int) -> EmbeddingCollection:
        return collection_of(tables, [Feature("f", "t")], Adam(), seed=seed)

    def train(collection: EmbeddingCollection) -> None:
        for _ in range(3):
            collection(batch).backward(torch.ones(2, 5))

    one = make(1)
    train(one)
    saved = {name: part.clone() for name, part in one.state_dict().items()}
    assert set(saved) == {"t.weight", "t.mean", "t.square", "step"}
    train(one)
    other = make(1)
    other.load_state_dict(saved)
    train(other)
    assert all(
        torch.equal(part, other.state_dict()[name]) for name, part in one.state_dict().items()
    )


def test_a_state_that_does_not_fit_is_refused() -> None:
    collection = collection_of([Table("t", 9, 5)], [Feature("f", "t")], RowWiseAdaGrad())
    saved = collection.state_dict()
    with pytest.raises(RuntimeError, match=r"Missing key.*t\.sum"):
        collection.load_state_dict({name: saved[name] for name in ("t.weight", "step")})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*more"):
        collection.load_state_dict({**saved, "more": torch.ones(1)})
    with pytest.raises(RuntimeError, match=r"\[9, 4\], expected \[9, 5\]"):
        collection.load_state_dict({**saved, "t.weight": torch.ones(9, 4)})


def test_state_is_the_memory_of_the_engine() -> None:
    """It outlives the module, and writing to it changes lookups."""
    collection = two()
    state = collection.state_dict()
    state["first.weight"][1] = 100
    state["first.weight"][2] = 23
    assert (collection(OF_TWO)[0, :3] == 123).all()
    del collection
    assert (state["first.weight"][1] == 100).all()


def sharded_two() -> ShardedEmbeddingCollection:
    """The tables of `two`, cut by columns, in one process."""
    tables = [Table("first", 4, 3), Table("second", 2, 2)]
    features = [Feature("a", "first"), Feature("b", "second")]
    planned = (
        TablePlan("first", 4, 3, "column", (0, 0)),
        TablePlan("second", 2, 2, "column", (0, 0)),
    )
    plan = ShardingPlan("test", 1, 1, planned)
    return ShardedEmbeddingCollection(tables, features, Sgd(learning_rate=1), plan)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # Dynamo's own look.
@pytest.mark.parametrize("make", [two] if KERNELS else [two, sharded_two])
def test_the_dense_part_compiles(
    make: Callable[[], EmbeddingCollection | ShardedEmbeddingCollection],
) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.sparse = make()
            self.over = torch.nn.Linear(5, 1)

        def forward(self, batch: SparseBatch) -> torch.Tensor:
            return torch.relu(self.over(self.sparse(batch) * 2))

    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:  # noqa: ANN401
        graphs.append(graph)
        return graph.forward

    plain, model = Model(), Model()
    compiled = torch.compile(model, backend=backend)
    for _ in range(2):
        results = [each(OF_TWO) for each in (plain, compiled)]
        assert torch.equal(*results)
        for result in results:
            result.sum().backward()
        with torch.no_grad():
            assert torch.equal(plain(OF_TWO), compiled(OF_TWO))
    states = [each.sparse.state_dict() for each in (plain, model)]
    assert all(torch.equal(part, states[1][name]) for name, part in states[0].items())
    start = make().state_dict()
    assert not all(torch.equal(part, start[name]) for name, part in states[0].items())
    assert any("relu" in str(graph.graph) for graph in graphs)


def test_no_samples() -> None:
    collection = two()
    empty = SparseBatch(torch.empty(2, 0, dtype=torch.int32), torch.empty(0, dtype=torch.int64))
    result = collection(empty)
    assert result.shape == (0, 5)
    result.sum().backward()
    assert np.isfinite(collection.weight("first").cpu().numpy()).all()
