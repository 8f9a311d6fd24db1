"""Fused kernels: attention, scans and convolutions that run as one kernel on accelerators.

Here: operations and bytes of each, and how one stands in for PyTorch's reference code in a capture.
Not here: where calls of the reference code are caught (`catching.py`).

- Attention computes a score for each pair of a query and a key that it may see: 2 (key width +
  value width) operations forward. Backward it computes the scores again: 2 (3 key width + 2 value
  width). It keeps its inputs, its result, and 4 bytes for each query and head. (Dao et al. 2022,
  arXiv:2205.14135)
- A scan in chunks of c tokens keeps its inputs. Backward it computes what it needs again, and each
  product of the forward pass has two gradients.
- The gated delta rule and Kimi's form of it multiply in each chunk and head: keys with keys, and
  queries with keys (c x c x k each), the triangular system's solution with values and keys (half of
  c x c x (v + k)), the state with keys and with queries, keys with new values (c x k x v each), and
  scores with new values (c x c x v). (Yang et al. 2024, arXiv:2412.06464, section 3.3)
- Mamba 2 multiplies in each chunk: B with C for each group (c x c x n), and for each head scores
  with values (c x c x p), B with values and C with the state (c x n x p each). (Dao and Gu 2024,
  arXiv:2405.21060, section 6)
- Mamba 1 takes 9 operations for each token, channel and state. (Gu and Dao 2023, arXiv:2312.00752,
  and its `selective_scan_fn`)
- A causal convolution takes 2 operations for each element and tap.
- An indexer multiplies in each head a query with each key that it may see, and adds up the heads
  with a weight each: 2 (width + 1) for each pair and head. (DeepSeek-AI 2025, DeepSeek-V3.2-Exp,
  section 2.1)
- Lightning attention multiplies in each block of c tokens and head: queries with keys, scores with
  values (c x c x d each), queries with the state and keys with values (c x d x d each). (MiniMax
  2025, arXiv:2501.08313, section 2.2)
- A recurrent layer multiplies each token with both matrices of its gates. It keeps its input and
  result, what PyTorch's fused cells keep of the gates (LSTM 4, GRU 5 times the width), and LSTM's
  cells. (`aten/src/ATen/native/cuda/RNN.cu`)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from .records import Kind, Product


@dataclass(frozen=True, slots=True)
class Mask:
    """Keys that a query sees."""

    causal: bool = True
    window: int = 0
    """Tokens that it sees up to itself; 0 for all."""
    chunked: bool = False
    """The window is a chunk: a query sees its own chunk only."""
    most: int = 0
    """Keys that an indexer chooses for each query; 0 for all."""

    def pairs(self, queries: int, keys: int) -> int:
        """Pairs of a query and a key that are seen. A causal mask hides half of a square (the
        diagonal counts half)."""
        if self.most and self.most < keys:
            return queries * self.most
        if not self.causal:
            return queries * (min(2 * self.window, keys) if self.window else keys)
        if self.window and self.window < keys:
            if self.chunked:
                whole, rest = divmod(queries, self.window)
                return (whole * self.window**2 + rest**2) // 2
            return queries * self.window - self.window**2 // 2
        return queries * (2 * keys - queries) // 2


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """One fused kernel with its sizes."""

    name: str
    kind: Kind
    flops: int
    flops_backward: int
    outputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    """Shapes and formats of its results."""
    kept: tuple[tuple[tuple[int, ...], torch.dtype], ...] = ()
    """Tensors that it keeps for the backward pass next to its inputs."""
    keeps_result: bool = False
    product: Product | None = None
    """The matrix product that it is, if it is one; its gradients are of the same size."""
    order: tuple[int, ...] = ()
    """Dimensions of its results as they lie in memory; in their own order when not given."""


class Log(Protocol):
    """A log of operations."""

    def add(
        self,
        name: str,
        kind: Kind,
        flops: int,
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor],
        product: Product | None = None,
    ) -> None:
        """Adds one operation."""


class _Stand(torch.autograd.Function):
    """A kernel that computes nothing: results and gradients have the right shapes."""

    @staticmethod
    def forward(ctx: Any, kernel: FusedKernel, log: Log, *tensors: torch.Tensor) -> Any:
        like = tensors[0]
        made = [
            torch.empty_permuted(
                shape, kernel.order or tuple(range(len(shape))), dtype=dtype, device=like.device
            )
            for shape, dtype in kernel.outputs
        ]
        kept = [like.new_empty(shape, dtype=dtype) for shape, dtype in kernel.kept]
        writes = [*made, *kept]
        log.add(kernel.name, kernel.kind, kernel.flops, tensors, writes, kernel.product)
        ctx.kernel, ctx.log, ctx.inputs = kernel, log, len(tensors)
        ctx.save_for_backward(*tensors, *kept, *(made if kernel.keeps_result else ()))
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        saved: tuple[torch.Tensor, ...] = ctx.saved_tensors
        inputs = saved[: ctx.inputs]
        wanted = ctx.needs_input_grad[2:]
        made = [
            torch.empty_like(tensor) if needed else None
            for tensor, needed in zip(inputs, wanted, strict=True)
        ]
        kernel: FusedKernel = ctx.kernel
        given = [gradient for gradient in gradients if gradient is not None]
        written = [tensor for tensor in made if tensor is not None]
        name, flops, product = f"{kernel.name}.backward", kernel.flops_backward, kernel.product
        if product:
            product = replace(product, batch=product.batch * flops // kernel.flops)
        ctx.log.add(name, kernel.kind, flops, [*saved, *given], written, product)
        return (None, None, *made)


def run(kernel: FusedKernel, log: Log, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Puts a kernel into the capture in place of the code that it stands for."""
    result: tuple[torch.Tensor, ...] = _Stand.apply(kernel, log, *tensors)
    return result


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: Mask,
    tokens_first: bool = False,
) -> FusedKernel:
    """Attention of tensors of batch x heads x tokens x width. Keys and values may have fewer heads.
    Its result lies in memory as the query does, or (`tokens_first`) with the heads of a token next
    to each other."""
    *lead, queries, key_width = query.shape
    value_width = value.shape[-1]
    heads = 1
    for size in lead:
        heads *= size
    pairs = heads * mask.pairs(queries, key.shape[-2])
    return FusedKernel(
        "attention" if mask.causal else "unmasked_attention",
        "attention",
        2 * pairs * (key_width + value_width),
        2 * pairs * (3 * key_width + 2 * value_width),
        (((*lead, queries, value_width), query.dtype),),
        (((*lead, queries), torch.float32),),
        keeps_result=True,
        order=(0, 2, 1, 3) if tokens_first else _order(query),
    )


def _order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Dimensions of a tensor as they lie in memory."""
    strides = tensor.stride()
    return tuple(sorted(range(tensor.dim()), key=lambda at: -strides[at]))


def delta_rule(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, chunk: int
) -> FusedKernel:
    """The gated delta rule of tensors of batch x tokens x heads x width."""
    batch, tokens, heads, v = value.shape
    k = key.shape[-1]
    chunks = -(-tokens // chunk)
    inside = chunk * chunk * (2 * k + v) + chunk * chunk * (v + k) // 2
    each = 2 * inside + 2 * 3 * chunk * k * v
    flops = batch * heads * chunks * each
    return FusedKernel("delta_rule", "scan", flops, 3 * flops, ((tuple(value.shape), query.dtype),))


def mamba2(values: torch.Tensor, states: torch.Tensor, chunk: int) -> FusedKernel:
    """Mamba 2's scan: values of batch x tokens x heads x p, B and C of batch x tokens x groups x
    n."""
    batch, tokens, heads, p = values.shape
    groups, n = states.shape[-2:]
    chunks = -(-tokens // chunk)
    each = groups * chunk * chunk * n + heads * (chunk * chunk * p + 2 * chunk * n * p)
    flops = 2 * batch * chunks * each
    return FusedKernel("mamba2", "scan", flops, 3 * flops, ((tuple(values.shape), values.dtype),))


def indexer(query: torch.Tensor, key: torch.Tensor, most: int) -> FusedKernel:
    """The choice of `most` keys for each query, by queries of batch x tokens x heads x width and
    keys of batch x tokens x width."""
    batch, queries, heads, width = query.shape
    keys = key.shape[1]
    flops = 2 * batch * heads * Mask().pairs(queries, keys) * (width + 1)
    chosen = (batch, queries, min(most, keys))
    return FusedKernel("indexer", "scan", flops, 0, ((chosen, torch.int32),))


def lightning(query: torch.Tensor, block: int) -> FusedKernel:
    """Linear attention in blocks, of tensors of batch x tokens x heads x width."""
    batch, tokens, heads, width = query.shape
    whole, rest = divmod(tokens, block)
    squares = whole * block**2 + rest**2
    flops = 4 * batch * heads * (squares * width + tokens * width**2)
    made = ((tuple(query.shape), query.dtype),)
    return FusedKernel("lightning_attention", "scan", flops, 3 * flops, made)


_GATES = {"LSTM": (4, 5), "GRU": (3, 5), "RNN_TANH": (1, 0), "RNN_RELU": (1, 0)}
"""Gates of a recurrent layer, and what it keeps, in widths."""


def recurrent(mode: str, values: torch.Tensor, width: int) -> FusedKernel:
    """A recurrent layer in one direction, of tokens x batch x channels."""
    tokens, batch, channels = values.shape
    gates, kept = _GATES[mode]
    flops = 2 * tokens * batch * gates * width * (channels + width)
    ends = 2 if mode == "LSTM" else 1
    shapes = ((tokens, batch, width), *[(batch, width)] * ends)
    return FusedKernel(
        "recurrent",
        "scan",
        flops,
        2 * flops,
        tuple((shape, values.dtype) for shape in shapes),
        (((tokens, batch, kept * width), values.dtype),) if kept else (),
        keeps_result=True,
    )


def mamba1(values: torch.Tensor, decay: torch.Tensor) -> FusedKernel:
    """Mamba 1's scan: values of batch x channels x tokens, a decay of channels x states."""
    flops = 9 * values.numel() * decay.shape[-1]
    return FusedKernel("mamba1", "scan", flops, 3 * flops, ((tuple(values.shape), values.dtype),))


def convolution(values: torch.Tensor, weight: torch.Tensor) -> FusedKernel:
    """A causal convolution of each channel with its own taps."""
    flops = 2 * values.numel() * weight.shape[-1]
    return FusedKernel(
        "causal_convolution",
        "convolution",
        flops,
        2 * flops,
        ((tuple(values.shape), values.dtype),),
    )
