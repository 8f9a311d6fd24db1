"""Whole training steps of decoders in JAX, cut over devices as our generator cuts them: tensors as
Megatron does, parameters in shards (FSDP), or layers in stages (GPipe).

Parameters, activations and gradients are bfloat16, the optimizer is Adam with a copy in float32.
Saved for the backward pass is what the generator counts: the result of softmax, and probabilities
of the loss in float32. With FSDP layers are a loop, and each is recomputed from its input. Experts
are shared out over the axis of samples. The caller sets XLA's flags before it imports this file."""

from __future__ import annotations

import functools
import random
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

Tree: TypeAlias = Any
Setting = dict[str, int]
BF16, F32 = jnp.bfloat16, jnp.float32
LAYOUTS = (
    # pp, dp, tp, zero
    (1, 8, 1, 0), (1, 16, 1, 0), (1, 1, 8, 0), (1, 2, 4, 0), (1, 8, 4, 0), (1, 8, 8, 0),
    (1, 8, 1, 3), (1, 32, 1, 3), (2, 2, 2, 0), (4, 2, 1, 0), (4, 2, 4, 0),
)  # fmt: skip
EXPERTS = ((8, 2), (32, 1))
"""Data-parallel ranks that share out experts, and how many each has."""


def drawn(seed: int) -> dict[str, Setting]:
    """Steps of drawn sizes, one for each layout."""
    chance = random.Random(seed)
    found: dict[str, Setting] = {}
    for pp, dp, tp, zero in LAYOUTS:
        width = chance.choice((64, 128))
        heads = 8 * chance.randint(2, 4) * (2 if tp > 1 else 1)
        hidden = width * heads
        setting = {
            "layers": 2 * pp if pp > 1 else chance.randint(2, 3),
            "hidden": hidden,
            "heads": heads,
            "ffn": chance.choice((3, 4)) * hidden,
            "sequence": 512 * chance.randint(2, 4),
            "vocabulary": 1024 * chance.randint(8, 16) if pp == 1 else 1024,
            "micro_batch": chance.randint(1, 2),
            "batches": 2 * pp if pp > 1 else 1,
            "pp": pp, "dp": dp, "tp": tp, "zero": zero,
        }  # fmt: skip
        name = f"step_{'fsdp' if zero else 'dp'}{dp}_tp{tp}_pp{pp}"
        found[name] = setting
    for dp, each in EXPERTS:
        heads = 8 * chance.randint(2, 4)
        hidden, inner = 64 * heads, 64 * heads * chance.randint(2, 4)
        found[f"step_experts{dp}"] = {
            "layers": 2, "hidden": hidden, "heads": heads, "ffn": inner, "expert_ffn": inner,
            "experts": each * dp, "top_k": 2, "sequence": 512 * chance.randint(2, 4),
            "vocabulary": 1024 * chance.randint(8, 16), "micro_batch": chance.randint(1, 2),
            "batches": 1, "pp": 1, "dp": dp, "tp": 1, "zero": 0,
        }  # fmt: skip
    return found


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def enter(x: jax.Array, axis: str) -> jax.Array:
    """The input of matrices that are cut by columns: gradients are summed."""
    return x


enter.defvjp(lambda x, axis: (x, None), lambda axis, _, g: (lax.psum(g, axis),))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def leave(x: jax.Array, axis: str) -> jax.Array:
    """The output of matrices that are cut by rows: partial sums are added."""
    return lax.psum(x, axis)


leave.defvjp(lambda x, axis: (lax.psum(x, axis), None), lambda axis, _, g: (g,))


def _softmax(x: jax.Array) -> jax.Array:
    """Softmax along the last axis, computed in float32, kept in bfloat16."""
    return jax.nn.softmax(x.astype(F32), -1).astype(x.dtype)


softmax: Any = jax.custom_vjp(_softmax)


def _softmax_back(y: jax.Array, g: jax.Array) -> tuple[jax.Array]:
    whole, gradient = y.astype(F32), g.astype(F32)
    inner = jnp.sum(whole * gradient, -1, keepdims=True)
    return ((whole * (gradient - inner)).astype(y.dtype),)


softmax.defvjp(lambda x: (softmax(x),) * 2, _softmax_back)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_entropy(logits: jax.Array, wanted: jax.Array, axis: str | None) -> jax.Array:
    """The loss of logits whose vocabulary is cut over an axis."""
    return _loss(logits, wanted, axis)[0]


def _mine(logits: jax.Array, wanted: jax.Array, axis: str | None) -> jax.Array:
    width = logits.shape[-1]
    first = lax.axis_index(axis) * width if axis else 0
    return jnp.arange(width)[None, None] == (wanted - first)[..., None]


def _loss(logits: jax.Array, wanted: jax.Array, axis: str | None) -> tuple[jax.Array, Tree]:
    x = logits.astype(F32)
    highest = jnp.max(x, -1, keepdims=True)
    highest = lax.pmax(highest, axis) if axis else highest
    powers = jnp.exp(x - highest)
    total = jnp.sum(powers, -1, keepdims=True)
    right = jnp.sum(jnp.where(_mine(logits, wanted, axis), x, 0), -1, keepdims=True)
    if axis:
        total, right = lax.psum(total, axis), lax.psum(right, axis)
    return jnp.sum(jnp.log(total) + highest - right), (powers, total, wanted)


def _loss_back(axis: str | None, saved: Tree, g: jax.Array) -> tuple[jax.Array, None]:
    powers, total, wanted = saved
    gradient = powers / total - _mine(powers, wanted, axis)
    return (g * gradient).astype(BF16), None


cross_entropy.defvjp(_loss, _loss_back)


def norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    """RMS norm, computed in float32."""
    whole = x.astype(F32)
    scale = lax.rsqrt(jnp.mean(whole * whole, -1, keepdims=True) + 1e-6)
    return (whole * scale).astype(BF16) * gain


def rotary(x: jax.Array) -> jax.Array:
    """Rotary positions."""
    count, width = x.shape[1], x.shape[-1] // 2
    angles = jnp.arange(count)[:, None] * (1e4 ** (-jnp.arange(width) / width))[None]
    cosine, sine = (call(angles).astype(BF16)[None, :, None] for call in (jnp.cos, jnp.sin))
    a, b = x[..., :width], x[..., width:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def _same(x: jax.Array) -> jax.Array:
    return x


def _moved(x: jax.Array, there: jax.Array, back: jax.Array) -> jax.Array:
    """Rows in another order."""
    return x[there]


moved: Any = jax.custom_vjp(_moved)
moved.defvjp(
    lambda x, there, back: (x[there], (there, back)), lambda saved, g: (g[saved[1]], None, None)
)


def _copied(x: jax.Array, there: jax.Array, back: jax.Array) -> jax.Array:
    """Rows of `x`, each as often as `there` names it; `back` has the places of a row's copies."""
    return x[there // back.shape[1]]


copied: Any = jax.custom_vjp(_copied)
copied.defvjp(
    lambda x, there, back: (_copied(x, there, back), back),
    lambda back, g: (jnp.sum(g[back].astype(F32), 1).astype(g.dtype), None, None),
)


def experts(w: Tree, y: jax.Array, top_k: int, axis: str) -> jax.Array:
    """Experts of all ranks of an axis, each with an even share of all tokens."""
    rows = y.reshape(-1, y.shape[-1])
    scores = softmax(rows @ w["router"])
    weights, chosen = lax.top_k(scores, top_k)
    there = jnp.argsort(chosen.reshape(-1))
    back = jnp.argsort(there)
    local = w["expert_up"].shape[0]
    parts = lax.axis_size(axis)
    hidden = rows.shape[-1]
    sent = copied(rows, there, back.reshape(-1, top_k))
    sent = sent.reshape(parts * local, -1, hidden)
    come = lax.all_to_all(sent, axis, 0, 0, tiled=True)
    come = come.reshape(parts, local, -1, hidden).transpose(1, 0, 2, 3).reshape(local, -1, hidden)
    up = jax.nn.relu(jnp.einsum("ech,ehf->ecf", come, w["expert_up"]))
    done = jnp.einsum("ecf,efh->ech", up, w["expert_down"])
    done = done.reshape(local, parts, -1, hidden).transpose(1, 0, 2, 3)
    done = done.reshape(parts * local, -1, hidden)
    home = lax.all_to_all(done, axis, 0, 0, tiled=True).reshape(-1, hidden)
    home = moved(home, back, there).reshape(-1, top_k, hidden)
    return jnp.sum(home * weights[..., None], 1).reshape(y.shape)


def layer(w: Tree, x: jax.Array, heads: int, axis: str | None, top_k: int = 0) -> jax.Array:
    """A layer of a decoder; with `top_k` one of experts, which the axis of samples shares out."""
    into: Any = functools.partial(enter, axis=axis) if axis else _same
    out: Any = functools.partial(leave, axis=axis) if axis else _same
    batch, count, _ = x.shape
    y = into(norm(x, w["first"]))
    q, k, v = jnp.split((y @ w["qkv"]).reshape(batch, count, 3 * heads, -1), 3, 2)
    q, k = rotary(q), rotary(k)
    scores = softmax(jnp.einsum("bsnd,btnd->bnst", q, k) * q.shape[-1] ** -0.5)
    mixed = jnp.einsum("bnst,btnd->bsnd", scores, v).reshape(batch, count, -1)
    x = x + out(mixed @ w["out"])
    y = into(norm(x, w["second"]))
    if top_k:
        return x + experts(w, y, top_k, "d")
    return x + out(jax.nn.relu(y @ w["up"]) @ w["down"])


def shapes_of(at: Setting) -> tuple[Tree, Tree]:
    """Shapes of all parameters, and their cuts."""
    hidden, ffn, vocabulary = at["hidden"], at["ffn"], at["vocabulary"]
    one = {
        "first": ((hidden,), P()),
        "second": ((hidden,), P()),
        "qkv": ((hidden, 3 * hidden), P(None, "t")),
        "out": ((hidden, hidden), P("t", None)),
        "up": ((hidden, ffn), P(None, "t")),
        "down": ((ffn, hidden), P("t", None)),
    }
    if at.get("experts"):
        count, inner = at["experts"], at["expert_ffn"]
        del one["up"], one["down"]
        one |= {
            "router": ((hidden, count), P()),
            "expert_up": ((count, hidden, inner), P("d")),
            "expert_down": ((count, inner, hidden), P("d")),
        }
    ends = {
        "table": ((vocabulary, hidden), P("t", None)),
        "gain": ((hidden,), P()),
        "head": ((hidden, vocabulary), P(None, "t")),
    }
    if at["pp"] > 1:
        one, ends = (
            {name: ((at["pp"], *shape), P("p", *cut)) for name, (shape, cut) in each.items()}
            for each in (one, ends)
        )
    if at["zero"]:
        ends = {name: (shape, P("d")) for name, (shape, _) in ends.items()}
        count = at["layers"]
        return {name: ((count, *shape), P(None, "d")) for name, (shape, _) in one.items()}, ends
    return [one] * (at["layers"] // at["pp"]), ends


def losses(at: Setting) -> Any:  # noqa: ANN401 - a function
    """The loss of a rank's samples."""
    axis = "t" if at["tp"] > 1 else None
    heads = at["heads"] // at["tp"]

    def gathered(w: Tree) -> Tree:
        if not at["zero"]:
            return w
        return jax.tree.map(lambda each: lax.all_gather(each, "d", axis=0, tiled=True), w)

    def first(ends: Tree, tokens: jax.Array) -> jax.Array:
        table = gathered(ends["table"])
        if axis is None:
            return table[tokens]
        place = tokens - lax.axis_index(axis) * table.shape[0]
        inside = (place >= 0) & (place < table.shape[0])
        rows = table[jnp.where(inside, place, 0)]
        return leave(jnp.where(inside[..., None], rows, 0), axis)

    def last(ends: Tree, x: jax.Array, wanted: jax.Array) -> jax.Array:
        gain, head = gathered((ends["gain"], ends["head"]))
        y = norm(x, gain)
        return cross_entropy((enter(y, axis) if axis else y) @ head, wanted, axis)

    def whole(w: Tree, tokens: jax.Array, wanted: jax.Array) -> jax.Array:
        layers, ends = w
        x = first(ends, tokens)
        for each in layers:
            x = layer(each, x, heads, axis, at.get("top_k", 0))
        return last(ends, x, wanted)

    def sharded(w: Tree, tokens: jax.Array, wanted: jax.Array) -> jax.Array:
        """A loop over layers. Each gathers its parameters, and again where it is recomputed."""
        layers, ends = w

        @functools.partial(jax.checkpoint, prevent_cse=False)
        def one(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
            return layer(gathered(w), x, heads, axis), None

        return last(ends, lax.scan(one, first(ends, tokens), layers)[0], wanted)

    def staged(w: Tree, tokens: jax.Array, wanted: jax.Array) -> jax.Array:
        """All stages do the same; what a stage does not need, it does while it would wait."""
        stage, stages, batches = lax.axis_index("p"), at["pp"], at["batches"]
        shift = [(each, each + 1) for each in range(stages - 1)]
        layers, ends = jax.tree.map(lambda one: one[0], w)
        carry: Any = None
        total = jnp.zeros((), F32)
        for tick in range(batches + stages - 1):
            x = carry
            if tick < batches:
                x = first(ends, tokens[tick])
                x = x if carry is None else jnp.where(stage == 0, x, carry)
            for each in layers:
                x = layer(each, x, heads, axis)
            if tick >= stages - 1:
                total += last(ends, x, wanted[tick - stages + 1])
            if tick < batches + stages - 2:
                carry = lax.ppermute(x, "p", shift)
        return jnp.where(stage == stages - 1, total, 0)

    return staged if at["pp"] > 1 else sharded if at["zero"] else whole


def _summed(path: Any, each: jax.Array) -> jax.Array:  # noqa: ANN401 - JAX's
    """Gradients over all samples; those of experts are so already."""
    return each if "expert_" in str(path[-1]) else lax.psum(each, "d")


def step_of(at: Setting) -> tuple[Any, list[Tree], list[Tree]]:
    """The step of a rank, the shapes of its arguments and their cuts."""
    loss = losses(at)

    def step(w: Tree, state: Tree, tokens: jax.Array, wanted: jax.Array) -> Tree:
        value, gradients = jax.value_and_grad(loss)(w, tokens, wanted)
        if at["dp"] > 1 and not at["zero"]:
            gradients = jax.tree.map_with_path(_summed, gradients)

        # As in the generator, the optimizer begins when all gradients are there.
        first = [each[(0,) * each.ndim] for each in jax.tree.leaves(gradients)]
        sound = jnp.all(jnp.isfinite(jnp.stack(first)))

        def update(state: Tree, gradient: jax.Array) -> Tree:
            g = jnp.where(sound, gradient, 0).astype(F32)
            first, second = 0.9 * state[0] + 0.1 * g, 0.99 * state[1] + 0.01 * g * g
            master = state[2] - 1e-3 * first / (jnp.sqrt(second) + 1e-8)
            return first, second, master

        leaves, kind = jax.tree.flatten(gradients)
        states = [update(*each) for each in zip(state, leaves, strict=True)]
        return kind.unflatten([each[2].astype(BF16) for each in states]), states, value[None]

    pairs = shapes_of(at)
    is_pair = lambda each: isinstance(each, tuple) and isinstance(each[1], P)  # noqa: E731
    weights = jax.tree.map(lambda each: jax.ShapeDtypeStruct(each[0], BF16), pairs, is_leaf=is_pair)
    cuts = jax.tree.map(lambda each: each[1], pairs, is_leaf=is_pair)
    leaves = jax.tree.leaves(weights)
    state = [(jax.ShapeDtypeStruct(each.shape, F32),) * 3 for each in leaves]
    state_cuts = [
        (cut,) * 3 for cut in jax.tree.leaves(cuts, is_leaf=lambda one: isinstance(one, P))
    ]
    samples = at["micro_batch"] * at["dp"]
    shape: tuple[int, ...] = (samples, at["sequence"])
    cut = P("d")
    if at["pp"] > 1:
        shape, cut = (at["batches"], *shape), P(None, "d")
    tokens = jax.ShapeDtypeStruct(shape, jnp.int32)
    return step, [weights, state, tokens, tokens], [cuts, state_cuts, cut, cut]
