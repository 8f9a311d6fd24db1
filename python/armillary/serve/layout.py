"""How an engine spreads a model over GPUs, and in which number formats.

Here: the layout's checks, and bytes of weights, of keys and values, and of the rest on one GPU.
Not here: times (`iteration.py`), requests (`load.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from ..errors import InputError, Problem
from ..model.checkpoint import PLAIN, Format
from ..model.decoder import Decoder
from ..model.weights import (
    LinearAttention,
    attention_matrices,
    embedding_weights,
    head_weights,
    indexer_matrices,
    layer_weights,
    local_kv,
    narrow_weights,
)
from . import sparse

if TYPE_CHECKING:
    from ..model.files import Model

FORMATS: tuple[str, ...] = get_args(Format)
"""Number formats of weights."""
BYTES = {
    "bf16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "int8": 1.0,
    "nvfp4": 0.5625,
    "mxfp4": 0.53125,
    "int4": 0.53125,
}
"""Bytes of a weight with its scales: blocks of 16 and 32 values (NVFP4, OCP MX), groups of 64 with
16 bits (int4)."""
CACHES = {"bf16": 2, "fp8": 1}
"""Bytes of an element of the cache of keys and values."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The GPUs of one engine. All are counts."""

    tp: int = 1
    """Ranks that share attention and dense layers (tensor parallelism)."""
    pp: int = 1
    """Stages of the pipeline."""
    dp: int = 1
    """Ranks that each have attention for requests of their own (data parallelism of attention).
    Experts are shared by all of them."""
    ep: int = 1
    """Ranks that share out whole experts. The others cut each expert."""

    @property
    def stage(self) -> int:
        """GPUs of a stage."""
        return self.tp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs of an engine."""
        return self.stage * self.pp

    @property
    def expert_tp(self) -> int:
        """Ranks that cut each expert."""
        return self.stage // self.ep

    def check(self, model: Decoder) -> None:
        """Checks that the model can be spread so.

        Raises:
            InputError: every part that does not divide.
        """
        problems = []

        def fault(key: str, message: str, help_: str) -> None:
            problems.append(Problem("", key, message, help_))

        for key in ("tp", "pp", "dp", "ep"):
            if getattr(self, key) < 1:
                fault(key, f"invalid count: {getattr(self, key)}", "a count from 1")
        if problems:
            raise InputError(problems)
        if model.heads % self.tp:
            fault(
                "tp", f"{model.heads} heads can't be shared by {self.tp}", "a divisor of the heads"
            )
        linear = model.linear_key_heads, model.linear_value_heads
        if any(heads % self.tp for heads in linear):
            said = f"heads of linear attention, {linear[0]} and {linear[1]}, can't be shared by "
            fault("tp", f"{said}{self.tp}", "a divisor of both")
        if self.pp > model.layers:
            fault("pp", f"{self.pp} stages for {model.layers} layers", "at most one for each layer")
        if not model.experts and (self.dp > 1 or self.ep > 1):
            key = "dp" if self.dp > 1 else "ep"
            fault(key, "the model has no experts to share", "--replicas for whole engines")
        if model.experts and model.experts % self.ep:
            fault(
                "ep", f"{model.experts} experts can't be shared by {self.ep}", "a divisor of them"
            )
        if self.stage % self.ep:
            fault("ep", f"{self.ep} does not divide the {self.stage} ranks of a stage", "a divisor")
        if problems:
            raise InputError(problems)


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats."""

    weights: str = "bf16"
    """Format of the dense layers' matrices."""
    experts: str = "bf16"
    """Format of the experts' matrices."""
    cache: str = "bf16"
    """Format of keys and values."""
    attention: str = ""
    """Format of attention's matrices, where it differs from that of the dense layers."""


def precision(
    model: Model, weights: str | None = None, experts: str | None = None, cache: str = "bf16"
) -> tuple[Precision, tuple[str, ...]]:
    """The number formats of a deployment, and what was assumed: without `weights` those of the
    published checkpoint, without `experts` that of `weights`."""
    if weights is not None:
        return Precision(weights, experts or weights, cache), ()
    published = model.checkpoint
    if published is None:
        note = "assumed: weights in bf16, since the checkpoint's formats are not known (--weights)"
        return Precision("bf16", experts or "bf16", cache), (note,)
    notes = () if published == PLAIN else (f"weights as published: {published}",)
    own = published.experts or published.weights
    return Precision(published.weights, experts or own, cache), notes


def check_experts(model: Decoder, experts: str | None) -> None:
    """Refuses a format for experts of a model that has none."""
    if experts is not None and not model.experts:
        message = "the model has no experts"
        raise InputError([Problem("", "--experts", message, "--weights, or without it")])


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on the fullest GPU."""

    weights: int
    token: int
    """Keys and values of a token."""
    request: int
    """State of a request whatever its length: windows, linear attention."""
    activations: int
    """Working memory of the largest step."""
    context: int
    """Libraries and captured graphs."""


CONTEXT = 800_000_000
"""Bytes of libraries, communicators and captured graphs: an assumption after logs of vLLM, which
show between 0.5 and 1.5 GB. One that prints its blocks (an RTX 4090) leaves 0.79."""


def footprint(
    model: Decoder, layout: Layout, precision: Precision, tokens: int, sequences: int
) -> Footprint:
    """Bytes on the fullest GPU, with steps of at most `tokens` tokens and `sequences` requests.

    Layers are spread evenly. With a pipeline the first stage holds the embedding, the last one the
    head; the fuller of them counts."""
    stage_layers = -(-model.layers // layout.pp)
    weights = token = request = 0.0
    cached = CACHES[precision.cache]
    for layer, count in model.kinds():
        share = count / model.layers * stage_layers
        held = layer_weights(model, layer, layout.tp, layout.ep, layout.expert_tp)
        narrow = narrow_weights(model, layer, layout.tp, layout.ep, layout.expert_tp)
        dense, expert = BYTES[precision.weights], BYTES[precision.experts]
        of = model.of(layer)
        of_layer = 2 * (held - narrow).total + dense * narrow.dense + expert * narrow.expert
        if precision.attention:
            matrices = sum(attention_matrices(of, layout.tp)) + sum(indexer_matrices(of)[:2])
            of_layer += (BYTES[precision.attention] - dense) * matrices
        weights += share * of_layer
        if of.linear_key_heads:
            linear = LinearAttention.of(of, layout.tp)
            request += share * (4 * linear.heads * linear.state + 2 * linear.mixed * linear.kernel)
        elif of.kv_rank:
            token += share * (cached * (of.kv_rank + of.rope_dim) + sparse.cached(of))
        else:
            width = local_kv(of, layout.tp) * (of.key_width + of.value_width)
            if of.window and model.full_every:
                request += share * cached * width * of.window
            else:
                token += share * cached * width
    ends = [2 * embedding_weights(model, layout.tp), 2 * head_weights(model, layout.tp)]
    weights += max(ends) if layout.pp > 1 else ends[0] + (0 if model.tied else ends[1])
    inner = max(model.ffn, model.top_k * model.expert_ffn) if model.experts else model.ffn
    widest = 2 * (4 * model.hidden + 3 * inner // layout.tp)
    logits = 10 * min(sequences, tokens) * model.vocabulary
    return Footprint(
        round(weights), round(token), round(request), tokens * widest + logits, CONTEXT
    )


def blocks(
    held: Footprint,
    capacity: int,
    memory: float,
    block: int,
    sequences: int,
    *,
    of_free: bool = False,
    static: bool = False,
) -> tuple[int, int]:
    """Blocks of the cache that fit, and the bytes that are left for them.

    The engine takes the part `memory` of the `capacity` bytes of a GPU; with
    `of_free` the part of what weights, activations and libraries leave. With `static` weights and
    the cache have that part of what libraries leave (SGLang 0.5.10,
    `model_runner_kv_cache_mixin.py`: `profile_max_num_token`)."""
    taken = held.weights + held.activations + held.context
    if static:
        rest = int((capacity - held.context) * memory) - held.weights
    elif of_free:
        rest = int((capacity - taken) * memory)
    else:
        rest = int(capacity * memory) - taken
    rest -= held.request * min(sequences, 256)
    return max(0, rest // max(1, held.token * block)), max(0, rest)
