"""Parameters of a decoder: of each layer and tensor, on one rank and in all.

Not here: what the layers are (`decoder.py`), the operations with these weights (`flops.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from .decoder import Decoder


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters one rank holds."""

    dense: int = 0
    """Parameters that are replicated over all of data parallelism."""
    expert: int = 0
    """Parameters of routed experts: replicated over the part of data parallelism that is not expert
    parallelism."""

    def __add__(self, other: Weights) -> Weights:
        return Weights(self.dense + other.dense, self.expert + other.expert)

    def __sub__(self, other: Weights) -> Weights:
        return Weights(self.dense - other.dense, self.expert - other.expert)

    @property
    def total(self) -> int:
        """Sum of both."""
        return self.dense + self.expert


@dataclass(frozen=True, slots=True)
class Tensors:
    """Parameters of each tensor that one rank holds; gains and biases of a layer count as one."""

    dense: tuple[int, ...] = ()
    expert: tuple[int, ...] = ()


def layer_tensors(
    model: Decoder, layer: int, tp: int = 1, ep: int = 1, etp: int | None = None
) -> Tensors:
    """Tensors of layer `layer` on a rank, which add up to `layer_weights`."""
    weights = layer_weights(model, layer, tp, ep, etp)
    dense, expert = attention_matrices(model.of(layer), tp), []
    if model.has_experts(layer):
        dense.append(model.experts * model.hidden)
        dense += _perceptron_matrices(model, model.shared_experts * model.expert_ffn, tp)
        expert = model.experts // ep * _perceptron_matrices(model, model.expert_ffn, etp or tp)
    else:
        dense += _perceptron_matrices(model, model.ffn, tp)
    rest = weights.dense - sum(dense), weights.expert - sum(expert)
    with_rest = (
        tuple(n for n in (*found, left) if n)
        for found, left in zip((dense, expert), rest, strict=True)
    )
    return Tensors(*with_rest)


def narrow_weights(
    model: Decoder, layer: int, tp: int = 1, ep: int = 1, etp: int | None = None
) -> Weights:
    """Parameters of layer `layer` on a rank that are multiplied with in 8 bits: all matrices but
    the router."""
    dense = sum(attention_matrices(model.of(layer), tp)) + sum(indexer_matrices(model)[:2])
    if not model.has_experts(layer):
        return Weights(dense + sum(_perceptron_matrices(model, model.ffn, tp)))
    shared = sum(_perceptron_matrices(model, model.shared_experts * model.expert_ffn, tp))
    routed = model.experts // ep * sum(_perceptron_matrices(model, model.expert_ffn, etp or tp))
    return Weights(dense + shared, routed)


def _perceptron_matrices(model: Decoder, ffn: int, tp: int) -> list[int]:
    return [model.hidden * ffn // tp] * (3 if model.gated else 2)


def attention_matrices(model: Decoder, tp: int) -> list[int]:
    """Parameters of each matrix of one layer's attention on a rank."""
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


def layer_weights(
    model: Decoder, layer: int, tp: int = 1, ep: int = 1, etp: int | None = None
) -> Weights:
    """Parameters of layer `layer` on a rank; the whole layer's with `tp` and `ep` 1. `etp` ranks
    divide an expert; `tp` when not given."""
    attention = model.norms * norm_weights(model) + _attention_weights(model.of(layer), tp)
    if not model.has_experts(layer):
        return Weights(attention + perceptron_weights(model, model.ffn, tp))
    router = model.experts * (model.hidden + model.router_bias) + model.hidden * model.shared_gate
    shared = (
        perceptron_weights(model, model.shared_experts * model.expert_ffn, tp)
        if model.shared_experts
        else 0
    )
    routed = model.experts // ep * perceptron_weights(model, model.expert_ffn, etp or tp)
    return Weights(attention + router + shared, routed)


def norm_weights(model: Decoder) -> int:
    """Parameters of one norm over the hidden width."""
    return model.hidden * {"layer": 2, "rms": 1, "plain": 0}[model.norm]


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
        return out + _latent_weights(model, heads) + _indexer_weights(model)
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


def indexer_matrices(model: Decoder) -> list[int]:
    """Parameters of the indexer's matrices, which are whole on every rank: queries, from the
    compressed ones, the key, and the weights of its heads. None without an indexer."""
    if not model.index_heads:
        return []
    h, width = model.hidden, model.index_dim
    return [model.q_rank * model.index_heads * width, h * width, h * model.index_heads]


def _indexer_weights(model: Decoder) -> int:
    """Parameters of the indexer: matrices, and a norm of the key with gain and bias."""
    return sum(indexer_matrices(model)) + 2 * model.index_dim


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


def mtp_weights(model: Decoder, tp: int = 1, ep: int = 1, etp: int | None = None) -> Weights:
    """Parameters on a rank of one multi-token-prediction module, without the embedding and head
    that it shares.

    Three norms (of what enters, of the next token's embedding, before the head), a projection of
    both to the hidden width, cut by `tp`, and a layer like the model's last."""
    projection = 2 * model.hidden * model.hidden // tp
    return Weights(3 * norm_weights(model) + projection) + layer_weights(
        model, model.layers - 1, tp, ep, etp
    )


def mtp_tensors(model: Decoder, tp: int = 1, ep: int = 1, etp: int | None = None) -> Tensors:
    """Tensors of the multi-token prediction layer on a rank."""
    layer = layer_tensors(model, model.layers - 1, tp, ep, etp)
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


def up_projections(model: Decoder) -> int:
    """MLA: weights that compressed queries, keys and values are multiplied with; queries only where
    they are compressed."""
    keys = model.kv_rank * model.heads * (model.key_width - model.rope_dim + model.value_width)
    return keys + model.q_rank * model.heads * model.key_width
