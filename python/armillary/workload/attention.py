"""The attention core of one rank: its heads' scores, softmax and weighted sum, under context
parallelism too.

Here: what stands between the matrices of an attention block. Not here: the block (`layer.py`).

Causal attention of T tokens in a sequence of s takes 2 T s / 2 x (key + value width) operations for
each head, forward. Context parallelism divides the sequence into 2 cp pieces. Rank r has the pieces
r and 2 cp - 1 - r, so that all ranks have the same work: 1 / cp of it for the keys and values of
each rank. `cp_comm_type` says how a rank gets the keys and values of others:

- p2p: cp - 1 times it sends the ones that it has to the next rank while it works on them. This
  takes (cp - 1) max(work / cp, message) + work / cp. Backward, the gradients of keys and values
  travel one step behind, and return to their rank at the end.
- all_gather: it gathers all of them before; their gradients are reduce-scattered after.
- a2a: before and after, all-to-alls exchange tokens for heads and back.

Sparse attention takes the same for the keys that an indexer chooses.

Sources: Dao et al. 2022 (arXiv:2205.14135); Liu et al. 2023, ring attention (arXiv:2310.01889);
Grattafiori et al. 2024 (arXiv:2407.21783, section 3.3.2); Jacobs et al. 2023, Ulysses
(arXiv:2309.14509); NVIDIA/TransformerEngine (`context_parallel.py`: orders of messages,
corrections, copies)."""

from __future__ import annotations

from typing import NamedTuple

from ..model.weights import local_kv
from .indexer import indexer
from .parallelism import ContextExchange
from .script import CollectiveStep, Exchange, Gemm, Inner, KernelStep, Script, Step, Wait
from .setting import Setting


class AttentionSizes(NamedTuple):
    """Bytes of a rank's tensors of a micro-batch."""

    queries: int
    values: int
    """Outputs, one for each query."""
    shared: int
    """Keys and values."""


class Core(NamedTuple):
    """The attention of one rank, against the keys of the whole sequence."""

    sizes: AttentionSizes
    ahead: int
    """Operations forward."""
    back: int
    """Operations backward."""
    cp: int
    unmasked: bool = False
    """Every query sees every key."""


def core(at: Setting) -> Inner:
    """Scores, softmax and weighted sum of one rank's heads, its tokens against the whole
    sequence."""
    turned = (*rotary(at), *_joined(at))
    back = tuple(
        work._replace(name=f"{work.name}.grad")
        for work in (*rotary(at, backward=True), *_joined(at))
    )
    forward, backward = _spread(at)
    return Inner((*turned, *indexer(at), *forward), (*backward, *back), turned)


def _spread(at: Setting) -> tuple[Script, Script]:
    """Forward and backward, with what context parallelism sends."""
    whole = Core(sizes(at), *_operations(at), at.par.cp)
    if at.par.attention == "flash":
        return fused(whole, at.par.cp_comm_type)
    return _moved(whole, at.par.cp_comm_type, *_unfused(at))


def fused(whole: Core, exchange: ContextExchange | None) -> tuple[Script, Script]:
    """Forward and backward pass of a fused kernel, with what context parallelism sends."""
    if whole.cp > 1 and exchange == "p2p":
        return _ring(whole)
    return _moved(whole, exchange, *_flash(whole, exchange))


def _moved(
    whole: Core, exchange: ContextExchange | None, forward: Script, backward: Script
) -> tuple[Script, Script]:
    if whole.cp == 1:
        return forward, backward
    move = _gathered if exchange == "all_gather" else _exchanged
    return move(whole, forward, backward)


def sizes(at: Setting) -> AttentionSizes:
    """Bytes of one rank's queries, weighted values, keys and values together."""
    model, tp = at.model, at.par.tp
    heads, width = model.heads // tp, at.par.bytes.activation
    # MLA: expanded from the compressed ones, one a query head.
    shared = heads if model.kv_rank else local_kv(model, tp)
    both = model.key_width + model.value_width
    elements = (heads * model.key_width, heads * model.value_width, shared * both)
    return AttentionSizes(*(at.tokens * each * width for each in elements))


def rotary(at: Setting, backward: bool = False) -> tuple[KernelStep, ...]:
    """Queries and keys turned by their positions, read and written; learned positions need none.

    With a kernel for each operation: a product with the cosine (read and written), halves that
    change places (one is negated, both are written as one tensor), their product with the sine, the
    sum, and the part without position next to it. Backward, the same without the last, and sums
    over what each operation took from one tensor."""
    model, tp = at.model, at.par.tp
    if model.positions:
        return ()
    width = model.rope_dim or model.key_width
    heads = model.heads // tp + (1 if model.kv_rank else local_kv(model, tp))
    apart = model.rotary_scaled and at.par.separate_rotary
    moved = (17 if backward else 12) if apart else 2
    return (
        KernelStep(
            "rotary", "elementwise", 0, moved * at.tokens * heads * width * at.par.bytes.activation
        ),
    )


def _joined(at: Setting) -> tuple[KernelStep, ...]:
    """MLA: parts with and without position are written side by side, the one of keys to each head,
    values by themselves."""
    size = sizes(at)
    return (
        (KernelStep("heads", "elementwise", 0, 2 * (size.queries + size.shared)),)
        if at.model.kv_rank
        else ()
    )


def _operations(at: Setting) -> tuple[int, int]:
    """Operations of the fused kernels: 2 and 5 multiplications, half of each hidden by the mask;
    the second computes the scores again."""
    model = at.model
    # 2 for each of the half of all pairs that is seen
    one = at.tokens * model.seen(at.par.seq or 0) * (model.heads // at.par.tp)
    scores, values = one * model.key_width, one * model.value_width
    return scores + values, 3 * scores + 2 * values


def _kernels(
    whole: Core, ahead: int, back: int, others: int, step: str = "", unmasked: bool = False
) -> tuple[KernelStep, KernelStep]:
    """Forward and backward kernel of `operations` against `others` bytes of keys and values.

    Against the keys of other ranks whole blocks are seen or not; only a rank's own are masked in
    part."""
    own = whole.sizes.queries + whole.sizes.values
    kind = "unmasked_attention" if unmasked or whole.unmasked else "attention"
    forward = KernelStep(f"attention.core{step}", kind, ahead, own + others)
    return forward, KernelStep(f"attention.core{step}.grad", kind, back, 3 * own + 2 * others)


def _flash(whole: Core, exchange: ContextExchange | None) -> tuple[Script, Script]:
    """One kernel forward, one backward."""
    several = whole.cp if exchange != "a2a" else 1
    # With gathered keys, one part in `cp` of the work is partly masked.
    forward, backward = _kernels(
        whole, whole.ahead, whole.back, whole.sizes.shared * several, unmasked=several > 1
    )
    return (forward,), (backward,)


def _unfused(at: Setting) -> tuple[Script, Script]:
    """Separate kernels that write the score matrix: scores, softmax (with dropout), weighted
    sum."""
    model, par = at.model, at.par
    seq, width = par.seq or 0, par.bytes.activation
    m, batch = seq // par.cp, par.micro_batch * (model.heads // par.tp)
    pairs = batch * m * seq
    if par.cp_comm_type == "a2a":
        m, batch = seq, batch // par.cp
    mask = 1 if model.dropout else 0
    forward = (
        Gemm("scores", m, seq, model.key_width, batch, width),
        KernelStep("softmax", "elementwise", 0, pairs * (2 * width + mask * (2 * width + 1))),
        Gemm("context", m, model.value_width, seq, batch, width),
    )
    backward = (
        Gemm("context.dgrad", m, seq, model.value_width, batch, width),
        Gemm("values.grad", seq, model.value_width, m, batch, width),
        KernelStep("softmax.grad", "elementwise", 0, pairs * (3 * width + mask * (2 * width + 1))),
        Gemm("queries.grad", m, model.key_width, seq, batch, width),
        Gemm("keys.grad", seq, model.key_width, m, batch, width),
    )
    return forward, backward


def _gathered(whole: Core, forward: Script, backward: Script) -> tuple[Script, Script]:
    """All keys and values first, their gradients whole afterwards."""
    share = whole.sizes.shared
    gathered = CollectiveStep("kv.gather", "all_gather", share, "cp")
    regathered = CollectiveStep("kv.gather_again", "all_gather", share, "cp")
    reduced = CollectiveStep("kv.reduce_grad", "reduce_scatter", share * whole.cp, "cp")
    return (gathered, *forward), (regathered, *backward, reduced)


def _exchanged(whole: Core, forward: Script, backward: Script) -> tuple[Script, Script]:
    """The whole sequence of a `cp`-th of the heads instead of all heads of a piece of it, and
    back."""
    size = whole.sizes
    there, here = size.queries + size.shared, size.values
    return (
        (*_all_to_all("qkv", there), *forward, *_all_to_all("values", here)),
        (*_all_to_all("values.grad", here), *backward, *_all_to_all("qkv.grad", there)),
    )


def _all_to_all(name: str, size: int) -> tuple[Step, ...]:
    """Tensors are copied before, each rank's part to one place, and after, pieces in their
    order."""
    pack, unpack = (
        KernelStep(f"{name}.{what}", "elementwise", 0, 2 * size) for what in ("pack", "unpack")
    )
    return pack, CollectiveStep(f"{name}.exchange", "all_to_all", size, "cp"), unpack


def _ring(whole: Core) -> tuple[Script, Script]:
    """A step for each rank's keys and values, those for the next one on their way meanwhile."""
    cp, ahead, back = whole.cp, whole.ahead, whole.back
    kernels = [
        _kernels(
            whole,
            _part(ahead, i, cp),
            _part(back, i, cp),
            whole.sizes.shared,
            f".{i}",
            unmasked=i > 0,
        )
        for i in range(cp)
    ]
    forward: list[Step] = []
    backward: list[Step] = []
    for i, (kernel, gradient) in enumerate(kernels):
        forward += [*_turn(whole, "kv", i), kernel, *_merge(whole, i)]
        backward += [
            *_turn(whole, "kv_again", i),
            *_follow(whole, i),
            gradient,
            *_merge_gradients(whole, i),
        ]
    share = whole.sizes.shared
    home = Exchange(f"kv_grad.{cp - 1}", share)
    last = KernelStep("attention.merge.home.grad", "elementwise", 0, 3 * share)
    return tuple(forward), (*backward, home, Wait(home.name), last)


def _part(whole: int, i: int, cp: int) -> int:
    """One of `cp` parts that add up to the whole."""
    return whole * (i + 1) // cp - whole * i // cp


def _turn(whole: Core, name: str, i: int) -> list[Step]:
    """Wait before step `i`: its keys and values are there, and set out for the next rank."""
    arrived = [Wait(f"{name}.{i}")] if i else []
    return [
        *arrived,
        *([Exchange(f"{name}.{i + 1}", whole.sizes.shared)] if i < whole.cp - 1 else []),
    ]


def _follow(whole: Core, i: int) -> list[Step]:
    """Wait before step `i`: gradients of the keys and values of the step before set out after
    them."""
    return [Exchange(f"kv_grad.{i - 1}", whole.sizes.shared)] if i > 1 else []


def _merge(whole: Core, i: int) -> list[Step]:
    """After a step but the first: its result, weighted by its sums, is added to what was there;
    read, read, written."""
    return (
        [KernelStep(f"attention.merge.{i}", "elementwise", 0, 3 * whole.sizes.values)] if i else []
    )


def _merge_gradients(whole: Core, i: int) -> list[Step]:
    """After a step but the first: its gradients are added to those of queries before it, and to
    those of keys and values that other ranks sent. A rank's own for its own wait at home."""
    if not i:
        return []
    size = whole.sizes
    arrived = [Wait(f"kv_grad.{i - 1}")] if i > 1 else []
    added = size.queries + (size.shared if i > 1 else 0)
    return [*arrived, KernelStep(f"attention.merge.{i}.grad", "elementwise", 0, 3 * added)]
