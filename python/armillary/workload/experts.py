"""Work of one rank for the experts of one layer and one micro-batch.

Here: routing, dispatch, experts, combination, and the shared experts that every token visits. Not
here: dense layers (`layer.py`).

- A rank's T tokens (T / tp with tensor parallelism) go to `top_k` experts each. Dispatch and
  combination are all-to-alls of T x top_k x hidden x load elements over the expert-parallel group,
  twice forward and twice backward.
- `load` is the capacity factor, or the imbalance of the busiest rank. Every rank is assumed to have
  that load, since the others would wait for it.
- With tensor parallelism, each expert is divided, too. Its tokens are gathered before it and
  reduce-scattered after it. With `etp` 1 experts are whole, and neither is needed.
- With `ep_node` ranks in a node, a token is sent once to each node that it visits: to the rank with
  the sender's place there. From there it goes once to each rank that has one of its experts.
  Results are added up on the way back. The two all-to-alls, of T x nodes and T x ranks tokens, run
  at the same time, as kernels that forward piece by piece do. The number of nodes and ranks that a
  token visits is the average for experts chosen at random (`visited`).

Sources: Lepikhin et al. 2020 (arXiv:2006.16668); Rajbhandari et al. 2022 (arXiv:2201.05596);
DeepSeek-AI 2024 (arXiv:2412.19437, sections 2.1.2, 3.2.2, 3.3.3) and deepseek-ai/DeepEP."""

from __future__ import annotations

import math
from typing import NamedTuple

from .layer import (
    Linear,
    activation,
    cast,
    gather,
    matrices,
    norm,
    norm_grad,
    reduce,
)
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
)
from .setting import Setting

SCALED = 128
"""Elements of a token that share a scale of 4 bytes where it is sent in 8 bits."""


class TokenShare(NamedTuple):
    """Tokens on one rank, each counted once for every expert it visits."""

    sent: int
    """Tokens that this rank sends to experts."""
    computed: int
    """Tokens that this rank's experts compute, with those of all tensor-parallel ranks."""
    each: int
    """Tokens that one of these experts computes."""


class Visits(NamedTuple):
    """Nodes and ranks that one token visits, on average."""

    nodes: float
    """Nodes with experts that it goes to."""
    ranks: float
    """Ranks with experts that it goes to."""


def share(at: Setting) -> TokenShare:
    """How many tokens go where, rounded up."""
    sent = math.ceil(at.kept * at.model.top_k * at.par.load)
    computed = sent * (at.par.expert_tp if at.par.sp else 1)
    return TokenShare(sent, computed, math.ceil(computed / local_experts(at)))


def local_experts(at: Setting) -> int:
    """Routed experts of one rank."""
    return at.model.experts // at.par.ep


def visited(at: Setting) -> Visits:
    """Nodes and ranks that a token's `top_k` experts are on, these drawn at random from those of
    `node_limit` nodes.

    Of n places with e experts each, k drawn from all n e meet n (1 - C(n e - e, k) / C(n e, k)).
    """
    par, k = at.par, at.model.top_k
    near = par.ep_node or par.ep
    nodes = min(par.node_limit or par.ep // near, par.ep // near)
    local = local_experts(at)
    return Visits(_met(nodes, local * near, k), _met(nodes * near, local, k))


def _met(places: int, each: int, drawn: int) -> float:
    every = places * each
    return places * (1 - math.comb(every - each, drawn) / math.comb(every, drawn))


class Route(NamedTuple):
    """All-to-alls of one way."""

    calls: tuple[CollectiveStep, ...]

    @property
    def start(self) -> list[Start]:
        """Sets them off, side by side."""
        return [Start(*call) for call in self.calls]

    @property
    def wait(self) -> list[Wait]:
        """Waits for all of them."""
        return [Wait(call.name) for call in self.calls]

    @property
    def whole(self) -> list[Step]:
        """Steps that start the calls, and steps that wait for them."""
        return [*self.start, *self.wait]


def _route(at: Setting, name: str, narrow: bool = False) -> Route:
    """To experts or back, a token's elements in 8 bits if `narrow`."""
    hidden, par = at.model.hidden, at.par
    token = hidden + 4 * -(-hidden // SCALED) if narrow else hidden * par.bytes.activation
    if par.ep == 1:
        return Route(())
    if par.ep_node is None:
        return Route(
            (CollectiveStep(f"experts.{name}", "all_to_all", share(at).sent * token, "ep"),)
        )
    nodes, ranks = (math.ceil(at.kept * par.load * visits) * token for visits in visited(at))
    calls = (
        [CollectiveStep(f"experts.{name}.nodes", "all_to_all", nodes, "ep_nodes")]
        if par.ep > par.ep_node
        else []
    )
    calls += (
        [CollectiveStep(f"experts.{name}.node", "all_to_all", ranks, "ep_node")]
        if par.ep_node > 1
        else []
    )
    return Route(tuple(calls))


def _narrowed(at: Setting, name: str) -> tuple[KernelStep, ...]:
    """A rank's own tokens to 8 bits before they are sent; read once for scales of blocks, and
    written."""
    if not at.par.fp8_dispatch or at.par.ep == 1:
        return ()
    return (
        KernelStep(
            f"experts.{name}.cast",
            "elementwise",
            0,
            at.kept * at.model.hidden * (at.par.bytes.activation + 1),
        ),
    )


def _copied(at: Setting, name: str, narrow: bool = False) -> tuple[KernelStep, ...]:
    """A copy for each expert of a token before it is sent, or the sum of what comes back; kernels
    that send a token once to a node read and add up by themselves."""
    if at.par.ep_node is not None:
        return ()
    width = 1 if narrow and at.par.ep > 1 else at.par.bytes.activation
    return (KernelStep(name, "elementwise", 0, 2 * share(at).sent * at.model.hidden * width),)


def experts(at: Setting) -> Scripts:
    """The expert block of a layer: in place of the perceptron."""
    narrow = at.par.fp8_dispatch
    dispatch, combine = _route(at, "dispatch", narrow), _route(at, "combine")
    router = Linear("router", at.model.experts, at.model.hidden)
    wide = at.par.bytes.activation
    gate = Gemm("router", at.kept, router.n, router.k, width=wide)
    shared = shared_experts(at)
    routed = _routed(at)
    forward = (
        norm(at, "experts.norm"),
        gate,
        *_narrowed(at, "dispatch"),
        *_copied(at, "permute", narrow),
        *dispatch.start,
        *shared.forward,
        *dispatch.wait,
        *routed.forward,
        *combine.whole,
        *_copied(at, "unpermute"),
    )
    back_in, back_out = _route(at, "combine_grad", narrow), _route(at, "dispatch_grad")
    gate_grad = (
        Gemm("router.dgrad", at.kept, router.k, router.n, width=wide),
        Gemm("router.wgrad", router.k, router.n, at.kept, width=wide),
    )

    def backward(kind: str, gates: Script) -> Script:
        through: Script = getattr(routed, kind)
        feed_forward: Script = getattr(shared, kind)
        return (
            *_narrowed(at, "combine_grad"),
            *_copied(at, "unpermute.grad", narrow),
            *back_in.start,
            *feed_forward,
            *back_in.wait,
            *through,
            *back_out.whole,
            *_copied(at, "permute.grad"),
            *gates,
            norm_grad(at, "experts.norm"),
        )

    weights = (*shared.weights, *routed.weights, gate_grad[1])
    # All-to-alls and every other multiplication of the shared experts stay; grouped ones do not.
    again = (
        norm(at, "experts.norm"),
        gate,
        *_copied(at, "permute", narrow),
        *shared.again,
        *routed.forward,
        *_copied(at, "unpermute"),
    )
    # Results of experts are weighted, which asks for them backward.
    return Scripts(
        forward,
        backward("backward", gate_grad),
        backward("inputs", gate_grad[:1]),
        weights,
        forward,
        again,
    )


def _routed(at: Setting) -> Scripts:
    """This rank's experts, one multiplication of a batch of them a matrix."""
    count, tp, local = share(at), at.par.expert_tp, local_experts(at)
    arrives = at.par.fp8_dispatch and at.par.ep > 1
    token = at.model.hidden * at.par.bytes.activation
    up, down = matrices(at, at.model.expert_ffn, tp)
    inner = _between(at)

    def call(name: str, kind: str, tokens: int) -> Script:
        return (CollectiveStep(f"experts.{name}", kind, tokens * token, "tp"),) if tp > 1 else ()

    def multiply(x: Linear, narrow: bool = False) -> Script:
        name, tokens = f"experts.{x.name}", local * x.k * count.each
        casts = _cast(at, name, tokens, local * x.k * x.n, narrow)
        return *casts, Gemm(name, count.each, x.n, x.k, local, grouped=True)

    def input_(x: Linear, narrow: bool = False) -> Script:
        name = f"experts.{x.name}.dgrad"
        casts = _cast(at, name, local * count.each * x.n, narrow=narrow)
        return *casts, Gemm(name, count.each, x.k, x.n, local, grouped=True)

    def weight(x: Linear) -> Step:
        return Gemm(f"experts.{x.name}.wgrad", x.k, x.n, count.each, local, grouped=True)

    biased = _biased(at)
    gathered, reduced = (
        call("gather", "all_gather", count.sent),
        call("reduce", "reduce_scatter", count.computed),
    )
    entry = call("gather_grad", "all_gather", count.sent)
    leave = call("reduce_grad", "reduce_scatter", count.computed)
    before, after = _sorted(at, "dispatched", arrives), _sorted(at, "computed")
    back_in, back_out = _sorted(at, "computed.grad", arrives), _sorted(at, "dispatched.grad")
    through = (*entry, *back_in, *biased.backward, *input_(down, arrives))
    return Scripts(
        (
            *gathered,
            *before,
            *multiply(up, arrives),
            *inner.forward,
            *multiply(down),
            *biased.forward,
            *after,
            *reduced,
        ),
        (*through, weight(down), *inner.backward, *input_(up), weight(up), *back_out, *leave),
        (*through, *inner.backward, *input_(up), *back_out, *leave),
        (weight(down), weight(up)),
    )


def _biased(at: Setting) -> Inner:
    """The weighted biases of experts' second matrices by themselves: kernels for the product, the
    sum, one tensor of all experts' results, and its narrow form; backward, the same, and sums over
    tokens and over the width."""
    if not (at.model.bias and at.par.separate_bias):
        return Inner((), ())
    width, one = at.par.bytes.activation, share(at).computed * at.model.hidden
    return Inner(
        (KernelStep("experts.bias", "elementwise", 0, (24 + 2 * width) * one),),
        (KernelStep("experts.bias.grad", "elementwise", 0, (32 + 4 * width) * one),),
    )


def _sorted(at: Setting, name: str, narrow: bool = False) -> tuple[KernelStep, ...]:
    """Tokens come by rank and are wanted by expert, and the other way: a copy, where there is more
    than one of each.

    What came once for several experts of a rank is read once and written for each, and added up the
    other way."""
    count, par = share(at).computed, at.par
    if par.ep == 1 or local_experts(at) == 1:
        return ()
    once = count if par.ep_node is None else math.ceil(count * visited(at).ranks / at.model.top_k)
    moved = (once + count) * at.model.hidden * (1 if narrow else par.bytes.activation)
    return (KernelStep(f"experts.{name}.sort", "elementwise", 0, moved),)


def _cast(
    at: Setting, name: str, tokens: int, weights: int = 0, narrow: bool = False
) -> tuple[KernelStep, ...]:
    """Operands to 8 bits: elements of `tokens`, `narrow` where they came so, and of `weights`,
    perhaps cast by the ranks that update them, or once a step. What came in 8 bits for wider
    multiplications is made wide."""
    par = at.par
    if narrow and par.bytes.gemm == par.bytes.activation:
        return (KernelStep(f"{name}.widen", "elementwise", 0, tokens * (1 + par.bytes.activation)),)
    weights = 0 if par.fp8_weight_cache else weights
    ready = (weights if par.fp8_param_gather else 0) + (tokens if narrow else 0)
    return cast(at, name, tokens + weights, ready)


def routed_activation(at: Setting) -> Script:
    """Kernels between the matrices of this rank's experts."""
    return _between(at).forward


def _between(at: Setting) -> Inner:
    width = at.model.expert_ffn // at.par.expert_tp
    return activation(at, width, share(at).computed, "experts.activation")


def shared_activation(at: Setting) -> Script:
    """Kernels between the matrices of the experts that every token visits."""
    ffn = at.model.shared_experts * at.model.expert_ffn
    return activation(at, ffn // at.par.tp, at.tokens, "shared.activation").forward if ffn else ()


def shared_experts(at: Setting) -> Scripts:
    """The experts every token visits, as one perceptron; runs while tokens travel."""
    if not at.model.shared_experts:
        return Scripts((), (), (), ())
    ffn = at.model.shared_experts * at.model.expert_ffn
    up, down = (Linear(f"shared.{x.name}", x.n, x.k, x.again) for x in matrices(at, ffn, at.par.tp))
    inner = activation(at, ffn // at.par.tp, at.tokens, "shared.activation")
    forward: list[Script] = [
        (*_cast(at, x.name, x.k * at.tokens, x.k * x.n), Gemm(x.name, at.tokens, x.n, x.k))
        for x in (up, down)
    ]
    inputs: list[Script] = [
        (
            *_cast(at, f"{x.name}.dgrad", at.tokens * x.n),
            Gemm(f"{x.name}.dgrad", at.tokens, x.k, x.n),
        )
        for x in (down, up)
    ]
    weights: list[Step] = [Gemm(f"{x.name}.wgrad", x.k, x.n, at.tokens) for x in (down, up)]
    half = up._replace(n=up.again, parts=())
    again = (
        *gather(at, "shared.gather"),
        *_cast(at, up.name, up.k * at.tokens, half.k * half.n),
        *((Gemm(up.name, at.tokens, half.n, half.k),) if half.n else ()),
        *inner.forward,
        *(forward[1] if down.again else ()),
        *(reduce(at, "shared.reduce") if down.again else ()),
    )
    entry, leave = gather(at, "shared.gather_grad"), reduce(at, "shared.reduce_grad")
    through = (*inputs[0], *inner.backward, *inputs[1])
    return Scripts(
        (
            *gather(at, "shared.gather"),
            *forward[0],
            *inner.forward,
            *forward[1],
            *reduce(at, "shared.reduce"),
        ),
        (*entry, *through, *weights, *leave),
        (*entry, *through, *leave),
        tuple(weights),
        again=again,
    )
