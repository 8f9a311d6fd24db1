"""What one rank does for the experts of one layer and one micro-batch.

Here: routing, dispatch, experts, combination, the experts every token visits. Not here: dense layers (`layer.py`).
A rank's T tokens (T / tp with tensor parallelism) go to `top_k` experts each: dispatch and combination are all-to-alls
of T x top_k x hidden x load elements over the expert-parallel group, twice forward and twice backward. `load` is the
capacity factor, or the imbalance of the busiest rank, which every rank is taken to be: the others would wait for it.
With tensor parallelism each expert is cut too, its tokens gathered before and reduce-scattered after it.
Sources: Lepikhin et al. 2020 (arXiv:2006.16668); Rajbhandari et al. 2022 (arXiv:2201.05596); DeepSeek-AI 2024
(arXiv:2412.19437).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .layer import Linear, Scripts, Setting, activation, cast, gather, matrices, norm, norm_grad, reduce
from .script import Call, Gemm, Script, Start, Step, Wait, Work


class Share(NamedTuple):
    """Tokens on one rank, each counted once for every expert it visits."""

    sent: int
    """By this rank to experts."""
    computed: int
    """By this rank's experts, those of all tensor-parallel ranks together."""
    each: int
    """Of these by one expert."""


def share(at: Setting) -> Share:
    """How many tokens go where, rounded up."""
    sent = math.ceil(at.kept * at.model.top_k * at.par.load)
    computed = sent * (at.par.tp if at.par.sp else 1)
    return Share(sent, computed, math.ceil(computed / local_experts(at)))


def local_experts(at: Setting) -> int:
    """Routed experts of one rank."""
    return at.model.experts // at.par.ep


def experts(at: Setting) -> Scripts:
    """The expert block of a layer: in place of the perceptron."""
    token, count = at.model.hidden * at.par.bytes.activation, share(at)
    dispatch, combine = _exchange(at, "dispatch", count.sent * token), _exchange(at, "combine", count.sent * token)
    moved = 2 * count.sent * token
    router = Linear("router", at.model.experts, at.model.hidden)
    wide = at.par.bytes.activation
    gate = Gemm("router", at.kept, router.n, router.k, width=wide)
    spread = Work("permute", "elementwise", 0, moved)
    merge = Work("unpermute", "elementwise", 0, moved)
    shared = _shared(at)
    routed = _routed(at)
    forward = (
        norm(at, "experts.norm"),
        gate,
        spread,
        *_start(dispatch),
        *shared.forward,
        *_wait(dispatch),
        *routed.forward,
        *combine,
        merge,
    )
    back_in, back_out = (
        _exchange(at, "combine_grad", count.sent * token),
        _exchange(at, "dispatch_grad", count.sent * token),
    )
    gate_grad = (
        Gemm("router.dgrad", at.kept, router.k, router.n, width=wide),
        Gemm("router.wgrad", router.k, router.n, at.kept, width=wide),
    )
    unmerge, unspread = Work("unpermute.grad", "elementwise", 0, moved), Work("permute.grad", "elementwise", 0, moved)

    def backward(kind: str, gates: Script) -> Script:
        through: Script = getattr(routed, kind)
        beside: Script = getattr(shared, kind)
        return (
            unmerge,
            *_start(back_in),
            *beside,
            *_wait(back_in),
            *through,
            *back_out,
            unspread,
            *gates,
            norm_grad(at, "experts.norm"),
        )

    weights = (*shared.weights, *routed.weights, gate_grad[1])
    # Results of experts are weighted, which asks for them backward.
    return Scripts(forward, backward("backward", gate_grad), backward("inputs", gate_grad[:1]), weights, forward)


def _exchange(at: Setting, name: str, size: int) -> tuple[Call, ...]:
    return (Call(f"experts.{name}", "all_to_all", size, "ep"),) if at.par.ep > 1 else ()


def _start(calls: tuple[Call, ...]) -> list[Start]:
    return [Start(*call) for call in calls]


def _wait(calls: tuple[Call, ...]) -> list[Wait]:
    return [Wait(call.name) for call in calls]


def _routed(at: Setting) -> Scripts:
    """This rank's experts, one multiplication of a batch of them a matrix."""
    count, tp, local = share(at), at.par.tp, local_experts(at)
    token = at.model.hidden * at.par.bytes.activation
    up, down = matrices(at, at.model.expert_ffn)
    inner = activation(at, at.model.expert_ffn, count.computed, "experts.activation")

    def call(name: str, kind: str, tokens: int) -> Script:
        return (Call(f"experts.{name}", kind, tokens * token, "tp"),) if tp > 1 else ()

    def multiply(x: Linear) -> Script:
        name, elements = f"experts.{x.name}", local * x.k * (count.each + x.n)
        return *_cast(at, name, elements, local * x.k * x.n), Gemm(name, count.each, x.n, x.k, local)

    def input_(x: Linear) -> Script:
        name = f"experts.{x.name}.dgrad"
        return *_cast(at, name, local * count.each * x.n), Gemm(name, count.each, x.k, x.n, local)

    def weight(x: Linear) -> Step:
        return Gemm(f"experts.{x.name}.wgrad", x.k, x.n, count.each, local)

    gathered, reduced = call("gather", "all_gather", count.sent), call("reduce", "reduce_scatter", count.computed)
    entry = call("gather_grad", "all_gather", count.sent)
    leave = call("reduce_grad", "reduce_scatter", count.computed)
    before, after = _sorted(at, "dispatched"), _sorted(at, "computed")
    back_in, back_out = _sorted(at, "computed.grad"), _sorted(at, "dispatched.grad")
    return Scripts(
        (*gathered, *before, *multiply(up), *inner.forward, *multiply(down), *after, *reduced),
        (*entry, *back_in, *input_(down), weight(down), *inner.backward, *input_(up), weight(up), *back_out, *leave),
        (*entry, *back_in, *input_(down), *inner.backward, *input_(up), *back_out, *leave),
        (weight(down), weight(up)),
    )


def _sorted(at: Setting, name: str) -> tuple[Work, ...]:
    """Tokens come by rank and are wanted by expert, and the other way: a copy, where there is more than one of each."""
    if at.par.ep == 1 or local_experts(at) == 1:
        return ()
    moved = 2 * share(at).computed * at.model.hidden * at.par.bytes.activation
    return (Work(f"experts.{name}.sort", "elementwise", 0, moved),)


def _cast(at: Setting, name: str, elements: int, weights: int = 0) -> tuple[Work, ...]:
    """Operands to 8 bits, `weights` of them perhaps by the ranks that update them."""
    return cast(at, name, elements, weights if at.par.fp8_param_gather else 0)


def _shared(at: Setting) -> Scripts:
    """The experts every token visits, as one perceptron; runs while tokens travel."""
    if not at.model.shared_experts:
        return Scripts((), (), (), ())
    ffn = at.model.shared_experts * at.model.expert_ffn
    up, down = (Linear(f"shared.{x.name}", x.n, x.k) for x in matrices(at, ffn))
    inner = activation(at, ffn, at.tokens, "shared.activation")
    forward: list[Script] = [
        (*_cast(at, x.name, x.k * (at.tokens + x.n), x.k * x.n), Gemm(x.name, at.tokens, x.n, x.k)) for x in (up, down)
    ]
    inputs: list[Script] = [
        (*_cast(at, f"{x.name}.dgrad", at.tokens * x.n), Gemm(f"{x.name}.dgrad", at.tokens, x.k, x.n))
        for x in (down, up)
    ]
    weights: list[Step] = [Gemm(f"{x.name}.wgrad", x.k, x.n, at.tokens) for x in (down, up)]
    entry, leave = gather(at, "shared.gather_grad"), reduce(at, "shared.reduce_grad")
    through = (*inputs[0], *inner.backward, *inputs[1])
    return Scripts(
        (*gather(at, "shared.gather"), *forward[0], *inner.forward, *forward[1], *reduce(at, "shared.reduce")),
        (*entry, *through, *weights, *leave),
        (*entry, *through, *leave),
        tuple(weights),
    )
