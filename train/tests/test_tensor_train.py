"""Tables as trains of tensors: shapes, lookups, exact gradients, and training with them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from armillary.errors import InputError
from armillary_train.tables.tensor_train_shapes import Rule, Shape

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

from conftest import Armillary
from embedding_reference import Case, factors, forward, gradients

from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import Adam, Optimizer, RowWiseAdaGrad, Sgd
from armillary_train.tables.table import Feature, Pooling, Table
from armillary_train.tables.tensor_train import SplitEmbeddings, TensorTrainCollection

SHAPES = [
    Shape("t", 23, 12, (3, 4, 2), (2, 3, 2), (3, 2)),
    Shape("t", 23, 12, (5, 5), (3, 4), (6,)),
    Shape("t", 23, 12, (2, 3, 2, 2), (2, 1, 3, 2), (1, 4, 2)),
]


def reconstructed(collection: TensorTrainCollection, shape: Shape) -> np.ndarray:
    """The whole table, core by core, in plain numpy with 64 bits."""
    whole = np.ones((1, 1, 1))
    for number, core in enumerate(collection._of(shape)):
        before, after = shape.bounds[number : number + 2]
        slices = core.double().numpy().reshape(len(core), before, -1, after)
        whole = np.einsum("mnr,krcs->mkncs", whole, slices)
        m, k, n, c, r = whole.shape
        whole = whole.reshape(m * k, n * c, r)
    return whole[: shape.rows, :, 0]


def batch_of(seed: int, pooling: Pooling, weighted: bool) -> Case:
    """Two features of the table, with repeated rows and empty bags."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 5, (2, 6))
    lengths[0, 0] = 0
    indices = torch.from_numpy(random.integers(0, 23, lengths.sum()) // 2 * 2)
    weights = torch.from_numpy(random.standard_normal(len(indices))).float()
    features = [Feature("f", "t", pooling), Feature("g", "t", pooling)]
    shape = (len(indices), 12) if pooling == "none" else (6, 24)
    grad = torch.from_numpy(random.standard_normal(shape)).float()
    batch = SparseBatch(torch.from_numpy(lengths), indices, weights if weighted else None)
    return Case([Table("t", 23, 12)], features, batch, grad, Sgd(learning_rate=1))


CASES: list[tuple[Pooling, bool]] = [
    ("sum", False),
    ("sum", True),
    ("mean", False),
    ("none", False),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("pooling", "weighted"), CASES)
def test_lookups_are_those_of_the_whole_table(
    shape: Shape, pooling: Pooling, weighted: bool
) -> None:
    case = batch_of(1, pooling, weighted)
    collection = TensorTrainCollection([shape], case.features, case.optimizer, seed=3)
    whole = reconstructed(collection, shape)
    np.testing.assert_allclose(collection.whole("t"), whole, rtol=1e-5, atol=1e-6)
    expected = forward(case, {"t": whole})
    np.testing.assert_allclose(collection(case.batch).detach(), expected, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        np.testing.assert_allclose(collection(case.batch), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("pooling", "weighted"), CASES)
def test_gradients_are_finite_differences(shape: Shape, pooling: Pooling, weighted: bool) -> None:
    """With SGD at rate 1, the change of a core is its gradient. The table is linear in each element
    of a core, so that central differences are exact."""
    case = batch_of(2, pooling, weighted)
    collection = TensorTrainCollection([shape], case.features, case.optimizer, seed=3)
    table = gradients(case)["t"][0]
    expected = []
    for core in collection._of(shape):
        found = np.zeros(tuple(core.shape))
        for place in np.ndindex(*found.shape):
            old = core[place].item()
            values = []
            for step in (0.5, -0.5):
                core[place] = old + step
                values.append(float((reconstructed(collection, shape) * table).sum()))
            core[place] = old
            found[place] = values[0] - values[1]
        expected.append(found)
    before = [core.clone() for core in collection._of(shape)]
    collection(case.batch).backward(case.grad)
    for start, core, change in zip(before, collection._of(shape), expected, strict=True):
        np.testing.assert_allclose(start - core, change, rtol=1e-4, atol=1e-5)
        assert torch.equal(start[(change == 0).all(1)], core[(change == 0).all(1)])


def test_gradients_of_weights() -> None:
    shape, case = SHAPES[0], batch_of(3, "sum", True)
    collection = TensorTrainCollection([shape], case.features, case.optimizer)
    rows = reconstructed(collection, shape)[case.batch.indices]
    assert case.batch.weights is not None
    weights = case.batch.weights.clone().requires_grad_()
    collection(SparseBatch(case.batch.lengths, case.batch.indices, weights)).backward(case.grad)
    bags = np.repeat(np.arange(12), case.batch.lengths.numpy().ravel())
    grads = np.concatenate([case.grad.numpy()[:, :12], case.grad.numpy()[:, 12:]])
    assert weights.grad is not None
    np.testing.assert_allclose(weights.grad, (rows * grads[bags]).sum(1), rtol=1e-4, atol=1e-5)
    assert (factors(case, 0, slice(0, 1)) == case.batch.weights.numpy()[:1]).all()


def test_initial_rows_are_about_normal() -> None:
    """Variance 1 / (3 rows), as that of uniform weights, and the fourth moment of a normal
    distribution. A hundred thousand elements: five standard deviations of both are below these."""
    shape = Shape.of("t", 10_000, 64, 16)
    collection = TensorTrainCollection([shape], [Feature("f", "t")], Sgd(), seed=4)
    rows = collection.whole("t").double() * math.sqrt(3 * 10_000)
    assert rows.mean().abs() < 0.02
    assert rows.var() == pytest.approx(1, abs=0.1)
    assert (rows**4).mean() / rows.var() ** 2 == pytest.approx(3, abs=0.25)
    again = TensorTrainCollection([shape], [Feature("f", "t")], Sgd(), seed=4)
    other = TensorTrainCollection([shape], [Feature("f", "t")], Sgd(), seed=5)
    assert torch.equal(collection.whole("t"), again.whole("t"))
    assert not torch.equal(collection.whole("t"), other.whole("t"))


@pytest.mark.parametrize("optimizer", [RowWiseAdaGrad(learning_rate=0.1), Adam(learning_rate=0.1)])
def test_training_continues_from_a_saved_state(optimizer: Optimizer) -> None:
    case = batch_of(5, "mean", False)
    one = TensorTrainCollection([SHAPES[0]], case.features, optimizer, seed=1)
    other = TensorTrainCollection([SHAPES[0]], case.features, optimizer, seed=2)
    one(case.batch).backward(case.grad)
    saved = {name: part.clone() for name, part in one.state_dict().items()}
    assert {"cores.t.core0.weight", "cores.t.core2.weight", "cores.step"} <= set(saved)
    other.load_state_dict(saved)
    for each in (one, other):
        each(case.batch).backward(case.grad)
    assert all(
        torch.equal(part, other.state_dict()[name]) for name, part in one.state_dict().items()
    )


def test_a_faulty_batch_or_gradient_changes_nothing() -> None:
    case = batch_of(6, "sum", False)
    collection = TensorTrainCollection([SHAPES[0]], case.features, case.optimizer)
    before = collection.whole("t")
    case.batch.indices[-1] = 23
    with pytest.raises(InputError, match=r'table "t": feature "g": sample \d: index 23'):
        collection(case.batch)
    case.batch.indices[-1] = 22
    case.grad[3, 13] = math.nan
    with pytest.raises(InputError, match='gradient: feature "g": sample 3: nan'):
        collection(case.batch).backward(case.grad)
    assert torch.equal(before, collection.whole("t"))
    mixed = [Feature("f", "t"), Feature("g", "t", "none")]
    with pytest.raises(InputError, match="with and without pooling"):
        TensorTrainCollection([SHAPES[0]], mixed, Sgd())


def test_features_are_shared_out() -> None:
    """Features of tables and of trains next to each other give what each gives alone."""
    tables = [Table("a", 9, 4), Table("t", 23, 12), Table("b", 7, 5)]
    features = [Feature("f0", "t"), Feature("f1", "a"), Feature("f2", "t"), Feature("f3", "b")]
    random = np.random.default_rng(7)
    lengths = torch.from_numpy(random.integers(0, 4, (4, 5)))
    rows = {"a": 9, "t": 23, "b": 7}
    parts = [
        torch.from_numpy(random.integers(0, rows[each.table], int(count)))
        for each, count in zip(features, lengths.sum(1), strict=True)
    ]
    alone = [features[at] for at in (1, 3)]
    plain = [
        EmbeddingCollection([tables[0], tables[2]], alone, RowWiseAdaGrad(), seed=1)
        for _ in range(2)
    ]
    trains = [
        TensorTrainCollection([SHAPES[0]], [features[0], features[2]], RowWiseAdaGrad())
        for _ in range(2)
    ]
    split = SplitEmbeddings(tables, features, plain[0], trains[0])
    grad = torch.from_numpy(random.standard_normal((5, 33))).float()
    for _ in range(2):
        result = split(SparseBatch(lengths, torch.cat(parts)))
        result.backward(grad)
        for module, places, columns in (
            (plain[1], [1, 3], [*range(12, 16), *range(28, 33)]),
            (trains[1], [0, 2], [*range(12), *range(16, 28)]),
        ):
            batch = SparseBatch(lengths[places], torch.cat([parts[at] for at in places]))
            expected = module(batch)
            assert torch.equal(result[:, columns], expected)
            expected.backward(grad[:, columns])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rank=0", "rank 0 is out of range"),
        ("rank=1.5", "rank 1.5 is out of range"),
        ("rank=8,cores=1", "cores 1 is out of range"),
        ("rank=8,rank=9", "'rank=9' can't be read"),
        ("rows>=1e6", "no rank"),
        ("rank=8 rows>=10", "can't be read"),
        ("", "can't be read"),
    ],
)
def test_a_faulty_rule_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Rule.parse(text)
    (problem,) = caught.value.problems
    assert problem.place == "--tensor-train"
    assert message in problem.message
    assert problem.help


def test_shapes() -> None:
    assert Rule.parse(" rank=8, rows>=1e4 ,cores=2") == Rule(8, 2, 10_000)
    assert Rule(8).shape("t", 999_999, 16) is None
    shape = Rule(16).shape("t", 10_131_227, 16)
    assert shape is not None
    assert (shape.row_factors, shape.dim_factors) == ((217, 217, 216), (2, 2, 4))
    assert shape.elements == 217 * 2 * 16 + 217 * 16 * 2 * 16 + 216 * 16 * 4
    assert shape.ratio == pytest.approx(10_131_227 * 16 / shape.elements)
    for rows in (1, 2, 7, 8, 9, 1000, 1001, 12_345_678):
        for cores in (2, 3, 4):
            factors_of = Shape.of("t", rows, 16, 2, cores).row_factors
            assert rows <= math.prod(factors_of) < rows * 1.5 + 8
    with pytest.raises(InputError, match="rows of 7 elements are not a product of 3 numbers"):
        Shape.of("t", 100, 7, 4)
    with pytest.raises(InputError, match="a product of at least 100"):
        Shape("t", 100, 8, (4, 4, 4), (2, 2, 2), (1, 1))
    with pytest.raises(InputError, match="ranks 0 x 1"):
        Shape("t", 10, 8, (4, 4, 4), (2, 2, 2), (0, 1))
    with pytest.raises(InputError, match="at most 65,536"):
        Shape.of("t", 1000, 64, 256)


def test_a_model_with_trains_learns(armillary: Armillary, tmp_path: Path) -> None:
    """In one process and in two, to the same scores."""
    found: list[dict[str, Any]] = []
    for extra in (["--ranks", "1"], ["--ranks", "2"]):
        path = tmp_path / f"{len(found)}.json"
        call = armillary(
            "train", "dlrm-small", "--tensor-train", "rank=4,rows>=100", "--samples", "20480",
            "--global-batch", "512", "--lr", "0.05", "--dense-lr", "0.003", "--decay", "none",
            "--json", path, *extra,
        )  # fmt: skip
        assert call.returncode == 0, call.stderr
        assert "Tables made smaller: c1" in call.stdout
        found.append(json.loads(path.read_text()))
    assert set(found[0]["tensor_trains"]) == {"c1", "c2"}
    scores = [each["evaluations"][-1] for each in found]
    assert scores[0]["auc"] > 0.75
    assert scores[0]["loss"] == pytest.approx(scores[1]["loss"], rel=1e-3)


def test_a_plan_can_only_copy_trains(armillary: Armillary, tmp_path: Path) -> None:
    """Shards of a train are refused; a plan without it, or with copies, is right."""
    call = armillary(
        "workload", "dlrm-small", "--dp", "1", "--sharding", "row", "--write-plan", "plan.yml"
    )
    assert call.returncode == 0, call.stderr
    path = tmp_path / "plan.yml"
    text = path.read_text()
    options = ["train", "dlrm-small", "--samples", "512", "--eval-samples", "1000", "--plan", path]
    options += ["--tensor-train", "rank=4,rows>=200"]
    call = armillary(*options)
    assert call.returncode == 2
    assert "is 'row', but a train of tensors" in call.stderr
    (line,) = (line for line in text.splitlines() if "name: c1," in line)
    for other in ("", line.replace("scheme: row", "scheme: data")):
        path.write_text(text.replace(line, other))
        call = armillary(*options)
        assert call.returncode == 0, call.stderr


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--tensor-train", "rank=0"], "rank 0 is out of range"),
        (["--tensor-train", "rank=4,cores=5,rows>=100"], "rows of 16 elements are not a product"),
        (["--tensor-train", "rank=4"], "no table of dlrm-small has 1,000,000 rows"),
        (["--device", "cuda", "--ranks", "2"], "a GPU for each process, or --device cpu"),
        (["--device", "tpu"], "unknown device: 'tpu'"),
    ],
)
def test_faulty_settings_are_refused(armillary: Armillary, extra: list[str], message: str) -> None:
    call = armillary("train", "dlrm-small", "--samples", "512", *extra)
    assert call.returncode == 2
    assert message in " ".join(call.stderr.split())
