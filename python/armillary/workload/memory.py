"""Peak memory of one NPU: weights, gradients, optimizer state, activations, temporary buffers.

Here: what layers keep, by formula, and what decides the peak of a rank. Not here: the peak itself
(`crates/layouts/src/memory.rs`), whether it fits (the platform knows), fragmentation, buffers of
communication libraries.

- Mixed-precision Adam takes for each parameter 2 bytes of weight, 2 of gradient (4 with fp32
  gradients) and 12 of optimizer state. ZeRO divides the last, the last two, or all of them by the
  ranks that share a shard.
- A GPT layer with dropout and a written score matrix keeps s b h (10 + 24 / t + 5 a s / h t) bytes,
  with sequence parallelism s b h / t (34 + 5 a s / h). With full recomputation it keeps its input,
  2 s b h.
- PyTorch's own functions (`saved="plain"`) also keep what fused kernels don't write: the gated
  function's value, and queries and keys before rotation. Their loss holds logits, the logarithms
  of their softmax, and two gradients of these.
- `kernels="eager"` keeps the same, and gradients in the working precision: a copy of each in the
  buckets of data parallelism, and that of the largest unit while it is accumulated. Gradients that
  are neither accumulated in 4 bytes nor reduced on the way need no copy. Fused multiplications
  accumulate gradients themselves. Autograd then gets an empty gradient of each shape.
- What is recomputed keeps its input instead of its results. The results exist again for one layer
  at a time, when the loss is gone.
- Inputs of multiplications may be kept in 8 bits.
- A frozen matrix keeps no input. Its adapter of low rank keeps the input and what lies between its
  own two matrices.

Sources: Rajbhandari et al. 2020 (arXiv:1910.02054, figure 1); Korthikanti et al. 2022
(arXiv:2205.05198, table 2); Li et al. 2020 (arXiv:2006.15704, section 3.2.3); huggingface/nanotron
(`nn/activations.py`, `optim/gradient_accumulator.py`, `tensor_parallel/functional.py`);
NVIDIA/TransformerEngine (`get_dummy_wgrad`) and NVIDIA/Megatron-LM
(`core/tensor_parallel/layers.py`, `cross_entropy.py`); PyTorch (`derivatives.yaml`: what `silu`,
`mul` and `log_softmax` keep; `LossNLL.cpp`, `SoftMax.cu`: gradients of the loss);
huggingface/transformers (`LlamaRMSNorm`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from .. import _core
from ..model.weights import LinearAttention, Weights, local_kv, query_width, vocabulary_rows
from .experts import share
from .indexer import chosen
from .layer import matrices, plain_attention
from .parallelism import Parallelism
from .schedule import Pass
from .setting import Setting
from .summary import Memory, Offloaded
from .zero import sharded

EMBEDDING, LAYER, HEAD = range(3)
"""Where a unit is in a model."""


class Sizes(NamedTuple):
    """Sizes of a unit on a rank."""

    dense: int
    """Trained parameters that data parallelism replicates."""
    expert: int
    """Trained parameters of routed experts."""
    frozen: int
    """Like `dense`, but not trained."""
    frozen_expert: int
    kept: int
    """Bytes kept of a micro-batch."""
    placeholders: int
    """Parameters for which fused sums of gradients hold an empty gradient: every shape once."""
    tensor: int
    """Parameters of the largest tensor."""
    narrow: int
    """Parameters with copies in 8 bits: as they are and transposed."""
    back: int
    """Bytes that recomputation brings back for its backward pass, where it counts layers."""
    spared: int
    """Bytes among `kept` that recomputation would not keep, where it counts layers."""
    place: int
    """`EMBEDDING`, `LAYER` or `HEAD`."""


class Rules(NamedTuple):
    """All that decides the memory of a stage besides its units."""

    whole: int
    """Bytes of tensors that live within a pass."""
    dropped: int
    """Most bytes that recomputation brings back for a layer."""
    counts_layers: bool
    """Whether recomputation counts layers."""
    loss: int
    """Bytes that the loss holds."""
    metric_logits: int
    """Bytes that metrics of training hold."""
    weight_bytes: int
    optimizer_bytes: int
    gradients: Literal["f", "e", "c"]
    """Fused multiplications add them up; plain PyTorch (eager) does; or `whole` counts them until
    they are copied."""


class Shares(NamedTuple):
    """Bytes that a rank holds under data parallelism and offloading."""

    zero: int
    experts_apart: bool
    """Whether experts are sharded over ranks of their own."""
    dense_ranks: int
    expert_ranks: int
    gradient_bytes: int
    stays: int
    """The first of weights, gradients and optimizer state that is offloaded; 3 where none is."""
    in_place: bool
    """Each gradient is added to the one before it as soon as it exists, and reduced in place."""
    copied: bool
    """PyTorch's `DistributedDataParallel` copies gradients into buckets. With fused kernels,
    gradients lie in the buckets from the start, as in Megatron's buffers."""
    owned: int | None = None
    """Parameters that the fullest rank updates, where it is not its share of each tensor."""


def on_rank(
    chunks: Sequence[Sequence[Sizes]], passes: Sequence[Pass], rules: Rules, shares: Shares
) -> tuple[Memory, Offloaded]:
    """Peak bytes on a rank of a stage of `chunks`, which runs `passes`, and what lies outside of
    its NPU."""
    held, away = _core.memory(chunks, passes, rules, shares)
    return Memory(*held), Offloaded(*away)


def shares(par: Parallelism, owned: int | None = None) -> Shares:
    """Bytes that a rank holds with this parallelism."""
    ranks = {part.group: part.size for part in sharded(Weights(1, 1), par)}
    return Shares(
        par.zero,
        par.ep > 1,
        ranks.get("zero") or ranks.get("dp") or 1,
        ranks.get("ezero") or ranks.get("edp") or 1,
        par.gradient_bytes,
        _AWAY[par.offload],
        not (par.fp32_gradients or par.overlap_grad_reduce),
        par.kernels == "eager" and par.copies > 1 and par.zero < 2,
        owned,
    )


_AWAY = {"none": 3, "optimizer": 2, "parameters": 0}
"""The first part that is offloaded."""


def layer_activations(at: Setting, layer: int) -> int:
    """Bytes that layer `layer` keeps of a micro-batch from its forward to its backward pass."""
    if at.par.recompute == "full":
        return at.cut
    if at.par.recompute == "ops":
        return _every_other(at, layer)
    mixed = _experts(at) if at.model.has_experts(layer) else _perceptron(at, at.model.ffn)
    return _attention(at) + mixed


def _every_other(at: Setting, layer: int) -> int:
    """With `ops`: the layer's input, the attention's result and what it keeps, every other product
    of the attention block, and of the perceptron or the experts; with sp the sums that
    reduce-scatters gave, too."""
    model, heads = at.model, at.model.heads // at.par.tp
    sums, fifth = at.par.sp and at.par.tp > 1, model.q_rank > 0
    width = at.tokens * at.par.bytes.activation
    attention = at.cut * (2 if sums or fifth else 1) + width * _products(at, heads)
    experts = model.has_experts(layer)
    ffn = model.shared_experts * model.expert_ffn if experts else model.ffn
    half = width * (ffn // at.par.tp) + (at.cut if sums or not fifth else 0) if ffn else 0
    sent = _sent(at) if experts else 0
    return attention + _scores(at, heads) + half + sent + 2 * at.mask


def _products(at: Setting, heads: int) -> int:
    """With `ops`: elements of a token that an attention block keeps besides its input and output.

    The first and third products are queries and values; of MLA queries and what keys and values
    were expanded to, or, with compressed queries, both compressed ones."""
    model = at.model
    result = heads * model.value_width
    if not model.kv_rank:
        values = local_kv(model, at.par.tp) * model.value_width
        return heads * model.key_width + values + result
    if model.q_rank:
        return model.q_rank + model.kv_rank + model.rope_dim + result
    expanded = heads * (model.key_width - model.rope_dim + model.value_width)
    return heads * model.key_width + expanded + result


def _sent(at: Setting) -> int:
    """With `ops`: what all-to-alls brought to experts and back. Grouped multiplications are not
    among the operations whose results stay."""
    ways = 2 if at.par.ep > 1 else 0
    return ways * share(at).sent * at.model.hidden * at.par.bytes.activation


def _kept(at: Setting) -> int:
    """Bytes of an element that is kept as an input of 8-bit multiplications, or of another
    width's."""
    return at.par.bytes.gemm if at.par.fp8_activations else at.par.bytes.activation


def _trained(at: Setting, matrix: str) -> bool:
    """Whether a matrix, or its adapter, is trained."""
    return not at.par.lora_rank or matrix in at.par.adapted


def _between(at: Setting, *names: str) -> int:
    """Bytes between both matrices of the adapters of some matrices."""
    rank = at.tokens * at.par.lora_rank * at.par.bytes.activation
    linears = (*plain_attention(at), *matrices(at, at.model.ffn, at.par.tp)) if rank else ()
    adapted = (x for x in linears if x.name in names and x.name in at.par.adapted)
    return rank * sum(len(x.each()) for x in adapted)


def _normed(at: Setting, matrix: str = "") -> int:
    """The input of a norm, and what it gave the `matrix` after it, unless it is computed again or
    the matrix is frozen; of a norm after the block, its input."""
    inputs = at.cut * (2 if at.model.norms == 4 else 1)
    if "layernorm" in at.par.modules:
        return inputs
    if not _trained(at, matrix):
        return inputs + (0 if at.par.fused_norm else inputs // at.par.bytes.activation * _APART)
    given = at.tokens if at.par.keeps_gathered else at.kept
    apart = 0 if at.par.fused_norm else inputs // at.par.bytes.activation * _APART
    return inputs + apart + given * at.model.hidden * _kept(at)


_APART = 6
"""Bytes of an element that a norm of several operations keeps besides its input: that in 4 bytes,
and its normalized value in 2."""


def _attention(at: Setting) -> int:
    """Inputs of norm and matrices, queries, keys and values, the scores or their row sums, the
    output's input, a mask."""
    model, tp, width = at.model, at.par.tp, at.par.bytes.activation
    heads = model.heads // tp
    if model.linear_key_heads:
        return _normed(at) + at.tokens * width * _linear_states(at) + at.mask
    kv = heads if model.kv_rank else local_kv(model, tp)
    states_ = heads * (query_width(model) + model.value_width) + kv * (
        model.key_width + model.value_width
    )
    if at.plain and not model.positions:
        states_ += (heads + kv) * model.key_width
    if "mla_up_proj" in at.par.modules:
        states_ = heads * model.value_width
    return (
        _normed(at, "qkv")
        + at.tokens * (width * states_ + _compressed(at))
        + _scores(at, heads)
        + chosen(at)
        + at.mask
        + _between(at, "qkv", "out")
    )


def _linear_states(at: Setting) -> int:
    """Elements a token of linear attention: what enters and leaves the convolution, the rule's
    result, the gate and their product."""
    wide = LinearAttention.of(at.model, at.par.tp)
    return 2 * wide.mixed + 3 * wide.values


def _compressed(at: Setting) -> int:
    """MLA: bytes a token of compressed queries, keys and values, before and after their norms."""
    model, width = at.model, at.par.bytes.activation
    if not model.kv_rank:
        return 0
    ranks = model.q_rank + model.kv_rank
    after = 0 if "mla_up_proj" in at.par.modules else _kept(at) * ranks
    return width * (ranks + model.rope_dim) + after


def _scores(at: Setting, heads: int) -> int:
    """Bytes that the attention core keeps: the score matrix after softmax, its mask, the product;
    or 4 bytes for each row of it."""
    if at.par.attention == "flash":
        return 4 * at.tokens * heads
    if at.par.recompute == "selective" or "core_attn" in at.par.modules:
        return 0
    width = at.par.bytes.activation
    return at.tokens * (at.par.seq or 0) * heads * (2 * width + 1 if at.model.dropout else width)


def _perceptron(at: Setting, ffn: int) -> int:
    """Inputs of norm and both matrices, of the function between them, a mask."""
    if "mlp" in at.par.modules:
        return _normed(at, "up") + at.mask
    inner = at.tokens * (ffn // at.par.tp) * _widths(at, "activation")
    return _normed(at, "up") + inner + at.mask + _between(at, "up", "down")


def _widths(at: Setting, *modules: str) -> int:
    """Bytes of tensors of the inner width: what the function reads, and its value, unless one of
    `modules` computes it again; eager, the gate after the function, too."""
    inputs = 2 if at.model.gated else 1
    if at.par.modules.intersection(modules):
        return inputs * _kept(at)
    gate = at.par.bytes.activation if at.plain and at.model.gated else 0
    value = _kept(at) if _trained(at, "down") else 0
    return inputs * _kept(at) + value + gate


def _experts(at: Setting) -> int:
    """Inputs of norm and router, tokens as sent and as returned, the experts' insides, those of
    shared experts."""
    model, par, count = at.model, at.par, share(at)
    if "moe" in par.modules:
        return _normed(at) + at.mask
    width = par.bytes.activation
    # Experts' input, and with weights after them their results.
    sent = (
        par.bytes.gemm if par.fp8_activations else 1 if par.fp8_dispatch and par.ep > 1 else width
    )
    back = 0 if par.gates_inside else width
    inner = count.computed * model.expert_ffn // par.expert_tp
    routed = count.sent * model.hidden * (sent + back) + inner * _widths(
        at, "activation", "moe_act"
    )
    inner = model.shared_experts * model.expert_ffn // par.tp * at.tokens
    shared = inner * _widths(at, "activation")
    return _normed(at) + routed + (0 if "shared_experts" in par.modules else shared) + at.mask


def projection_activations(at: Setting) -> int:
    """Bytes that multi-token prediction keeps: inputs of both norms and of the projection, a row of
    the embedding's mask."""
    return (
        2 * at.cut
        + 2 * at.kept * at.model.hidden * _kept(at) // (1 if at.par.sp else at.par.tp)
        + at.mask
    )


def embedding_activations(at: Setting) -> int:
    """The mask of the dropout after the embedding."""
    return at.mask


def head_activations(at: Setting) -> int:
    """Inputs of the final norm and, unless it is frozen, of the head, and what the loss holds at
    most."""
    return (1 if at.par.lora_rank else 2) * at.cut + loss(at)


def loss(at: Setting) -> int:
    """Bytes that the loss holds at most. Nothing of them is left when layers run backwards.

    Fused: logits in 4 bytes, which become gradients; eager, their exponentials as well. Plain:
    logits as the head gave them, logarithms of their softmax in 4 bytes, and, in the backward pass,
    gradients of these and of the logits, in 4 bytes each."""
    par = at.par
    rows = at.tokens * vocabulary_rows(at.model, 1 if par.gathered_logits else par.tp)
    if par.loss == "plain":
        return rows * (par.bytes.activation + 12)
    return rows * (8 if at.eager else 4)


def metric_logits(at: Setting) -> int:
    """Bytes that metrics of training hold after a backward pass: the logits, the same in 4 bytes,
    and the logarithms of their softmax."""
    if not at.par.loss_metrics:
        return 0
    return at.tokens * vocabulary_rows(at.model, at.par.tp) * (at.par.bytes.activation + 8)


def rules(at: Setting, dropped: int) -> Rules:
    """The rules of a decoder's memory, whose recomputation brings `dropped` bytes back for a layer.

    Under sequence parallelism four hidden states are whole at once in a backward pass: a block's
    gathered input and gradient, and what is yet to be reduce-scattered of each."""
    par = at.par
    return Rules(
        4 * at.full if par.sp and par.tp > 1 else 0,
        dropped,
        par.recompute_layers is not None,
        loss(at),
        metric_logits(at),
        par.bytes.weight,
        par.bytes.optimizer,
        "e" if at.eager else "f",
    )
