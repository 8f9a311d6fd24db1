"""Fused kernels against the reference code that they stand for."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch.utils.flop_counter import FlopCounterMode

from armillary.capture import fused
from armillary.capture.fused import FusedKernel, Mask

SOLVE = torch.ops.aten.linalg_solve_triangular


def solved(system: Sequence[int], right: Sequence[int], *_: object, **__: object) -> int:
    """A triangular system with ones on its diagonal takes n (n - 1) / 2 products and sums for each
    column; the diagonal counts as one more half row."""
    batch = 1
    for size in system[:-2]:
        batch *= size
    return batch * system[-1] ** 2 * right[-1]


def counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping={SOLVE: solved})


@pytest.mark.parametrize("draw", range(4))
def test_delta_rule_has_the_products_of_the_reference(draw: int) -> None:
    from transformers.models.qwen3_next import modeling_qwen3_next as reference

    drawn = random.Random(draw)
    batch, heads, chunk = drawn.randint(1, 2), drawn.randint(1, 3), drawn.choice([8, 16, 64])
    tokens = drawn.randint(chunk + 1, 3 * chunk)
    k, v = drawn.choice([8, 16]), drawn.choice([8, 24])
    query, key = torch.rand(2, batch, tokens, heads, k)
    value = torch.rand(batch, tokens, heads, v)
    decay = -torch.rand(batch, tokens, heads)
    with counter() as counted:
        reference.torch_chunk_gated_delta_rule(
            query, key, value, decay, torch.rand(batch, tokens, heads), chunk_size=chunk
        )
    assert fused.delta_rule(query, key, value, chunk).flops == counted.get_total_flops()


@pytest.mark.parametrize("draw", range(4))
def test_mamba_2_has_the_products_of_the_reference(draw: int) -> None:
    """The reference multiplies B and C for each head, which is the same where each head is a group,
    and passes states on by a product of chunks with chunks, where the kernel goes from chunk to
    chunk."""
    from transformers.models.mamba2 import modeling_mamba2 as reference

    drawn = random.Random(draw)
    batch, heads, chunk = drawn.randint(1, 2), drawn.randint(1, 3), drawn.choice([8, 16])
    tokens, p, n = drawn.randint(chunk + 1, 4 * chunk), drawn.choice([4, 8]), drawn.choice([8, 16])
    values = torch.rand(batch, tokens, heads, p)
    states = torch.rand(batch, tokens, heads, n)
    with counter() as counted:
        reference.mamba2_chunk_scan(
            values, torch.rand(batch, tokens, heads), -torch.rand(heads), states, states, chunk
        )
    passed = 2 * batch * heads * (-(-tokens // chunk) + 1) ** 2 * p * n
    assert fused.mamba2(values, states, chunk).flops + passed == counted.get_total_flops()


def test_a_causal_convolution_takes_two_operations_for_each_tap() -> None:
    values, weight = torch.rand(2, 6, 32), torch.rand(6, 4)
    with counter() as counted:
        padded = torch.nn.functional.pad(values, (3, 0))
        torch.nn.functional.conv1d(padded, weight.unsqueeze(1), groups=6)
    assert fused.convolution(values, weight).flops == counted.get_total_flops()


def test_mamba_1_takes_nine_operations_for_each_state() -> None:
    assert fused.mamba1(torch.rand(2, 6, 32), torch.rand(6, 8)).flops == 9 * 2 * 6 * 32 * 8


def seen(mask: Mask, tokens: int) -> int:
    """Pairs of a query and a key that are seen, one by one."""
    near = mask.window or tokens
    return sum(
        query // near == key // near if mask.chunked else not mask.causal or query - near < key
        for query in range(tokens)
        for key in range(query + 1 if mask.causal else tokens)
    )


@pytest.mark.parametrize("draw", range(20))
def test_pairs_of_a_mask(draw: int) -> None:
    """The diagonal counts half, and so does the far edge of a window."""
    drawn = random.Random(draw)
    tokens = drawn.randint(8, 64)
    window = drawn.randint(1, tokens - 1)
    assert Mask(causal=False).pairs(tokens, tokens) == seen(Mask(causal=False), tokens)
    assert Mask().pairs(tokens, tokens) == (2 * seen(Mask(), tokens) - tokens) // 2
    far = Mask(window=window)
    assert far.pairs(tokens, tokens) == (2 * seen(far, tokens) - window + 1) // 2
    chunked = Mask(window=window, chunked=True)
    assert chunked.pairs(tokens, tokens) == (2 * seen(chunked, tokens) - tokens) // 2
    assert Mask(most=4).pairs(tokens, tokens) == 4 * tokens


def test_attention_counts_both_passes() -> None:
    query = torch.empty(2, 4, 32, 16)
    key, value = torch.empty(2, 2, 32, 16), torch.empty(2, 2, 32, 8)
    kernel = fused.attention(query, key, value, Mask())
    pairs = 2 * 4 * 32 * 32 // 2
    assert kernel.flops == 2 * pairs * (16 + 8)
    assert kernel.flops_backward == 2 * pairs * (3 * 16 + 2 * 8)
    assert kernel.outputs == (((2, 4, 32, 8), torch.float32),)


class Log:
    def __init__(self) -> None:
        self.names: list[str] = []

    def add(
        self,
        name: str,
        kind: str,
        flops: int,
        reads: object,
        writes: object,
        product: object = None,
    ) -> None:
        self.names.append(name)


def test_a_fused_kernel_gives_gradients_to_those_who_want_them() -> None:
    log = Log()
    first, second = torch.rand(3, requires_grad=True), torch.rand(5)
    kernel = FusedKernel("made up", "scan", 1, 2, (((7,), torch.float32),))
    (result,) = fused.run(kernel, log, [first, second])
    torch.autograd.backward(result.sum())
    assert result.shape == (7,)
    assert first.grad is not None
    assert first.grad.shape == (3,)
    assert log.names == ["made up", "made up.backward"]
