"""The dense parts of a DLRM: our operations equal PyTorch's own, and the layers are the facts'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

from armillary.errors import InputError
from armillary.model import Model, load_model
from armillary.model.dlrm import Dlrm as Facts
from armillary.model.dlrm import parse

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

from armillary_train.net.dense import linear, pairs, places
from armillary_train.net.model import DenseParts


def facts(interaction: object, *, dims: tuple[int, ...] = (8, 8, 8), top: int = 1) -> Facts:
    tables = [{"rows": 10, "dim": dim} for dim in dims]
    fields = {
        "dense_features": 5,
        "bottom": [6, 8],
        "interaction": interaction,
        "top": [7, top],
        "tables": tables,
    }
    return parse(Model("made", "dlrm", fields))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=made).requires_grad_()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans())
@settings(max_examples=usually(20, 400), deadline=None)
def test_layers_equal_pytorch(
    batch: int, inputs: int, outputs: int, biased: bool, rectified: bool
) -> None:
    values, weight = drawn(batch, inputs), drawn(outputs, inputs, seed=1)
    bias = drawn(outputs, seed=2) if biased else None
    given = [each for each in (values, weight, bias) if each is not None]
    gradient = drawn(batch, outputs, seed=3).detach()
    found = linear(values, weight, bias, rectified)
    expected = torch.nn.functional.linear(values, weight, bias)
    expected = expected.relu() if rectified else expected
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        torch.autograd.grad(found, given, gradient),
        torch.autograd.grad(expected, given, gradient),
        rtol=1e-4,
        atol=1e-4,
    )


@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 9))
@settings(max_examples=usually(12, 250), deadline=None)
def test_pairs_are_all_dot_products(batch: int, tables: int, dim: int) -> None:
    low, pooled = drawn(batch, dim), drawn(batch, tables * dim, seed=1)
    found = pairs(low, pooled, *places(tables + 1))
    features = torch.cat((low, pooled), 1).view(batch, -1, dim)
    products = [
        (features[:, i] * features[:, j]).sum(1) for i in range(tables + 1) for j in range(i)
    ]
    expected = torch.cat((low, torch.stack(products, 1)), 1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    gradient = drawn(*found.shape, seed=2).detach()
    torch.testing.assert_close(
        torch.autograd.grad(found, (low, pooled), gradient),
        torch.autograd.grad(expected, (low, pooled), gradient),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "interaction", [{"kind": "concat"}, {"kind": "dot"}, {"kind": "cross", "layers": 2, "rank": 3}]
)
def test_parameters_are_those_of_the_facts(interaction: object) -> None:
    """The simulator counts what the trainer has."""
    found = facts(interaction)
    parts = DenseParts(found, seed=3)
    assert sum(each.numel() for each in parts.parameters()) == found.dense_parameters
    logits = parts(drawn(4, 5), drawn(4, 24, seed=1))
    assert logits.shape == (4,)
    logits.sum().backward()
    assert all(each.grad is not None for each in parts.parameters())


def test_cross_layers_follow_their_formula() -> None:
    parts = DenseParts(facts({"kind": "cross", "layers": 1, "rank": 3}), seed=3)
    assert parts.cross is not None
    x = drawn(4, 32)
    down, up, bias = parts.cross.parameters()
    expected = x * (x @ down.T @ up.T + bias) + x
    torch.testing.assert_close(parts.cross(x), expected)


def test_the_seed_decides_the_weights() -> None:
    one, same, other = (DenseParts(facts({"kind": "dot"}), seed=seed) for seed in (1, 1, 2))
    given = (drawn(4, 5), drawn(4, 24, seed=1))
    assert torch.equal(one(*given), same(*given))
    assert not torch.equal(one(*given), other(*given))


def test_bf16_is_close() -> None:
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no bf16")
    exact = DenseParts(facts({"kind": "dot"}), seed=1)
    rough = DenseParts(facts({"kind": "dot"}), seed=1, compute=torch.bfloat16)
    dense, pooled = drawn(50, 5), drawn(50, 24, seed=1)
    found = rough(dense, pooled)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact(dense, pooled), rtol=0.1, atol=0.1)
    assert not torch.equal(found, exact(dense, pooled))
    found.sum().backward()
    assert pooled.grad is not None and pooled.grad.dtype == torch.float32
    assert all(
        each.grad is not None and each.grad.dtype == torch.float32 for each in rough.parameters()
    )


def test_dense_parts_compile() -> None:
    parts = DenseParts(facts({"kind": "dot"}), seed=1)
    compiled = torch.compile(parts, backend="aot_eager")
    given = (drawn(4, 5), drawn(4, 24, seed=1))
    torch.testing.assert_close(compiled(*given), parts(*given))


def test_models_that_cant_be_trained() -> None:
    with pytest.raises(InputError, match="is not described"):
        DenseParts(facts({"kind": "given", "out": 4}), seed=0)
    with pytest.raises(InputError, match="has 2 outputs"):
        DenseParts(facts({"kind": "dot"}, top=2), seed=0)


@pytest.mark.parametrize("name", ["dlrm-criteo-kaggle", "dlrm-criteo-multi-hot", "dlrm-small"])
def test_presets_can_be_trained(name: str) -> None:
    found = parse(load_model(name))
    DenseParts(found, seed=0)
    if name == "dlrm-criteo-kaggle":
        assert (
            sum(table.rows for table in found.tables) == 33_762_577
        )  # README of the published set
    if name == "dlrm-criteo-multi-hot":
        assert sum(table.pooling for table in found.tables) == 214  # MLPerf's lookups of a sample
