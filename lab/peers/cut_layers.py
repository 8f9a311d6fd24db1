"""Layers of a transformer in JAX, and how their weights are cut.

Weights are cut as Megatron cuts them: by heads, and the perceptron's first matrix by columns and
the second by rows. The caller sets XLA's flags before it imports this file."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

F32 = jnp.float32
SHAPE_OF_MODEL = {"layers": 2, "hidden": 32, "heads": 8, "ffn": 64, "sequence": 6}


def normed(x: jax.Array, gain: jax.Array) -> jax.Array:
    """RMS norm."""
    return gain * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True))


def loss(layers: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    """Loss of the layers, one after the other."""
    for layer in layers:
        q, k, v = jnp.einsum("bsh,hknd->kbsnd", normed(x, layer["first"]), layer["qkv"])
        scores = jax.nn.softmax(jnp.einsum("bsnd,btnd->bnst", q, k))
        heads = jnp.einsum("bnst,btnd->bsnd", scores, v)
        x = x + jnp.einsum("bsnd,ndh->bsh", heads, layer["out"])
        x = x + jax.nn.relu(normed(x, layer["second"]) @ layer["up"]) @ layer["down"]
    return jnp.sum(x * x)


def cut_layers(
    shape: Mapping[str, int], axis: str
) -> tuple[list[dict[str, jax.ShapeDtypeStruct]], list[dict[str, PartitionSpec]]]:
    """Shapes of the weights of each layer, and their cuts over an axis of the mesh."""
    hidden, heads, ffn = (shape[key] for key in ("hidden", "heads", "ffn"))
    weights: dict[str, tuple[tuple[int, ...], tuple[str | None, ...]]] = {
        "first": ((hidden,), (None,)),
        "qkv": ((hidden, 3, heads, hidden // heads), (None, None, axis, None)),
        "out": ((heads, hidden // heads, hidden), (axis, None, None)),
        "second": ((hidden,), (None,)),
        "up": ((hidden, ffn), (None, axis)),
        "down": ((ffn, hidden), (axis, None)),
    }
    layers = range(shape["layers"])
    shapes = {name: jax.ShapeDtypeStruct(shape, F32) for name, (shape, _) in weights.items()}
    cuts = {name: PartitionSpec(*axes) for name, (_, axes) in weights.items()}
    return [shapes for _ in layers], [cuts for _ in layers]
