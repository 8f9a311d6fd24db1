"""What one rank does for one layer and one micro-batch, forward and backward, as scripts.

Here: attention and perceptron blocks and the embedding and head, cut by tensor, sequence and context parallelism.
Not here: experts (`experts.py`), the order of layers and micro-batches (`stage.py`), the stream (`script.py`).
A block is: norm; gather (sequence parallel); matrices cut by column; inner kernels; matrices cut by row; reduce. A
matrix of n x k over m tokens is a multiplication forward and two backward (input and weight gradients). Tensor
parallelism reduces b s h activations after the rows forward and after the columns backward: 4 all-reduces a layer, or
as many reduce-scatters and all-gathers with sequence parallelism, which gathers the blocks' inputs once more for the
weight gradients. Sources: Shoeybi et al. 2019 (arXiv:1909.08053); Korthikanti et al. 2022 (arXiv:2205.05198); Dao et
al. 2022 (arXiv:2205.14135); context parallelism by gathering keys and values: Grattafiori et al. 2024
(arXiv:2407.21783, section 3.3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .architecture import Decoder, local_kv, vocabulary_rows
from .parallelism import Parallelism
from .script import Call, Gemm, Script, Start, Step, Wait, Work


class Linear(NamedTuple):
    """A matrix on a rank: `n` outputs of `k` inputs."""

    name: str
    n: int
    k: int


class Scripts(NamedTuple):
    """A layer's three passes, `recomputed` before the backward one."""

    forward: Script
    backward: Script
    """Both gradients."""
    inputs: Script
    """Input gradients only."""
    weights: Script
    """Weight gradients only."""


@dataclass(frozen=True)
class Setting:
    """A model and its parallelism, with the sizes every block needs."""

    model: Decoder
    par: Parallelism
    tokens: int = field(init=False)
    """Of a micro-batch on a rank."""
    kept: int = field(init=False)
    """Of these on one tensor-parallel rank where sequence parallelism cuts them."""

    def __post_init__(self) -> None:
        tokens = self.par.micro_batch * (self.par.seq or 0) // self.par.cp
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "kept", tokens // self.par.tp if self.par.sp else tokens)

    @property
    def eager(self) -> bool:
        """Whether kernels are plain PyTorch's, which write and keep more."""
        return self.par.kernels == "eager"

    @property
    def full(self) -> int:
        """Bytes of the hidden states of a micro-batch on a rank, uncut."""
        return self.tokens * self.model.hidden * self.par.bytes.activation

    @property
    def mask(self) -> int:
        """Bytes of a dropout mask over hidden states, one an element."""
        return self.kept * self.model.hidden if self.model.dropout else 0

    @property
    def cut(self) -> int:
        """The same where sequence parallelism cuts them."""
        return self.kept * self.model.hidden * self.par.bytes.activation


@dataclass(frozen=True)
class Inner:
    """The kernels between a block's columns and rows."""

    forward: Script
    backward: Script


def block(at: Setting, name: str, columns: list[Linear], inner: Inner, rows: list[Linear]) -> Scripts:
    """A block of columns, inner kernels and rows, between a norm and the sum with what entered it."""
    forward = (
        norm(at, f"{name}.norm"),
        *_behind(at, gather(at, f"{name}.gather"), _forward(at, columns)),
        *inner.forward,
        *_before(at, _forward(at, rows), reduce(at, f"{name}.reduce")),
    )
    entry = gather(at, f"{name}.gather_grad")
    again = tuple(Start(*step) for step in gather(at, f"{name}.gather_again"))
    inputs = (
        *_behind(at, entry, _inputs(at, rows)),
        *inner.backward,
        *_before(at, _inputs(at, columns), reduce(at, f"{name}.reduce_grad")),
        norm_grad(at, f"{name}.norm"),
    )
    waits = tuple(Wait(step.name) for step in again)
    weights = (*again, *_weights(at, rows), *waits, *_weights(at, columns))
    backward = (
        *_behind(at, entry, _both(at, rows)),
        *inner.backward,
        *again,
        *_last(at, columns, reduce(at, f"{name}.reduce_grad"), waits),
        norm_grad(at, f"{name}.norm"),
    )
    return Scripts(forward, backward, inputs, weights)


def norm(at: Setting, name: str) -> Work:
    """Sum with the residual (dropout in it), then the norm: three tensors read, two written, a mask."""
    return Work(name, "normalization", 0, 5 * at.cut + at.mask)


def norm_grad(at: Setting, name: str) -> Work:
    """Gradients of the norm, of the sum, and of dropout: three, three and two tensors moved, a mask."""
    return Work(f"{name}.grad", "normalization", 0, (8 if at.model.dropout else 6) * at.cut + at.mask)


def gather(at: Setting, name: str) -> tuple[Call, ...]:
    """Sequence parallelism: all tokens from the tensor-parallel ranks."""
    return (Call(name, "all_gather", at.cut, "tp"),) if at.par.sp and at.par.tp > 1 else ()


def reduce(at: Setting, name: str) -> tuple[Call, ...]:
    """Sums partial results over the tensor-parallel ranks."""
    if at.par.tp == 1:
        return ()
    return (Call(name, "reduce_scatter" if at.par.sp else "all_reduce", at.full, "tp"),)


def _behind(at: Setting, calls: tuple[Call, ...], matrices: list[Step]) -> list[Step]:
    """Multiplications of what collectives bring: after them, or piece by piece beside them."""
    return _beside(calls, matrices) if at.par.overlap_tp else [*calls, *matrices]


def _before(at: Setting, matrices: list[Step], calls: tuple[Call, ...]) -> list[Step]:
    """Multiplications whose results collectives take: before them, or piece by piece beside them."""
    return _beside(calls, matrices) if at.par.overlap_tp else [*matrices, *calls]


def _beside(calls: tuple[Call, ...], steps: list[Step]) -> list[Step]:
    return [*(Start(*call) for call in calls), *steps, *(Wait(call.name) for call in calls)]


def _cast(at: Setting, name: str, elements: int) -> tuple[Work, ...]:
    """Operands to 8 bits: read for their largest value, read again, written as they are and transposed."""
    width = at.par.bytes
    if width.gemm == width.activation:
        return ()
    return (Work(f"{name}.cast", "elementwise", 0, 2 * elements * (width.activation + width.gemm)),)


def _forward(at: Setting, matrices: list[Linear]) -> list[Step]:
    steps: list[Step] = []
    for x in matrices:
        steps += [*_cast(at, x.name, x.k * (at.tokens + x.n)), Gemm(x.name, at.tokens, x.n, x.k)]
    return steps


def _input(at: Setting, x: Linear) -> list[Step]:
    name = f"{x.name}.dgrad"
    return [*_cast(at, name, at.tokens * x.n), Gemm(name, at.tokens, x.k, x.n)]


def _weight(at: Setting, x: Linear) -> Gemm:
    return Gemm(f"{x.name}.wgrad", x.k, x.n, at.tokens)


def _inputs(at: Setting, matrices: list[Linear]) -> list[Step]:
    return [step for x in reversed(matrices) for step in _input(at, x)]


def _weights(at: Setting, matrices: list[Linear]) -> list[Step]:
    return [_weight(at, x) for x in reversed(matrices)]


def _both(at: Setting, matrices: list[Linear]) -> list[Step]:
    return [step for x in reversed(matrices) for step in (*_input(at, x), _weight(at, x))]


def _last(at: Setting, matrices: list[Linear], reduction: tuple[Call, ...], before: Script) -> list[Step]:
    """Gradients of the columns: the inputs' are reduced while the weights' are computed."""
    started = [Start(*step) for step in reduction]
    waits = [Wait(step.name) for step in reduction]
    return [*_inputs(at, matrices), *started, *before, *_weights(at, matrices), *waits]


def attention(at: Setting) -> Scripts:
    """The attention block of a layer."""
    model, tp = at.model, at.par.tp
    heads, kv = model.heads // tp, local_kv(model, tp)
    out = [Linear("out", model.hidden, heads * model.value_width)]
    if not model.kv_rank:
        width = heads * model.key_width + kv * (model.key_width + model.value_width)
        return block(at, "attention", [Linear("qkv", width, model.hidden)], core(at), out)
    ranks = model.q_rank + model.kv_rank + model.rope_dim
    up = Linear("kv_up", heads * (model.key_width - model.rope_dim + model.value_width), model.kv_rank)
    if model.q_rank:
        columns = [Linear("down", ranks, model.hidden), Linear("q_up", heads * model.key_width, model.q_rank), up]
    else:
        columns = [Linear("down", ranks + heads * model.key_width, model.hidden), up]
    return block(at, "attention", columns, core(at), out)


def core(at: Setting) -> Inner:
    """Scores, softmax and weighted sum of one rank's heads, its tokens against the whole sequence."""
    forward, backward = _flash(at) if at.par.attention == "flash" else _unfused(at)
    turned = rotary(at)
    back = tuple(work._replace(name=f"{work.name}.grad") for work in turned)
    forward, backward = (*turned, *forward), (*backward, *back)
    share = key_value_bytes(at)
    if at.par.cp == 1:
        return Inner(forward, backward)
    gathered = Call("kv.gather", "all_gather", share, "cp")
    regathered = Call("kv.gather_again", "all_gather", share, "cp")
    reduced = Call("kv.reduce_grad", "reduce_scatter", share * at.par.cp, "cp")
    return Inner((gathered, *forward), (regathered, *backward, reduced))


def key_value_bytes(at: Setting) -> int:
    """Bytes of one rank's keys and values."""
    model = at.model
    # MLA: expanded from the compressed ones, one a query head.
    heads = model.heads // at.par.tp if model.kv_rank else local_kv(model, at.par.tp)
    return at.tokens * heads * (model.key_width + model.value_width) * at.par.bytes.activation


def rotary(at: Setting) -> tuple[Work, ...]:
    """Queries and keys turned by their positions, read and written; learned positions need none."""
    model, tp = at.model, at.par.tp
    if model.positions:
        return ()
    width = model.rope_dim or model.key_width
    heads = model.heads // tp + (1 if model.kv_rank else local_kv(model, tp))
    return (Work("rotary", "elementwise", 0, 2 * at.tokens * heads * width * at.par.bytes.activation),)


def _flash(at: Setting) -> tuple[Script, Script]:
    """One kernel forward, one backward that computes the scores again: 2 and 5 multiplications, half of each hidden by
    the mask."""
    model, par = at.model, at.par
    heads, seq = model.heads // par.tp, par.seq or 0
    one = at.tokens * seq * heads  # 2 operations for each of the half of all pairs that is seen
    scores, values = one * model.key_width, one * model.value_width
    own = at.tokens * heads * (model.key_width + model.value_width) * par.bytes.activation
    others = key_value_bytes(at) * par.cp
    forward = Work("attention.core", "attention", scores + values, own + others)
    backward = Work("attention.core.grad", "attention", 3 * scores + 2 * values, 3 * own + 2 * others)
    return (forward,), (backward,)


def _unfused(at: Setting) -> tuple[Script, Script]:
    """Separate kernels that write the score matrix: scores, softmax (with dropout), weighted sum."""
    model, par = at.model, at.par
    seq = par.seq or 0
    m, batch = seq // par.cp, par.micro_batch * (model.heads // par.tp)
    pairs, width = batch * m * seq, par.bytes.activation
    mask = 1 if model.dropout else 0
    forward = (
        Gemm("scores", m, seq, model.key_width, batch),
        Work("softmax", "elementwise", 0, pairs * (2 * width + mask * (2 * width + 1))),
        Gemm("context", m, model.value_width, seq, batch),
    )
    backward = (
        Gemm("context.dgrad", m, seq, model.value_width, batch),
        Gemm("values.grad", seq, model.value_width, m, batch),
        Work("softmax.grad", "elementwise", 0, pairs * (3 * width + mask * (2 * width + 1))),
        Gemm("queries.grad", m, model.key_width, seq, batch),
        Gemm("keys.grad", seq, model.key_width, m, batch),
    )
    return forward, backward


def perceptron(at: Setting, ffn: int) -> Scripts:
    """The perceptron block of a layer."""
    up, down = matrices(at, ffn)
    return block(at, "mlp", [up], activation(at, ffn, at.tokens), [down])


def matrices(at: Setting, ffn: int) -> tuple[Linear, Linear]:
    """A perceptron's matrices on a rank."""
    inner, hidden = ffn // at.par.tp, at.model.hidden
    return Linear("up", inner * (2 if at.model.gated else 1), hidden), Linear("down", hidden, inner)


def activation(at: Setting, ffn: int, tokens: int, name: str = "activation") -> Inner:
    """The function between a perceptron's matrices: GeLU, or SwiGLU of two inputs."""
    one = tokens * (ffn // at.par.tp) * at.par.bytes.activation
    read = 2 if at.model.gated else 1
    # Function and product a kernel each: the function's result is written and read once more, and its gradient.
    more = 2 if at.model.gated and at.eager else 0
    forward = Work(name, "elementwise", 0, (read + 1 + more) * one)
    return Inner((forward,), (Work(f"{name}.grad", "elementwise", 0, (2 * read + 1 + more) * one),))


def join(first: Scripts, second: Scripts) -> Scripts:
    """One block after the other."""
    return Scripts(
        first.forward + second.forward,
        second.backward + first.backward,
        second.inputs + first.inputs,
        second.weights + first.weights,
    )


def recomputed(at: Setting, scripts: Scripts) -> Script:
    """What is computed again before a layer's backward pass."""
    if at.par.recompute == "full":
        return scripts.forward
    return core(at).forward if at.par.recompute == "selective" else ()


def embedding(at: Setting) -> Scripts:
    """Rows of the token table, each rank its part of the vocabulary."""
    lookup = Work("embedding", "embedding", 0, 2 * at.full)
    forward: Script = (lookup, *reduce(at, "embedding.reduce"))
    update = Work("embedding.grad", "embedding", 0, 3 * at.full)
    backward: Script = (*gather(at, "embedding.gather_grad"), update)
    return Scripts(forward, backward, (), backward)


def head(at: Setting) -> Scripts:
    """Final norm, logits over each rank's part of the vocabulary, and the loss (in fp32)."""
    matrix = [Linear("logits", vocabulary_rows(at.model, at.par.tp), at.model.hidden)]
    scores = at.tokens * vocabulary_rows(at.model, at.par.tp)
    width = at.par.bytes.activation
    # Largest logit, sum and target's logit of each token, 4 bytes each.
    sums = (Call("loss.reduce", "all_reduce", 12 * at.tokens, "tp"),) if at.par.tp > 1 else ()
    # In fp32, a kernel each: conversion, largest, difference, exponential, sum; gradient, scale, conversion.
    there, back = (28, 20) if at.eager else (4, 4)
    forward = (
        norm(at, "head.norm"),
        *gather(at, "head.gather"),
        *_forward(at, matrix),
        Work("loss", "elementwise", 0, scores * (width + there)),
        *sums,
    )
    again = tuple(Start(*step) for step in gather(at, "head.gather_again"))
    waits = tuple(Wait(step.name) for step in again)
    loss = Work("loss.grad", "elementwise", 0, scores * (width + back))
    after = norm_grad(at, "head.norm")
    reduction = reduce(at, "head.reduce_grad")
    backward = (loss, *again, *_last(at, matrix, reduction, waits), after)
    inputs = (loss, *_inputs(at, matrix), *reduction, after)
    return Scripts(forward, backward, inputs, (*again, *waits, *_weights(at, matrix)))
