"""Work of one rank for one layer and one micro-batch, forward and backward, as scripts.

Here: attention and perceptron blocks, embedding and head, divided by tensor and sequence
parallelism. Not here: what is between an attention block's matrices, context parallelism
(`attention.py`), experts (`experts.py`), the order of layers and micro-batches (`stage.py`), the
stream (`script.py`).

- A block is: norm; gather (sequence parallel); matrices divided by column; inner kernels; matrices
  divided by row; reduce.
- A matrix of n x k over m tokens is one multiplication forward and two backward (input and weight
  gradients).
- Tensor parallelism reduces b s h activations after the rows forward and after the columns
  backward: 4 all-reduces in each layer. With sequence parallelism these are reduce-scatters and
  all-gathers, and the blocks' inputs are gathered once more for the weight gradients.
- In 8 bits, operands are cast before each multiplication except the head's. What is gathered for a
  multiplication is cast before it is gathered.

Sources: Shoeybi et al. 2019 (arXiv:1909.08053); Korthikanti et al. 2022 (arXiv:2205.05198);
Micikevicius et al. 2022 (arXiv:2209.05433); pytorch/ao `float8` (what is cast, and when);
pytorch/torchtitan (`recompute="ops"`: attention and every other multiplication are kept)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ..model.weights import LinearAttention, local_kv, query_width, vocabulary_rows
from .attention import core
from .script import (
    CollectiveStep,
    Gemm,
    Inner,
    KernelStep,
    Script,
    Scripts,
    Start,
    Step,
    Wait,
    join,
    named,
)
from .setting import Setting, StageSetting


class Linear(NamedTuple):
    """A matrix on a rank: `n` outputs of `k` inputs."""

    name: str
    n: int
    k: int
    again: int = 0
    """Outputs that `recompute="ops"` computes again."""
    width: int = 0
    """Bytes of an element where the working precision's multiplications are narrower; 0 where they
    are not."""
    parts: tuple[int, ...] = ()
    """Outputs of each of several matrices that take the same input; one matrix when empty."""

    def each(self) -> list[tuple[str, int]]:
        """Names and outputs of its multiplications."""
        return [(f"{self.name}.{i}", n) for i, n in enumerate(self.parts)] or [(self.name, self.n)]


def block(
    at: Setting, name: str, columns: list[Linear], inner: Inner, rows: list[Linear]
) -> Scripts:
    """A block of columns, inner kernels and rows, between a norm and the sum with what entered
    it."""
    enter = (*_entry_norm(at, name), *_narrowed(at, f"{name}.gather"))
    gathered = gather(at, f"{name}.gather", at.gathered)
    needed = (
        *enter,
        *_behind(at, gathered, multiplications(at, columns, at.gathered)),
        *inner.forward,
    )
    leave, leave_grad = _exit_norm(at, name)
    forward = (
        *needed,
        *_before(at, multiplications(at, rows), reduce(at, f"{name}.reduce")),
        *leave,
    )
    entry = gather(at, f"{name}.gather_grad", at.gathered)
    again: Script = ()
    if not at.par.keeps_gathered and any(_weight(at, x) for x in columns):
        again = tuple(Start(*step) for step in gather(at, f"{name}.gather_again", at.gathered))
    inputs = (
        *leave_grad,
        *_narrowed(at, f"{name}.gather_grad"),
        *_behind(at, entry, _inputs(at, rows, at.gathered)),
        *inner.backward,
        *_before(at, _inputs(at, columns), reduce(at, f"{name}.reduce_grad")),
        *_entry_norm_grad(at, name),
    )
    waits = tuple(Wait(step.name) for step in again)
    weights = (*again, *_weights(at, rows), *waits, *_weights(at, columns))
    backward = (
        *leave_grad,
        *_narrowed(at, f"{name}.gather_grad"),
        *_behind(at, entry, _both(at, rows, at.gathered)),
        *inner.backward,
        *again,
        *_last(at, columns, reduce(at, f"{name}.reduce_grad"), waits),
        *_entry_norm_grad(at, name),
    )
    repeated = (
        *enter,
        *_behind(at, gathered, multiplications(at, _repeated(columns), at.gathered)),
        *inner.again,
        *_before(
            at,
            multiplications(at, _repeated(rows)),
            reduce(at, f"{name}.reduce") if _repeated(rows) else (),
        ),
    )
    return Scripts(forward, backward, inputs, weights, needed, repeated)


def _repeated(matrices: list[Linear]) -> list[Linear]:
    """The parts of matrices that are multiplied with again."""
    return [x._replace(n=x.again, parts=()) for x in matrices if x.again]


def _entry_norm(at: Setting, name: str) -> Script:
    """Before a block; a perceptron side by side with attention takes what attention's norm gave."""
    return () if at.model.norms == 1 and name == "mlp" else (norm(at, f"{name}.norm"),)


def _entry_norm_grad(at: Setting, name: str) -> Script:
    return tuple(norm_grad(at, f"{name}.norm") for _ in _entry_norm(at, name))


def _exit_norm(at: Setting, name: str) -> tuple[Script, Script]:
    """Forward and backward of a norm after a block, before the sum: read and written, and twice
    read and written."""
    if at.model.norms < 4:
        return (), ()
    work = "normalization", 0
    return (KernelStep(f"{name}.post_norm", *work, 2 * at.cut),), (
        KernelStep(f"{name}.post_norm.grad", *work, 3 * at.cut),
    )


def norm(at: Setting, name: str) -> KernelStep:
    """Sum with the residual (dropout in it), then the norm: three tensors read, two written, a
    mask."""
    if not at.par.fused_norm:
        return KernelStep(name, "elementwise", 0, 3 * at.cut + at.mask + _moved(at, 28, 4))
    return KernelStep(name, "normalization", 0, 5 * at.cut + at.mask)


def norm_grad(at: Setting, name: str) -> KernelStep:
    """Gradients of the norm, of the sum, and of dropout: three, three and two tensors moved, a
    mask."""
    tensors = 8 if at.model.dropout else 6
    if not at.par.fused_norm:
        moved = (tensors - 3) * at.cut + at.mask + _moved(at, 76, 8)
        return KernelStep(f"{name}.grad", "elementwise", 0, moved)
    return KernelStep(f"{name}.grad", "normalization", 0, tensors * at.cut + at.mask)


def _moved(at: Setting, wide: int, tensors: int) -> int:
    """Bytes that a norm of several operations moves: `wide` of each element in 4 bytes, and
    `tensors` of the width of activations.

    Forward: cast (4, 1), square (8), mean (4), product with the root (8), cast back (4, 1), product
    with the weight (2). Backward: the weight's product (6), its cast (4, 1), gradients of the other
    product (8, 12, 4), of mean and square (4, 8, 8, 12), their sum (12), its cast (4, 1)."""
    return at.cut // at.par.bytes.activation * wide + tensors * at.cut


def gather(at: Setting, name: str, width: int = 0) -> tuple[CollectiveStep, ...]:
    """Sequence parallelism: all tokens from the tensor-parallel ranks, elements of `width` bytes or
    as activations."""
    if not at.par.sp or at.par.tp == 1:
        return ()
    return (
        CollectiveStep(
            name, "all_gather", at.kept * at.model.hidden * (width or at.par.bytes.activation), "tp"
        ),
    )


def reduce(at: Setting, name: str) -> tuple[CollectiveStep, ...]:
    """Sums partial results over the tensor-parallel ranks."""
    if at.par.tp == 1:
        return ()
    return (CollectiveStep(name, "reduce_scatter" if at.par.sp else "all_reduce", at.full, "tp"),)


def _behind(at: Setting, calls: tuple[CollectiveStep, ...], matrices: list[Step]) -> list[Step]:
    """Multiplications of what collectives bring: after them, or overlapped with them piece by
    piece."""
    return _interleaved(calls, matrices) if at.par.overlap_tp else [*calls, *matrices]


def _before(at: Setting, matrices: list[Step], calls: tuple[CollectiveStep, ...]) -> list[Step]:
    """Multiplications whose results collectives take: before them, or overlapped with them piece by
    piece."""
    return _interleaved(calls, matrices) if at.par.overlap_tp else [*matrices, *calls]


def _interleaved(calls: tuple[CollectiveStep, ...], steps: list[Step]) -> list[Step]:
    return [*(Start(*call) for call in calls), *steps, *(Wait(call.name) for call in calls)]


def cast(
    at: StageSetting, name: str, elements: int, narrow: int = 0, once: int = 0
) -> tuple[KernelStep, ...]:
    """Operands to 8 bits, as they are and transposed; `narrow` of them came in 8 bits already, and
    `once` of the others are not needed transposed."""
    width = at.par.bytes
    if width.gemm == width.activation:
        return ()
    moved = (
        CASTS[at.par.fp8_recipe](width.activation, width.gemm) * (elements - narrow)
        + 2 * width.gemm * narrow
        - width.gemm * once
    )
    return (KernelStep(f"{name}.cast", "elementwise", 0, moved),) if moved else ()


CASTS: dict[str, Callable[[int, int], int]] = {
    "blockwise": lambda wide, narrow: wide + 2 * narrow,
    "delayed": lambda wide, narrow: wide + 2 * narrow,
    "tensorwise": lambda wide, narrow: 2 * wide + 2 * narrow,
    "rowwise": lambda wide, narrow: 3 * wide + 2 * narrow,
}
"""Bytes an element by recipe. The scale is that of earlier steps or of a block that a kernel holds
(read, written twice); of the tensor's largest value (read once more for it); or of each row's and,
for the transposed one, each column's (a kernel holds rows but not columns)."""


def _narrowed(at: Setting, name: str) -> tuple[KernelStep, ...]:
    """Casts before a gather: tensors that are gathered in 8 bits are cast first, each rank its own
    tokens."""
    if not at.gathered:
        return ()
    wide, narrow = at.par.bytes.activation, at.par.bytes.gemm
    reads = 1 if at.par.fp8_recipe in ("delayed", "blockwise") else 2
    return (
        KernelStep(
            f"{name}.cast", "elementwise", 0, at.kept * at.model.hidden * (reads * wide + narrow)
        ),
    )


def multiplications(at: Setting, matrices: list[Linear], narrow: int = 0) -> list[Step]:
    """Multiplications; the input of the first has been gathered in 8 bits if `narrow`."""
    steps: list[Step] = []
    for i, x in enumerate(matrices):
        entering = at.tokens * x.k
        arrived = entering if narrow and i == 0 else 0
        weights = 0 if at.par.fp8_weight_cache else x.n * x.k
        cast_already = weights if at.par.fp8_param_gather else 0
        if x.width:
            pass
        elif at.par.lora_rank:
            # Weight gradients alone take what enters transposed.
            plain = entering - arrived
            steps += cast(at, x.name, plain + weights, cast_already, plain)
        else:
            steps += cast(at, x.name, entering + weights, arrived + cast_already)
        steps += [Gemm(name, at.tokens, n, x.k, width=x.width) for name, n in x.each()]
        steps += _adapters(at, x)
    return steps


def _adapters(at: Setting, x: Linear) -> list[Step]:
    """Adapters of low rank, in the working precision: down to the rank, up to the outputs, the sum.

    Those of columns have the first matrix whole on each rank and the second divided, those of rows
    the first divided and the second whole, so that the sums over ranks are those of the matrix."""
    steps: list[Step] = []
    width, rank = at.par.bytes.activation, at.par.lora_rank
    for name, n in x.each() if x.name in at.par.adapted else ():
        steps += [
            Gemm(f"{name}.lora_a", at.tokens, rank, x.k, width=width),
            Gemm(f"{name}.lora_b", at.tokens, n, rank, width=width),
            KernelStep(f"{name}.lora.sum", "elementwise", 0, 3 * at.tokens * n * width),
        ]
    return steps


def _adapter_inputs(at: Setting, x: Linear) -> list[Step]:
    """Gradients of what adapters take."""
    steps: list[Step] = []
    width, rank = at.par.bytes.activation, at.par.lora_rank
    for name, n in x.each() if x.name in at.par.adapted else ():
        steps += [
            Gemm(f"{name}.lora_b.dgrad", at.tokens, rank, n, width=width),
            Gemm(f"{name}.lora_a.dgrad", at.tokens, x.k, rank, width=width),
            KernelStep(f"{name}.lora.dgrad.sum", "elementwise", 0, 3 * at.tokens * x.k * width),
        ]
    return steps


def adapters(at: Setting) -> tuple[int, ...]:
    """Parameters on a rank of each matrix of a layer's adapters of low rank."""
    if not at.par.lora_rank:
        return ()
    linears = (*plain_attention(at), *matrices(at, at.model.ffn, at.par.tp))
    return tuple(
        at.par.lora_rank * size
        for x in linears
        if x.name in at.par.adapted
        for _, n in x.each()
        for size in (x.k, n)
    )


def all_adapters(at: Setting) -> int:
    """Parameters of all adapters of low rank."""
    whole = Setting(at.model, replace(at.par, tp=1))
    return at.model.over_layers(lambda layer: sum(adapters(whole.of(layer))))


def _input(at: Setting, x: Linear, narrow: int = 0) -> list[Step]:
    name, elements = f"{x.name}.dgrad", at.tokens * x.n
    if x.width:
        casts: tuple[KernelStep, ...] = ()
    elif at.par.lora_rank:
        plain = 0 if narrow else elements
        casts = cast(at, name, plain, 0, plain)
    else:
        casts = cast(at, name, elements, elements if narrow else 0)
    gradients = [Gemm(f"{part}.dgrad", at.tokens, x.k, n, width=x.width) for part, n in x.each()]
    return [*casts, *gradients, *_sum(at, name, x), *_adapter_inputs(at, x)]


def _sum(at: Setting, name: str, x: Linear) -> tuple[KernelStep, ...]:
    """Gradients of an input that several matrices take, two read and one written for all but the
    first."""
    more = len(x.parts) - 1
    moved = 3 * more * at.tokens * x.k * at.par.bytes.activation
    return (KernelStep(f"{name}.sum", "elementwise", 0, moved),) if more > 0 else ()


def _weight(at: Setting, x: Linear) -> list[Gemm]:
    if not at.par.lora_rank:
        return [Gemm(f"{part}.wgrad", x.k, n, at.tokens, width=x.width) for part, n in x.each()]
    width, rank = at.par.bytes.activation, at.par.lora_rank
    return [
        gradient
        for part, n in (x.each() if x.name in at.par.adapted else ())
        for gradient in (
            Gemm(f"{part}.lora_b.wgrad", rank, n, at.tokens, width=width),
            Gemm(f"{part}.lora_a.wgrad", x.k, rank, at.tokens, width=width),
        )
    ]


def _inputs(at: Setting, matrices: list[Linear], narrow: int = 0) -> list[Step]:
    return [step for x in reversed(matrices) for step in _input(at, x, narrow)]


def _weights(at: Setting, matrices: list[Linear]) -> list[Step]:
    return [step for x in reversed(matrices) for step in _weight(at, x)]


def _both(at: Setting, matrices: list[Linear], narrow: int = 0) -> list[Step]:
    return [step for x in reversed(matrices) for step in (*_input(at, x, narrow), *_weight(at, x))]


def _last(
    at: Setting, matrices: list[Linear], reduction: tuple[CollectiveStep, ...], before: Script
) -> list[Step]:
    """Gradients of the columns: the inputs' are reduced while the weights' are computed."""
    started = [Start(*step) for step in reduction]
    waits = [Wait(step.name) for step in reduction]
    return [*_inputs(at, matrices), *started, *before, *_weights(at, matrices), *waits]


def attention(at: Setting) -> Scripts:
    """The attention block of a layer."""
    model, heads = at.model, at.model.heads // at.par.tp
    if model.linear_key_heads:
        return block(at, "attention", *linear_attention(at))
    if not model.kv_rank:
        one, last = plain_attention(at)
        return block(at, "attention", [one], core(at), [last])
    out = [_output(at)]
    ranks = model.q_rank + model.kv_rank + model.rope_dim
    whole = 0 if model.q_rank else heads * model.key_width
    again = 0 if model.q_rank else ranks
    down = Linear("down", ranks + whole, model.hidden, again)
    return block(at, "attention", [down, *ups(at)], core(at), out)


def _output(at: Setting) -> Linear:
    """The matrix after attention."""
    model, tp = at.model, at.par.tp
    # With sp the sum over ranks is kept, and what was summed isn't asked for. With compressed
    # queries the output's is the fifth product, which stays.
    stays = (at.par.sp and tp > 1) or model.q_rank
    inner = model.heads // tp * model.value_width
    return Linear("out", model.hidden, inner, 0 if stays else model.hidden)


def plain_attention(at: Setting) -> tuple[Linear, Linear]:
    """Matrices before and after attention whose keys and values are not compressed."""
    model, tp = at.model, at.par.tp
    kv = local_kv(model, tp)
    keys = kv * model.key_width
    parts = (model.heads // tp * query_width(model), keys, kv * model.value_width)
    one = Linear("qkv", sum(parts), model.hidden, keys, parts=() if at.par.merged else parts)
    return one, _output(at)


def linear_attention(at: Setting) -> tuple[list[Linear], Inner, list[Linear]]:
    """Columns, kernels and rows of the gated delta rule: one projection of queries, keys, values
    and gate, a small one of decay and step; a convolution; the rule, chunk by chunk, forward once
    and backward twice its operations; a norm with the gate."""
    model, bytes_ = at.model, at.par.bytes.activation
    wide = LinearAttention.of(model, at.par.tp)
    columns = [
        Linear("qkvz", wide.mixed + wide.values, model.hidden, wide.mixed + wide.values),
        Linear("decay", 2 * wide.heads, model.hidden, 2 * wide.heads),
    ]
    mixed, values = at.tokens * wide.mixed * bytes_, at.tokens * wide.values * bytes_
    rule = wide.flops(at.tokens)
    forward = (
        KernelStep("convolution", "elementwise", 0, 2 * mixed),
        KernelStep("attention.core", "attention", rule, mixed + values),
        KernelStep("gate.norm", "normalization", 0, 3 * values),
    )
    backward = (
        KernelStep("gate.norm.grad", "normalization", 0, 5 * values),
        KernelStep("attention.core.grad", "attention", 2 * rule, 2 * mixed + 2 * values),
        KernelStep("convolution.grad", "elementwise", 0, 3 * mixed),
    )
    return (
        columns,
        Inner(forward, backward, forward[:1]),
        [Linear("out", model.hidden, wide.values)],
    )


def inner(at: Setting) -> Inner:
    """Kernels between the matrices of a layer's attention block."""
    return linear_attention(at)[1] if at.model.linear_key_heads else core(at)


def ups(at: Setting) -> list[Linear]:
    """MLA: the matrices from compressed queries, keys and values to those of a rank's heads."""
    model, heads = at.model, at.model.heads // at.par.tp
    expanded = heads * (model.key_width - model.rope_dim + model.value_width)
    if not model.q_rank:
        return [Linear("kv_up", expanded, model.kv_rank)]
    queries = heads * model.key_width
    return [
        Linear("q_up", queries, model.q_rank, queries),
        Linear("kv_up", expanded, model.kv_rank, expanded),
    ]


def perceptron(at: Setting, ffn: int) -> Scripts:
    """The perceptron block of a layer."""
    up, down = matrices(at, ffn, at.par.tp)
    return block(at, "mlp", [up], activation(at, ffn // at.par.tp, at.tokens), [down])


def matrices(at: Setting, ffn: int, tp: int) -> tuple[Linear, Linear]:
    """A perceptron's matrices on one of `tp` ranks."""
    inner, hidden = ffn // tp, at.model.hidden
    if at.model.gated:
        parts = () if at.par.merged else (inner, inner)
        # With compressed queries it is an even product, which `ops` computes again.
        last = hidden if at.model.q_rank and not (at.par.sp and tp > 1) else 0
        up = Linear("up", 2 * inner, hidden, inner, parts=parts)
        return up, Linear("down", hidden, inner, last)
    return Linear("up", inner, hidden), Linear("down", hidden, inner)


def activation(at: Setting, width: int, tokens: int, name: str = "activation") -> Inner:
    """The function between a perceptron's matrices, `width` values a token on a rank: GeLU, or
    SwiGLU of two inputs."""
    one = tokens * width * at.par.bytes.activation
    read = 2 if at.model.gated else 1
    # Function and product a kernel each: the function's result is written and read once more, and
    # its gradient.
    more = 2 if at.model.gated and at.eager else 0
    clamp = _clamped(at, width, tokens, name)
    forward = (*clamp.forward, KernelStep(name, "elementwise", 0, (read + 1 + more) * one))
    backward = KernelStep(f"{name}.grad", "elementwise", 0, (2 * read + 1 + more) * one)
    return Inner(forward, (backward, *clamp.backward), forward)


def _clamped(at: Setting, width: int, tokens: int, name: str) -> Inner:
    """Clamps of both inputs by themselves: each is read and written, and both once more as one
    tensor. Backward a comparison with each of three bounds, what two of them say together, both
    gradients where they say so, and one tensor of both; what a comparison says is a byte."""
    if not (at.model.clamped and at.model.gated and at.par.separate_clamp):
        return Inner((), ())
    one, wide = tokens * width, at.par.bytes.activation
    return Inner(
        (KernelStep(f"{name}.clamp", "elementwise", 0, 8 * wide * one),),
        (KernelStep(f"{name}.clamp.grad", "elementwise", 0, (11 * wide + 8) * one),),
    )


def embedding(at: Setting) -> Scripts:
    """Rows of the token table, each rank its part of the vocabulary."""
    lookup = KernelStep("embedding", "embedding", 0, 2 * at.full)
    forward: Script = (lookup, *reduce(at, "embedding.reduce"))
    if at.par.lora_rank:
        return Scripts(forward, (), (), ())
    update = KernelStep("embedding.grad", "embedding", 0, 3 * at.full)
    backward: Script = (*gather(at, "embedding.gather_grad"), update)
    return Scripts(forward, backward, (), backward)


def projection(at: Setting) -> Scripts:
    """Multi-token prediction: the next token's embedding, a norm of it (that of what came in is the
    block's), and a projection of both to the hidden width, cut by rows under tensor parallelism."""
    looked_up = embedding(at)
    rows = [Linear("mtp.projection", at.model.hidden, 2 * at.model.hidden // at.par.tp)]
    both = block(
        at,
        "mtp",
        [],
        Inner((norm(at, "mtp.embedding_norm"),), (norm_grad(at, "mtp.embedding_norm"),)),
        rows,
    )
    return join(looked_up, both)


def heads(at: Setting) -> Scripts:
    """The head of the model, and once more for each multi-token-prediction module."""
    found = head(at)
    for i in range(at.par.mtp):
        found = join(found, named(head(at), f"mtp{i}."))
    return found


def head(at: Setting) -> Scripts:
    """Final norm, logits over each rank's part of the vocabulary, and the loss (in fp32)."""
    # Not in 8 bits: frameworks leave the last matrix as it is.
    wide = at.par.bytes.activation
    gathered = at.par.gathered_logits and at.par.tp > 1
    rows = vocabulary_rows(at.model, at.par.tp)
    matrix = [Linear("logits", rows, at.model.hidden, width=wide)]
    scores = at.tokens * rows * (at.par.tp if gathered else 1)
    # Largest logit, sum and target's logit of each token, 4 bytes each.
    sums = (
        (CollectiveStep("loss.reduce", "all_reduce", 12 * at.tokens, "tp"),)
        if at.par.tp > 1 and not gathered
        else ()
    )
    whole = (
        (CollectiveStep("logits.gather", "all_gather", at.tokens * rows * wide, "tp"),)
        if gathered
        else ()
    )
    # In fp32, a kernel each: conversion, largest, difference, exponential, sum; gradient, scale,
    # conversion.
    there, back = (28, 20) if at.eager else (4, 4)
    forward = (
        norm(at, "head.norm"),
        *gather(at, "head.gather"),
        *multiplications(at, matrix),
        *whole,
        KernelStep("loss", "elementwise", 0, scores * (wide + there)),
        *sums,
        *_metrics(at, scores),
    )
    again: Script = ()
    if not at.par.lora_rank and not at.par.keeps_gathered:
        again = tuple(Start(*step) for step in gather(at, "head.gather_again"))
    waits = tuple(Wait(step.name) for step in again)
    loss = KernelStep("loss.grad", "elementwise", 0, scores * (wide + back))
    after = norm_grad(at, "head.norm")
    reduction = reduce(at, "head.reduce_grad")
    backward = (loss, *again, *_last(at, matrix, reduction, waits), after)
    inputs = (loss, *_inputs(at, matrix), *reduction, after)
    return Scripts(forward, backward, inputs, (*again, *waits, *_weights(at, matrix)))


def _metrics(at: Setting, scores: int) -> Script:
    """Each metric converts the logits to 4 bytes and takes the logarithm of their softmax. Nothing
    waits for the results, so their time is the same before the backward pass as after it."""
    wide = at.par.bytes.activation
    return tuple(
        step
        for i in range(at.par.loss_metrics)
        for step in (
            KernelStep(f"metric{i}.convert", "elementwise", 0, scores * (wide + 4)),
            KernelStep(f"metric{i}.loss", "elementwise", 0, scores * 8),
        )
    )
