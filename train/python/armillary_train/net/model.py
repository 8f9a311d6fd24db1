"""A DLRM in PyTorch, from the same model file that the simulator reads.

Here: bottom MLP, interaction and top MLP, and the model around them. Not here: what a model file
may say (`armillary.model.dlrm`), embedding tables (`tables/embedding.py`, `ranks/sharded.py`).

With `B` samples, `T` tables of width `D`, and `F = T + 1` features:

    bottom       dense [B, dense features] -> [B, D]
    interaction  [B, D] and pooled rows [B, sum of widths] -> [B, inputs of the top MLP]
    top          -> logits [B]

Weights start as in facebookresearch/dlrm: normal, with variance 2 / (inputs + outputs) for
matrices and 1 / outputs for biases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from armillary.errors import InputError, Problem
from armillary.model.dlrm import Dense
from armillary.model.dlrm import Dlrm as Facts

from ..tables.batch import SparseBatch
from .dense import linear, pairs, places


class Layer(nn.Module):
    """A fully connected layer."""

    def __init__(self, facts: Dense, generator: torch.Generator, *, rectified: bool) -> None:
        super().__init__()
        self.rectified, self.name = rectified, facts.name
        weight = torch.empty(facts.outputs, facts.inputs)
        weight.normal_(0, math.sqrt(2 / (facts.inputs + facts.outputs)), generator=generator)
        self.weight = nn.Parameter(weight)
        self.bias: nn.Parameter | None = None
        if facts.bias:
            bias = torch.empty(facts.outputs)
            bias.normal_(0, math.sqrt(1 / facts.outputs), generator=generator)
            self.bias = nn.Parameter(bias)

    def forward(self, values: Tensor) -> Tensor:
        """[B, inputs] -> [B, outputs]."""
        if torch.is_grad_enabled():
            return linear(values, self.weight, self.bias, self.rectified, self.name)
        # The ReLU of oneDNN makes 0 of NaN. Gradients show that; an evaluation has none.
        out = linear(values, self.weight, self.bias, False, self.name)
        return out.relu_() if self.rectified else out


class Mlp(nn.Module):
    """Fully connected layers with ReLU between them; after the last one too, if `last`."""

    def __init__(self, layers: Sequence[Dense], *, last: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(
                Layer(each, generator, rectified=last or place + 1 < len(layers))
                for place, each in enumerate(layers)
            )
        )

    def forward(self, values: Tensor) -> Tensor:
        """[B, inputs] -> [B, outputs]."""
        out: Tensor = self.layers(values)
        return out


class Cross(nn.Module):
    """Cross layers of DCN V2 with low rank (Wang et al., 2021): `x0 * (U V x + b) + x`."""

    def __init__(self, layers: Sequence[Dense], generator: torch.Generator) -> None:
        super().__init__()
        made = [Layer(each, generator, rectified=False) for each in layers]
        self.down, self.up = nn.ModuleList(made[::2]), nn.ModuleList(made[1::2])

    def forward(self, first: Tensor) -> Tensor:
        """[B, n] -> [B, n]."""
        values = first
        for down, up in zip(self.down, self.up, strict=True):
            values = first * up(down(values)) + values
        return values


class DenseParts(nn.Module):
    """Parts of a model that are not tables: the MLPs and the interaction."""

    lower: Tensor
    whole: Tensor

    def __init__(self, facts: Facts, seed: int, compute: torch.dtype = torch.float32) -> None:
        super().__init__()
        _require_trainable(facts)
        self.compute = compute
        made = torch.Generator().manual_seed(seed)
        self.kind = facts.interaction.kind
        self.bottom = Mlp(facts.bottom, last=True, generator=made)
        self.cross = Cross(facts.interaction.layers, made) if self.kind == "cross" else None
        self.top = Mlp(facts.top, last=False, generator=made)
        lower, whole = places(facts.interaction.features)
        self.register_buffer("lower", lower, persistent=False)
        self.register_buffer("whole", whole, persistent=False)

    def forward(self, dense: Tensor, pooled: Tensor) -> Tensor:
        """dense [B, dense features] and pooled rows [B, sum of widths] -> logits [B], float32.

        Matrices are multiplied in the type `compute`."""
        return self.above(self.below(dense), pooled)

    def below(self, dense: Tensor) -> Tensor:
        """The bottom MLP: dense [B, dense features] -> [B, D], in the type `compute`."""
        low: Tensor = self.bottom(dense.to(self.compute))
        return low

    def above(self, low: Tensor, pooled: Tensor) -> Tensor:
        """Interaction and top MLP: `below`'s result and pooled rows -> logits [B], float32."""
        if self.kind == "dot":
            met = pairs(low, pooled, self.lower, self.whole)
        else:
            met = torch.cat((low, pooled.to(self.compute)), 1)
            met = met if self.cross is None else self.cross(met)
        logits: Tensor = self.top(met)
        return logits.squeeze(1).float()


class Dlrm(nn.Module):
    """Tables and dense parts: a batch in, a logit for each sample out.

    `embeddings` is a module that maps a `SparseBatch` to pooled rows [B, sum of widths]."""

    def __init__(
        self,
        facts: Facts,
        embeddings: nn.Module,
        *,
        seed: int,
        compute: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.parts = DenseParts(facts, seed, compute)

    def forward(self, dense: Tensor, sparse: SparseBatch) -> Tensor:
        """dense [B, dense features] and what each sample looks up -> logits [B]."""
        logits: Tensor = self.parts(dense, self.embeddings(sparse))
        return logits


def _require_trainable(facts: Facts) -> None:
    if facts.interaction.kind == "given":
        said = "the interaction of this model is not described, so that it can't be trained"
        allowed = "concat, dot or cross"
        raise InputError([Problem(facts.name, "interaction.kind", said, allowed)])
    if facts.top[-1].outputs != 1:
        said = f"the last layer has {facts.top[-1].outputs} outputs"
        raise InputError([Problem(facts.name, "top", said, "1: the logit of a click")])
