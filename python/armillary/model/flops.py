"""Floating-point operations of a decoder: a layer's, and a training step's.

Operations of a forward pass: 2 for each weight and token, and 2 x sequence x (score + value width)
x heads a token for attention. Sources: Narayanan et al. 2021 (arXiv:2104.04473, appendix);
DeepSeek-V2 (arXiv:2405.04434)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .decoder import Decoder
from .weights import LinearAttention, attention_matrices, indexer_matrices, up_projections


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of a training step, the attention's score matrix counted whole (as
    is the custom)."""

    model: int
    """Forward and twice that backward; once for frozen matrices."""
    hardware: int
    """Operations including those that are computed again."""


class Repeated(NamedTuple):
    """Layers that are recomputed whole."""

    layers: Sequence[int]
    ends: Sequence[int]
    """Those among them that are the last of a checkpoint, where an early stop ends."""
    mtp: int
    """Multi-token-prediction modules, each a layer like the last."""


def step_flops(
    model: Decoder,
    batch: int,
    sequence: int,
    recompute: str = "none",
    modules: frozenset[str] = frozenset(),
    mtp: int = 0,
    adapters: int = 0,
    whole: Repeated | None = None,
) -> Flops:
    """Operations of a step over `batch` samples of `sequence` tokens, `mtp` multi-token-prediction
    modules included. With `adapters`, weights of low-rank adapters in all layers, only these are
    trained: the model's own weights have no gradients.

    For a GPT without biases counted, and with `full` recomputation, this is 96 B s l h^2 (1 + s /
    6h + V / 16lh), Narayanan et al. 2021, equation 3; without recomputation 72 B s l h^2 (1 + s /
    6h + V / 12lh). `full, early stop` leaves out the last matrix of dense layers; `ops` has those
    of keys, attention's output (`ops, sums kept` doesn't) and a gated perceptron's second input,
    and all of the routed experts.
    `modules` are recomputed by themselves, and layers that are recomputed whole are those of
    `whole`; when not given, all."""
    tokens = batch * sequence
    core = model.over_layers(lambda layer: attention_flops(model, layer, tokens, sequence))
    core += mtp * attention_flops(model, model.layers - 1, tokens, sequence)
    index = (model.layers + mtp) * indexer_flops(model, tokens, sequence)
    last = multiplied(model, model.layers - 1)
    linear = 2 * tokens * (model.over_layers(lambda layer: multiplied(model, layer)) + mtp * last)
    projection = 2 * tokens * mtp * 2 * model.hidden * model.hidden
    matrices = linear + projection + (1 + mtp) * 2 * tokens * model.hidden * model.vocabulary
    low = 2 * tokens * adapters
    total = 3 * (core + low) + (2 if adapters else 3) * matrices + index
    if recompute.startswith("full"):
        every = range(model.layers)
        whole = Repeated(every, every, mtp) if whole is None else whole
        again_whole = _whole(model, tokens, sequence, whole, early_stop=recompute != "full")
        return Flops(total, total + again_whole + low * len(whole.layers) // model.layers)
    again = {"none": 0, "selective": core}
    if modules:
        alone = (
            2
            * tokens
            * (
                model.over_layers(lambda layer: _alone(model, layer, modules))
                + mtp * _alone(model, model.layers - 1, modules)
            )
        )
        again = dict.fromkeys(
            ("none", "selective"), alone + (core if {"core_attn"} & modules else 0)
        )
        again["selective"] = alone + core
    if recompute not in again:
        once = 2 * tokens * model.hidden
        out = model.heads * model.value_width
        dense = (
            model.layers - model.expert_layers + (0 if model.has_experts(model.layers - 1) else mtp)
        )
        routed = model.expert_layers + (mtp if model.has_experts(model.layers - 1) else 0)
        halves = dense * _half(model, model.ffn) + routed * _experts_again(model)
        lasts = dense * model.ffn + routed * model.shared_experts * model.expert_ffn
        keys = (model.layers + mtp) * _attention_again(model)
        again["ops, sums kept"] = 2 * tokens * (keys + model.hidden * halves)
        # With compressed queries the last product is an even one, and the output's an odd one.
        summed = lasts if model.q_rank else (model.layers + mtp) * out
        again["ops"] = again["ops, sums kept"] + once * summed
    return Flops(total, total + again[recompute])


def _whole(model: Decoder, tokens: int, sequence: int, whole: Repeated, early_stop: bool) -> int:
    """Operations of layers that are recomputed whole. An early stop leaves out the last matrix of a
    dense layer at the end of a checkpoint."""
    modules = [model.layers - 1] * whole.mtp
    matrices = sum(multiplied(model, layer) for layer in (*whole.layers, *modules))
    if early_stop:
        dense = sum(not model.has_experts(layer) for layer in (*whole.ends, *modules))
        matrices -= model.hidden * model.ffn * dense
    core = sum(
        attention_flops(model, layer, tokens, sequence) for layer in (*whole.layers, *modules)
    )
    index = (len(whole.layers) + whole.mtp) * indexer_flops(model, tokens, sequence)
    return 2 * tokens * matrices + core + index


def _half(model: Decoder, ffn: int) -> int:
    """Weights of a perceptron, over the hidden width, that `ops` multiplies with again."""
    return ffn if model.gated else 0


def _attention_again(model: Decoder) -> int:
    """Weights of an attention block that `ops` multiplies with again, without the output's: every
    other one of queries, keys and values, or of MLA's matrices."""
    if model.q_rank:
        return up_projections(model)
    if model.kv_rank:
        return model.hidden * (model.kv_rank + model.rope_dim)
    return model.hidden * model.kv * model.key_width


def _experts_again(model: Decoder) -> int:
    """Weights of a token's experts, over the hidden width, that `ops` multiplies with again: all of
    the routed ones and the router's, and every other one of the shared."""
    matrices = 3 if model.gated else 2
    shared = _half(model, model.shared_experts * model.expert_ffn)
    return matrices * model.top_k * model.expert_ffn + model.experts + shared


def _alone(model: Decoder, layer: int, modules: frozenset[str]) -> int:
    """Weights of a layer that a token is multiplied with again where only `modules` are
    recomputed."""
    perceptron = (3 if model.gated else 2) * model.hidden
    found = up_projections(model) if "mla_up_proj" in modules else 0
    if not model.has_experts(layer):
        return found + (perceptron * model.ffn if "mlp" in modules else 0)
    if "moe" in modules:
        visited = (model.top_k + model.shared_experts) * model.expert_ffn
        return found + perceptron * visited + model.hidden * model.experts
    return (
        found + ("shared_experts" in modules) * perceptron * model.shared_experts * model.expert_ffn
    )


def attention_flops(model: Decoder, layer: int, tokens: int, sequence: int) -> int:
    """Scores and weighted sum of layer `layer`, forward: each of `tokens` against the keys that it
    sees, doubled."""
    like = model.of(layer)
    if like.linear_key_heads:
        return LinearAttention.of(like).flops(tokens)
    return 2 * tokens * like.seen(sequence) * like.heads * (like.key_width + like.value_width)


def indexer_flops(model: Decoder, tokens: int, sequence: int) -> int:
    """Operations of a layer's indexer, forward: matrices, and in each head a product and a weight
    for each key, counted whole. It has no backward pass."""
    scores = tokens * sequence * model.index_heads * (model.index_dim + 1)
    return 2 * (tokens * sum(indexer_matrices(model)) + scores)


def multiplied(model: Decoder, layer: int) -> int:
    """Weights of a layer that a token is multiplied with: those of linear layers it visits, without
    norms and biases."""
    h = model.hidden
    matrices = 3 if model.gated else 2
    attention = sum(attention_matrices(model.of(layer), 1))
    if not model.has_experts(layer):
        return attention + matrices * h * model.ffn
    visited = (model.top_k + model.shared_experts) * model.expert_ffn
    return attention + matrices * h * visited + h * model.experts
