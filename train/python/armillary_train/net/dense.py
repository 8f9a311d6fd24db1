"""The two operations of a DLRM's dense parts, with their gradients: a fully connected layer with
ReLU, and the dot products of all pairs of features.

Here: what PyTorch computes more slowly in its general form. Not here: the layers of a model
(`model.py`).

On CPUs matrices are multiplied by oneDNN, with ReLU fused. PyTorch's `addmm` calls MKL, which
doesn't use AVX-512 on every processor: on AMD's Zen 5 it reaches 91 GFLOP/s on one core, oneDNN
203. Both compute in float32, or in bfloat16 when the values are. Products of pairs are the engine's
there, in float32 in both cases."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _train, profile_ranges


def linear(
    values: Tensor, weight: Tensor, bias: Tensor | None, rectified: bool, name: str = ""
) -> Tensor:
    """`values` [B, inputs] times `weight` [outputs, inputs] transposed, plus `bias` [outputs], cut
    off below 0 if `rectified`. Computed in the type of `values`; gradients of parameters have the
    parameters' type. `name` is the layer's, for profiles."""
    out: Tensor = _Linear.apply(values, weight, bias, rectified, name)
    return out


def pairs(low: Tensor, pooled: Tensor, lower: Tensor, whole: Tensor) -> Tensor:
    """Dot products of all pairs of the features `low` [B, D] and `pooled` [B, T * D], behind `low`:
    [B, D + F (F - 1) / 2] with `F = T + 1`, in the type of `low`. Pair (i, j) with i > j is at
    `i (i - 1) / 2 + j`.

    `lower` and `whole` are the `places` of F features."""
    types = (low.dtype, pooled.dtype)
    usual = types in ((torch.float32, torch.float32), (torch.bfloat16, torch.float32))
    on_engine = usual and low.device.type == "cpu" and low.numel() > 0
    out: Tensor
    if on_engine and not torch.compiler.is_compiling():
        out = _EnginePairs.apply(low, pooled)
    else:
        out = _Pairs.apply(low, pooled.to(low.dtype), lower, whole)
    return out


def places(features: int) -> tuple[Tensor, Tensor]:
    """Where the lower triangle is in a matrix of `features` x `features`, row by row, int64
    [pairs], and where each element of the matrix is in the list of pairs, int64
    [features * features]; the diagonal is behind its end."""
    row, column = torch.tril_indices(features, features, -1)
    count = len(row)
    whole = torch.full((features, features), count)
    whole[row, column] = whole[column, row] = torch.arange(count)
    return row * features + column, whole.view(-1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - PyTorch's own type
        values: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        rectified: bool,
        name: str,
    ) -> Tensor:
        matrix = weight.to(values.dtype)
        shift = None if bias is None else bias.to(values.dtype)
        with profile_ranges.part(f"{name}.forward"):
            out = product(values, matrix, shift, rectified)
        ctx.save_for_backward(values, weight, out if rectified else None)
        ctx.biased, ctx.name = bias is not None, name
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        values, weight, out = ctx.saved_tensors
        with profile_ranges.part(f"{ctx.name}.weight_gradient"):
            gradient = gradients[0].contiguous()
            if out is not None:
                gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
            forth = shift = None
            if ctx.needs_input_grad[1]:
                # The longer side of the weights is the one along which the product runs fast.
                if weight.shape[0] > weight.shape[1]:
                    forth = product(values.t(), gradient.t(), None, False).t()
                else:
                    forth = product(gradient.t(), values.t(), None, False)
                forth = forth.to(weight.dtype)
            if ctx.biased and ctx.needs_input_grad[2]:
                shift = gradient.sum(0, dtype=weight.dtype)
        back = None
        if ctx.needs_input_grad[0]:
            with profile_ranges.part(f"{ctx.name}.input_gradient"):
                back = product(gradient, weight.to(gradient.dtype).t(), None, False)
        return back, forth, shift, None, None


def product(
    left: Tensor, right: Tensor, shift: Tensor | None = None, rectified: bool = False
) -> Tensor:
    """`left` [m, k] times `right` [n, k] transposed, plus `shift` [n], cut off below 0 if
    `rectified`."""
    if left.device.type == "cpu":
        after = "relu" if rectified else "none"
        product: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, shift, after, [], "")
        return product
    out = torch.nn.functional.linear(left, right, shift)
    return out.relu_() if rectified else out


class _EnginePairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, low: Tensor, pooled: Tensor) -> Tensor:  # noqa: ANN401
        batch, dim = low.shape
        features = pooled.shape[1] // dim + 1
        with profile_ranges.part("interaction.forward"):
            first, others = low.float().contiguous(), pooled.contiguous()
            out = torch.empty(batch, dim + features * (features - 1) // 2)
            given = (first.numpy(), others.numpy())
            _train.pairs(batch, given, out.numpy(), torch.get_num_threads())
            ctx.save_for_backward(first, others)
            ctx.type = low.dtype
            return out.to(low.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        first, others = ctx.saved_tensors
        with profile_ranges.part("interaction.input_gradient"):
            low, pooled = torch.empty_like(first), torch.empty_like(others)
            given = (first.numpy(), others.numpy())
            gradient = gradients[0].float().contiguous().numpy()
            to = (low.numpy(), pooled.numpy())
            _train.pairs_gradient(len(first), given, gradient, to, torch.get_num_threads())
            return low.to(ctx.type), pooled


class _Pairs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        low: Tensor,
        pooled: Tensor,
        lower: Tensor,
        whole: Tensor,
    ) -> Tensor:
        batch, dim = low.shape
        with profile_ranges.part("interaction.forward"):
            joined = torch.cat((low, pooled), 1).view(batch, -1, dim)
            products = torch.bmm(joined, joined.transpose(1, 2)).view(batch, -1)
            ctx.save_for_backward(joined, whole)
            return torch.cat((low, products.index_select(1, lower)), 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        joined, whole = ctx.saved_tensors
        batch, features, dim = joined.shape
        given = gradients[0]
        # Both triangles of the matrix of gradients at once; its diagonal is 0.
        with profile_ranges.part("interaction.input_gradient"):
            padded = torch.nn.functional.pad(given[:, dim:], (0, 1))
            matrix = padded.index_select(1, whole).view(batch, features, features)
            back = torch.bmm(matrix, joined).view(batch, -1)
            return back[:, :dim] + given[:, :dim], back[:, dim:], None, None
