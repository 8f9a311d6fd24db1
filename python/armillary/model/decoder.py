"""The decoder that both language-model families share: its fields, and what each of its layers is.

Here: what a model is. Not here: how a file is read into one (`decoder_reader.py`), its parameters
(`weights.py`) and floating-point operations (`flops.py`), how it is spread over ranks
(`workload/parallelism.py`). A layer is attention (MHA, GQA, or MLA when `kv_rank` is set) and a
multi-layer perceptron or experts, each behind a norm. Sources: Vaswani et al. 2017
(arXiv:1706.03762); DeepSeek-V2 (arXiv:2405.04434); sparse attention: DeepSeek-AI 2025,
DeepSeek-V3.2-Exp."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ..declared import Within

Count = Annotated[int, Within(1, 2**24)]
Zero = Annotated[int, Within(0, 2**24)]
"""A count that may be 0."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder-only transformer, dense or with experts. Widths are elements, counts are counts."""

    layers: Count
    hidden: Count
    heads: Count
    ffn: Count
    """Inner width of the dense perceptron."""
    vocabulary: Count
    sequence: Count
    """Tokens of a sample, unless the caller says otherwise."""
    kv_heads: Count | None = None
    """Heads of keys and values (GQA); all heads when not given."""
    head_dim: Count | None = None
    """Width of a head's queries and keys; hidden / heads when not given. For MLA the part without
    position."""
    positions: Zero = 0
    """Learned position embeddings; 0 for rotary ones."""
    gated: bool = False
    """Gated perceptron (SwiGLU): two matrices in, one out."""
    norm: Literal["layer", "rms", "plain"] = "layer"
    """`layer` (gain and bias), `rms` (gain) or `plain` (neither, OLMo)."""
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
    q_rank: Zero = 0
    """MLA: width of compressed queries; 0 when they are not compressed."""
    kv_rank: Zero = 0
    """MLA: width of compressed keys and values; 0 for ordinary attention."""
    rope_dim: Zero = 0
    """MLA: width of the rotary part of queries and keys."""
    value_dim: Count | None = None
    """MLA: width of a head's values; `head_dim` when not given."""
    experts: Zero = 0
    """Routed experts of a layer that has them; 0 for a dense model."""
    top_k: Count = 1
    """Experts each token visits."""
    expert_ffn: Zero = 0
    """Inner width of an expert."""
    shared_experts: Zero = 0
    """Experts that every token visits."""
    first_dense: Zero = 0
    """Layers at the start without experts."""
    every: Count = 1
    """Distance of layers with experts after the dense ones: each `every`-th layer has them."""
    router_bias: bool = False
    """A bias for each expert in the router."""
    shared_gate: bool = False
    """A gate on what the shared experts give."""
    window: Zero = 0
    """Tokens that a layer with a sliding window attends to; 0 for the whole sequence."""
    chunked: bool = False
    """The window is a chunk instead: a token attends to those of its own chunk (Llama 4)."""
    full_every: Zero = 0
    """Distance of layers with full attention, among those with a window or linear attention: each
    `full_every`-th has it; 0: none has."""
    norms: Annotated[int, Within(1, 4)] = 2
    """Norms of a layer: 1 for attention and perceptron side by side, 4 for norms before and after
    both."""
    clamped: bool = False
    """Inputs of gated functions are clamped (gpt-oss)."""
    rotary_scaled: bool = False
    """Rotary embeddings multiply by a factor, too (YaRN's attention factor)."""
    sinks: bool = False
    """A learned score for each head that attends to nothing (gpt-oss)."""
    qk_norm_whole: bool = False
    """`qk_norm` over all heads together (OLMo 2), instead of each head."""
    gated_attention: bool = False
    """Queries come with a gate on attention's result (Qwen3-Next)."""
    linear_key_heads: Zero = 0
    """Linear attention (gated delta rule): heads of queries and keys; 0 without."""
    linear_value_heads: Zero = 0
    """Heads of values in linear attention."""
    linear_key_dim: Zero = 0
    """Width of one of its keys."""
    linear_value_dim: Zero = 0
    """Width of one of its values."""
    linear_kernel: Zero = 0
    """Tokens that its convolution spans."""
    index_heads: Zero = 0
    """Sparse attention with compressed keys (DeepSeek-V3.2): heads of the indexer, which chooses
    the keys that a token attends to; 0 for all keys."""
    index_dim: Zero = 0
    """Width of one of its heads."""
    index_top_k: Zero = 0
    """Keys that it chooses for each token."""

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

        With a window of w tokens, or w keys that an indexer chooses, w s - w^2 / 2 of the pairs
        are seen, with chunks half of each chunk's square."""
        most = self.index_top_k or self.window
        if not 0 < most < sequence:
            return sequence
        if self.chunked:
            whole, rest = divmod(sequence, most)
            return (whole * most**2 + rest**2) // sequence
        return 2 * most - most**2 // sequence

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
