"""The decoder both language-model families share: its fields, parameters and floating-point
operations, counted by layer.

Here: what a model is. Not here: how it is spread over ranks (`parallelism.py`), what a rank then
does (`layer.py`). A layer is attention (MHA, GQA, or MLA when `kv_rank` is set) and a multi-layer
perceptron or experts, each behind a norm. Operations of a forward pass: 2 for each weight and
token, and 2 x sequence x (score + value width) x heads a token for attention. Sources: Vaswani et
al. 2017 (arXiv:1706.03762); Narayanan et al. 2021 (arXiv:2104.04473, appendix); DeepSeek-V2
(arXiv:2405.04434)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from ..errors import InputError
from .models import Model, parse

MOST_PARAMETERS = 175 * 10**15
LINEAR = (
    "linear_key_heads",
    "linear_value_heads",
    "linear_key_dim",
    "linear_value_dim",
    "linear_kernel",
)


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder-only transformer, dense or with experts. Widths are elements, counts are counts."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    """Inner width of the dense perceptron."""
    vocabulary: int
    sequence: int
    """Tokens of a sample, unless the caller says otherwise."""
    kv_heads: int | None = None
    """Heads of keys and values (GQA); all heads when not given."""
    head_dim: int | None = None
    """Width of a head's queries and keys; hidden / heads when not given. For MLA the part without
    position."""
    positions: int = 0
    """Learned position embeddings; 0 for rotary ones."""
    gated: bool = False
    """Gated perceptron (SwiGLU): two matrices in, one out."""
    norm: str = "layer"
    """`layer` (gain and bias) or `rms` (gain)."""
    bias: bool = True
    """Biases on every linear layer but the head."""
    qkv_bias: bool | None = None
    """Biases on queries, keys and values; as `bias` when not given."""
    out_bias: bool | None = None
    """Biases on attention's output matrix; as `bias` when not given."""
    qk_norm: bool = False
    """A norm on each head's queries and keys."""
    dropout: bool = True
    """Dropout after attention scores, attention and perceptron: its masks are kept for the backward
    pass."""
    tied: bool = True
    """The head shares the embedding's weights."""
    q_rank: int = 0
    """MLA: width of compressed queries; 0 when they are not compressed."""
    kv_rank: int = 0
    """MLA: width of compressed keys and values; 0 for ordinary attention."""
    rope_dim: int = 0
    """MLA: width of the rotary part of queries and keys."""
    value_dim: int | None = None
    """MLA: width of a head's values; `head_dim` when not given."""
    experts: int = 0
    """Routed experts of a layer that has them; 0 for a dense model."""
    top_k: int = 1
    """Experts each token visits."""
    expert_ffn: int = 0
    """Inner width of an expert."""
    shared_experts: int = 0
    """Experts that every token visits."""
    first_dense: int = 0
    """Layers at the start without experts."""
    every: int = 1
    """Of the others, each `every`-th layer has experts."""
    router_bias: bool = False
    """A bias for each expert in the router."""
    shared_gate: bool = False
    """A gate on what the shared experts give."""
    window: int = 0
    """Tokens that a layer with a sliding window attends to; 0 for the whole sequence."""
    chunked: bool = False
    """The window is a chunk instead: a token attends to those of its own chunk (Llama 4)."""
    full_every: int = 0
    """Of layers with a window or linear attention, each `full_every`-th has full attention; 0: none
    has."""
    norms: int = 2
    """Norms of a layer: 1 for attention and perceptron side by side, 4 for norms before and after
    both."""
    sinks: bool = False
    """A learned score for each head that attends to nothing (gpt-oss)."""
    qk_norm_whole: bool = False
    """`qk_norm` over all heads together (OLMo 2), instead of each head."""
    gated_attention: bool = False
    """Queries come with a gate on attention's result (Qwen3-Next)."""
    linear_key_heads: int = 0
    """Linear attention (gated delta rule): heads of queries and keys; 0 without."""
    linear_value_heads: int = 0
    """Its heads of values."""
    linear_key_dim: int = 0
    """Width of one of its keys."""
    linear_value_dim: int = 0
    """Width of one of its values."""
    linear_kernel: int = 0
    """Tokens that its convolution spans."""

    @property
    def kv(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def key_width(self) -> int:
        """Width of one head's query or key."""
        return (self.head_dim or self.hidden // self.heads) + self.rope_dim

    @property
    def value_width(self) -> int:
        """Width of one head's value."""
        return self.value_dim or self.head_dim or self.hidden // self.heads

    def has_experts(self, layer: int) -> bool:
        """Whether layer `layer` (from 0) has experts."""
        return (
            bool(self.experts)
            and layer >= self.first_dense
            and (layer - self.first_dense + 1) % self.every == 0
        )

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return max(0, self.layers - self.first_dense) // self.every if self.experts else 0

    def has_full_attention(self, layer: int) -> bool:
        """Whether layer `layer` (from 0) attends to the whole sequence."""
        if not (self.window or self.linear_key_heads):
            return True
        return bool(self.full_every) and (layer + 1) % self.full_every == 0

    def of(self, layer: int) -> Decoder:
        """The model as layer `layer` is: its attention in all layers."""
        if self.has_full_attention(layer):
            if not (self.window or self.linear_key_heads):
                return self
            return replace(self, window=0, linear_key_heads=0, full_every=0)
        return replace(self, full_every=0) if self.full_every else self

    def seen(self, sequence: int) -> int:
        """Keys that a token of a sequence attends to, doubled: `sequence` with full causal
        attention.

        With a window of w tokens w s - w^2 / 2 of the pairs are seen, with chunks half of each
        chunk's square."""
        if not 0 < self.window < sequence:
            return sequence
        if self.chunked:
            whole, rest = divmod(sequence, self.window)
            return (whole * self.window**2 + rest**2) // sequence
        return 2 * self.window - self.window**2 // sequence

    def kinds(self) -> list[tuple[int, int]]:
        """A layer of each kind (experts or not, full attention or not), and how many are like
        it."""
        period = math.lcm(self.every if self.experts else 1, self.full_every or 1)
        start = min(self.first_dense, self.layers) if self.experts else 0
        parts = ((0, start, self.full_every or 1), (start, self.layers, period))
        return [
            (layer, (stop - layer - 1) // length + 1)
            for first, stop, length in parts
            for layer in range(first, min(first + length, stop))
        ]

    def over_layers(self, count: Callable[[int], int]) -> int:
        """The sum of `count(layer)` over all layers, one of each kind counted for all of its
        kind."""
        return sum(many * count(layer) for layer, many in self.kinds())


def decoder(model: Model) -> Decoder:
    """The model's fields, checked. Raises `InputError` listing every fault."""
    shape = parse(model, Decoder)
    allowed_zero = {
        "positions",
        "q_rank",
        "kv_rank",
        "rope_dim",
        "experts",
        "expert_ffn",
        "shared_experts",
        "first_dense",
        "window",
        "full_every",
        "linear_key_heads",
        "linear_value_heads",
        "linear_key_dim",
        "linear_value_dim",
        "linear_kernel",
    }
    problems = []
    for item in fields(Decoder):
        value = getattr(shape, item.name)
        least = 0 if item.name in allowed_zero else 1
        if isinstance(value, int) and not isinstance(value, bool) and not least <= value <= 2**24:
            problems.append(
                model.problem(item.name, f"{value} is out of range", f"{least} to 16,777,216")
            )
    if shape.norm not in ("layer", "rms"):
        problems.append(model.problem("norm", f"{shape.norm!r} is no norm", "layer, rms"))
    if not problems and not shape.kv_rank:
        if not shape.head_dim and shape.hidden % shape.heads:
            said = f"{shape.heads} heads don't divide the hidden width of {shape.hidden}"
            problems.append(model.problem("heads", said, "a divisor, or give head_dim"))
        if shape.heads % shape.kv:
            said = f"{shape.kv} heads of keys and values don't divide {shape.heads} heads"
            problems.append(model.problem("kv_heads", said, "a divisor of heads"))
    if shape.norms > 4:
        problems.append(model.problem("norms", f"{shape.norms} is out of range", "1 to 4"))
    linear = [name for name in LINEAR if not getattr(shape, name)]
    if 0 < len(linear) < len(LINEAR):
        problems.append(model.problem(linear[0], "is missing", "all of " + ", ".join(LINEAR)))
    if shape.full_every and not (shape.window or shape.linear_key_heads):
        problems.append(
            model.problem("full_every", "has no effect", "only with window or linear attention")
        )
    if shape.experts and not (shape.expert_ffn and shape.top_k <= shape.experts):
        said = f"{shape.experts} experts of inner width {shape.expert_ffn}, {shape.top_k} for each token"
        problems.append(model.problem("experts", said, "an expert_ffn, and top_k up to experts"))
    if not problems and parameters(shape) > MOST_PARAMETERS:
        said = f"{parameters(shape)} parameters"
        problems.append(
            model.problem("layers", said, f"up to {MOST_PARAMETERS}, a million times GPT-3's")
        )
    if problems:
        raise InputError(problems)
    return shape


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters one rank holds."""

    dense: int = 0
    """Replicated over all of data parallelism."""
    expert: int = 0
    """Of routed experts: replicated over data parallelism less expert parallelism."""

    def __add__(self, other: Weights) -> Weights:
        return Weights(self.dense + other.dense, self.expert + other.expert)

    @property
    def total(self) -> int:
        """Both."""
        return self.dense + self.expert


@dataclass(frozen=True, slots=True)
class Tensors:
    """Parameters of each tensor that one rank holds; gains and biases of a layer count as one."""

    dense: tuple[int, ...] = ()
    expert: tuple[int, ...] = ()


def layer_tensors(model: Decoder, layer: int, tp: int = 1, ep: int = 1) -> Tensors:
    """Tensors of layer `layer` on a rank, which add up to `layer_weights`."""
    weights = layer_weights(model, layer, tp, ep)
    dense, expert = _attention_matrices(model.of(layer), tp), []
    if model.has_experts(layer):
        dense.append(model.experts * model.hidden)
        dense += _perceptron_matrices(model, model.shared_experts * model.expert_ffn, tp)
        expert = model.experts // ep * _perceptron_matrices(model, model.expert_ffn, tp)
    else:
        dense += _perceptron_matrices(model, model.ffn, tp)
    rest = weights.dense - sum(dense), weights.expert - sum(expert)
    with_rest = (
        tuple(n for n in (*found, left) if n)
        for found, left in zip((dense, expert), rest, strict=True)
    )
    return Tensors(*with_rest)


def narrow_weights(model: Decoder, layer: int, tp: int = 1, ep: int = 1) -> Weights:
    """Parameters of layer `layer` on a rank that are multiplied with in 8 bits: all matrices but
    the router."""
    dense = sum(_attention_matrices(model.of(layer), tp))
    if not model.has_experts(layer):
        return Weights(dense + sum(_perceptron_matrices(model, model.ffn, tp)))
    shared = sum(_perceptron_matrices(model, model.shared_experts * model.expert_ffn, tp))
    routed = model.experts // ep * sum(_perceptron_matrices(model, model.expert_ffn, tp))
    return Weights(dense + shared, routed)


def _perceptron_matrices(model: Decoder, ffn: int, tp: int) -> list[int]:
    return [model.hidden * ffn // tp] * (3 if model.gated else 2)


def _attention_matrices(model: Decoder, tp: int) -> list[int]:
    h, heads, kv = model.hidden, model.heads // tp, local_kv(model, tp)
    out = heads * model.value_width * h
    if model.linear_key_heads:
        linear = LinearAttention.of(model, tp)
        return [linear.values * h, h * (linear.mixed + linear.values), 2 * h * linear.heads]
    if not model.kv_rank:
        return [out, h * (query_width(model) * heads + kv * (model.key_width + model.value_width))]
    down = h * (model.kv_rank + model.rope_dim)
    up = model.kv_rank * heads * (model.key_width - model.rope_dim + model.value_width)
    queries = (
        [h * model.q_rank, model.q_rank * heads * model.key_width]
        if model.q_rank
        else [h * heads * model.key_width]
    )
    return [out, down, up, *queries]


def layer_weights(model: Decoder, layer: int, tp: int = 1, ep: int = 1) -> Weights:
    """Parameters of layer `layer` on a rank; the whole layer's with `tp` and `ep` 1."""
    attention = model.norms * norm_weights(model) + _attention_weights(model.of(layer), tp)
    if not model.has_experts(layer):
        return Weights(attention + perceptron_weights(model, model.ffn, tp))
    router = model.experts * (model.hidden + model.router_bias) + model.hidden * model.shared_gate
    shared = (
        perceptron_weights(model, model.shared_experts * model.expert_ffn, tp)
        if model.shared_experts
        else 0
    )
    routed = model.experts // ep * perceptron_weights(model, model.expert_ffn, tp)
    return Weights(attention + router + shared, routed)


def norm_weights(model: Decoder) -> int:
    """Parameters of one norm over the hidden width."""
    return model.hidden * (2 if model.norm == "layer" else 1)


def perceptron_weights(model: Decoder, ffn: int, tp: int = 1) -> int:
    """Parameters of a perceptron of inner width `ffn`; biases of the second matrix are on every
    rank."""
    inner = (2 if model.gated else 1) * ffn // tp
    return model.hidden * (inner + ffn // tp) + (inner + model.hidden if model.bias else 0)


def _attention_weights(model: Decoder, tp: int) -> int:
    h, heads, kv = model.hidden, model.heads // tp, local_kv(model, tp)
    qkv_bias = model.bias if model.qkv_bias is None else model.qkv_bias
    out_bias = model.bias if model.out_bias is None else model.out_bias
    if model.linear_key_heads:
        return LinearAttention.of(model, tp).weights(h)
    out = heads * model.value_width * h + (h if out_bias else 0) + (heads if model.sinks else 0)
    if model.kv_rank:
        return out + _latent_weights(model, heads)
    width = heads * query_width(model) + kv * (model.key_width + model.value_width)
    return out + width * (h + bool(qkv_bias)) + _qk_norm(model, heads + kv)


def _qk_norm(model: Decoder, heads: int) -> int:
    """Gains of the norms of queries and keys: one for each element of a head, or of all `heads`
    heads on a rank."""
    if not model.qk_norm:
        return 0
    return heads * model.key_width if model.qk_norm_whole else 2 * model.key_width


def query_width(model: Decoder) -> int:
    """Width of one head's query, with its gate."""
    return model.key_width * (2 if model.gated_attention else 1)


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Widths on a rank of a layer with the gated delta rule (Yang et al. 2024, arXiv:2412.06464),
    as Qwen3-Next's."""

    mixed: int
    """Queries, keys and values together, which go through a convolution."""
    values: int
    """Values; the gate is as wide."""
    heads: int
    """Heads of values."""
    kernel: int
    state: int
    """Elements of a head's state: key width by value width."""
    value_dim: int

    @classmethod
    def of(cls, model: Decoder, tp: int = 1) -> LinearAttention:
        """Those of a model, its heads split over `tp` ranks."""
        keys = model.linear_key_heads * model.linear_key_dim // tp
        values = model.linear_value_heads * model.linear_value_dim // tp
        heads, state = model.linear_value_heads // tp, model.linear_key_dim * model.linear_value_dim
        return cls(
            2 * keys + values, values, heads, model.linear_kernel, state, model.linear_value_dim
        )

    def weights(self, hidden: int) -> int:
        """Parameters: projections of queries, keys, values and gate, of decay and step; the
        convolution; two numbers a head; a norm over a value; the output."""
        inputs = hidden * (self.mixed + self.values + 2 * self.heads)
        return (
            inputs
            + self.mixed * self.kernel
            + 2 * self.heads
            + self.value_dim
            + self.values * hidden
        )

    def flops(self, tokens: int) -> int:
        """Forward, of the convolution and of the rule: a state is decayed, read, updated and read
        for each token."""
        return 2 * tokens * (self.mixed * self.kernel + 3 * self.heads * self.state)


def _latent_weights(model: Decoder, heads: int) -> int:
    """MLA: down to the ranks (with norms, on every rank), up to the heads."""
    h, rank = model.hidden, model.kv_rank
    down = h * (rank + model.rope_dim) + rank
    up = rank * heads * (model.key_width - model.rope_dim + model.value_width)
    if not model.q_rank:
        return down + up + h * heads * model.key_width
    return down + up + model.q_rank * (h + 1 + heads * model.key_width)


def local_kv(model: Decoder, tp: int) -> int:
    """Heads of keys and values on a rank; where there are more ranks than heads they are
    replicated."""
    return max(1, model.kv // tp)


def vocabulary_rows(model: Decoder, tp: int = 1) -> int:
    """Rows of the embedding on a rank, the last rank's padded."""
    return -(-model.vocabulary // tp)


def embedding_weights(model: Decoder, tp: int = 1) -> int:
    """Parameters of token and position embeddings on a rank."""
    return model.hidden * (vocabulary_rows(model, tp) + model.positions)


def head_weights(model: Decoder, tp: int = 1) -> int:
    """Parameters of the head's matrix on a rank, tied or not."""
    return model.hidden * vocabulary_rows(model, tp)


def mtp_weights(model: Decoder, tp: int = 1, ep: int = 1) -> Weights:
    """Parameters on a rank of one multi-token-prediction module, without the embedding and head
    that it shares.

    Three norms (of what enters, of the next token's embedding, before the head), a projection of
    both to the hidden width, cut by `tp`, and a layer like the model's last."""
    projection = 2 * model.hidden * model.hidden // tp
    return Weights(3 * norm_weights(model) + projection) + layer_weights(
        model, model.layers - 1, tp, ep
    )


def mtp_tensors(model: Decoder, tp: int = 1, ep: int = 1) -> Tensors:
    """Its tensors on a rank."""
    layer = layer_tensors(model, model.layers - 1, tp, ep)
    own = 3 * norm_weights(model), 2 * model.hidden * model.hidden // tp
    return Tensors((*own, *layer.dense), layer.expert)


def parameters(model: Decoder, mtp: int = 0) -> int:
    """All parameters, with those of `mtp` multi-token-prediction modules."""
    layers = (
        model.over_layers(lambda layer: layer_weights(model, layer).total)
        + mtp * mtp_weights(model).total
    )
    return (
        layers
        + embedding_weights(model)
        + norm_weights(model)
        + (0 if model.tied else head_weights(model))
    )


def active_parameters(model: Decoder, mtp: int = 0) -> int:
    """Parameters that one token meets: all but the experts it doesn't visit."""
    if not model.experts:
        return parameters(model, mtp)
    idle = (model.experts - model.top_k) * perceptron_weights(model, model.expert_ffn)
    modules = mtp if model.has_experts(model.layers - 1) else 0
    return parameters(model, mtp) - (model.expert_layers + modules) * idle


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of a training step, the attention's score matrix counted whole (as
    is the custom)."""

    model: int
    """Forward and twice that backward."""
    hardware: int
    """With what is recomputed."""


def step_flops(
    model: Decoder,
    batch: int,
    sequence: int,
    recompute: str = "none",
    modules: frozenset[str] = frozenset(),
    mtp: int = 0,
) -> Flops:
    """Operations of a step over `batch` samples of `sequence` tokens, `mtp` multi-token-prediction
    modules included.

    For a GPT without biases counted, and with `full` recomputation, this is 96 B s l h^2 (1 + s /
    6h + V / 16lh), Narayanan et al. 2021, equation 3; without recomputation 72 B s l h^2 (1 + s /
    6h + V / 12lh). `full, early stop` leaves out the last matrix of dense layers; `ops` has those
    of keys, attention's output (`ops, sums kept` doesn't) and a gated perceptron's second input.
    `modules` are recomputed by themselves."""
    tokens = batch * sequence
    core = model.over_layers(lambda layer: attention_flops(model, layer, tokens, sequence))
    core += mtp * attention_flops(model, model.layers - 1, tokens, sequence)
    last = multiplied(model, model.layers - 1)
    linear = 2 * tokens * (model.over_layers(lambda layer: multiplied(model, layer)) + mtp * last)
    projection = 2 * tokens * mtp * 2 * model.hidden * model.hidden
    total = 3 * (
        core + linear + projection + (1 + mtp) * 2 * tokens * model.hidden * model.vocabulary
    )
    again = {"none": 0, "selective": core, "full": core + linear}
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
        other = model.kv * model.key_width + (model.ffn if model.gated else 0)
        dense = (
            model.layers - model.expert_layers + (0 if model.has_experts(model.layers - 1) else mtp)
        )
        again["full, early stop"] = core + linear - once * model.ffn * dense
        again["ops, sums kept"] = once * model.layers * other
        again["ops"] = once * model.layers * (other + out)
    return Flops(total, total + again[recompute])


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


def up_projections(model: Decoder) -> int:
    """MLA: weights that compressed queries, keys and values are multiplied with; queries only where
    they are compressed."""
    keys = model.kv_rank * model.heads * (model.key_width - model.rope_dim + model.value_width)
    return keys + model.q_rank * model.heads * model.key_width


def attention_flops(model: Decoder, layer: int, tokens: int, sequence: int) -> int:
    """Scores and weighted sum of layer `layer`, forward: each of `tokens` against the keys that it
    sees, doubled."""
    like = model.of(layer)
    if like.linear_key_heads:
        return LinearAttention.of(like).flops(tokens)
    return 2 * tokens * like.seen(sequence) * like.heads * (like.key_width + like.value_width)


def multiplied(model: Decoder, layer: int) -> int:
    """Weights of a layer that a token is multiplied with: those of linear layers it visits, without
    norms and biases."""
    h = model.hidden
    matrices = 3 if model.gated else 2
    attention = _matrices(model.of(layer))
    if not model.has_experts(layer):
        return attention + matrices * h * model.ffn
    visited = (model.top_k + model.shared_experts) * model.expert_ffn
    return attention + matrices * h * visited + h * model.experts


def _matrices(model: Decoder) -> int:
    h, heads = model.hidden, model.heads
    if model.linear_key_heads:
        return sum(_attention_matrices(model, 1))
    out = heads * model.value_width * h
    if not model.kv_rank:
        return out + h * (
            heads * query_width(model) + model.kv * (model.key_width + model.value_width)
        )
    down = h * (model.kv_rank + model.rope_dim)
    up = model.kv_rank * heads * (model.key_width - model.rope_dim + model.value_width)
    queries = (
        model.q_rank * (h + heads * model.key_width)
        if model.q_rank
        else h * heads * model.key_width
    )
    return out + down + up + queries
