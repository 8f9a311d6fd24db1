"""Answers of JAX on processors: modules that XLA compiles for 1 to 64 devices, their operations by
`cost_analysis()`, and their collectives, counted by hand from the way in which each is cut.

    python record_xla.py ANSWERS           the answers
    python record_xla.py ANSWERS FOLDER    also the modules, which tests read

The modules are those of tests/python/data/xla: text of all; of some also the protobuf, the buffers,
and the text before optimization, when it was split over the devices. Of whole training steps
(`whole_steps.py`) it is that text alone. Names of folders of this machine are blanked out."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

DUMPS = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=64 --xla_dump_hlo_as_text --xla_dump_hlo_as_proto "
    "--xla_dump_hlo_pass_re=spmd-partitioning "
    f"--xla_dump_to={DUMPS}"
)

import jax
import jax.numpy as jnp
import numpy as np
from answers import Answers, main
from cut_layers import F32, cut_layers, loss
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from whole_steps import Setting, drawn, step_of

Tree: TypeAlias = Any
"""Arrays, or partitions, in tuples."""
Expected = list[tuple[str, int, int, int]]
"""Kind, bytes of a rank in all, ranks of a group, distance of two neighbors in it."""


@dataclass
class Recipe:
    """A function to compile: its inputs' shapes and cuts, the mesh, and what is expected of it."""

    name: str
    call: Callable[..., Any]
    shapes: Sequence[Tree]
    mesh: tuple[int, ...] = ()
    cuts: Sequence[Tree] = ()
    out: Tree = None
    expected: Expected = field(default_factory=list)
    proto: bool = False
    dtype: Any = F32
    loop_of: str = ""
    """The recipe that does the same without a loop."""


AXES = "abc"
DECODER = {"layers": 2, "hidden": 256, "heads": 8, "ffn": 512, "sequence": 64}
SAMPLES = 8
STEPS = 11
"""The seed of whole steps."""


def mesh_of(sizes: tuple[int, ...]) -> Mesh:
    """A mesh of the first devices, its axes named a, b, c."""
    count = int(np.prod(sizes))
    return Mesh(np.array(jax.devices()[:count]).reshape(sizes), tuple(AXES[: len(sizes)]))


def perceptron(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
    """A loss."""
    return jnp.sum(jnp.tanh(x @ w1) @ w2)


def wide(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
    """A loss that needs its activations behind the second product."""
    y = jnp.tanh(x @ w1) @ w2
    return jnp.sum(y * y)


def data(devices: int, hidden: int, batch: int) -> Recipe:
    """Samples cut over all devices: gradients of both matrices are summed."""
    shapes = [(hidden, 2 * hidden), (2 * hidden, hidden), (batch, hidden)]
    whole = 4 * 4 * hidden * hidden
    return Recipe(
        f"data_{devices}",
        jax.grad(wide, (0, 1)),
        shapes,
        (devices,),
        [P(), P(), P("a")],
        (P(), P()),
        [("all_reduce", whole, devices, 1)],
        devices == 2,
    )


def tensor(devices: int, hidden: int, batch: int) -> Recipe:
    """Columns, then rows of matrices cut: one sum forward, one for the gradient of the input."""
    shapes = [(hidden, 4 * hidden), (4 * hidden, hidden), (batch, hidden)]
    size = 2 * 4 * batch * hidden
    return Recipe(
        f"tensor_{devices}",
        jax.grad(wide, (0, 1, 2)),
        shapes,
        (devices,),
        [P(None, "a"), P("a", None), P()],
        (P(None, "a"), P("a", None), P()),
        [("all_reduce", size, devices, 1)],
        devices == 4,
    )


def both(data_: int, tensor_: int, hidden: int, batch: int) -> Recipe:
    """Samples over the first axis, matrices over the second one."""
    shapes = [(hidden, 4 * hidden), (4 * hidden, hidden), (batch, hidden)]
    local = 2 * 4 * (batch // data_) * hidden
    gradients = 4 * 8 * hidden * hidden // tensor_
    return Recipe(
        f"both_{data_}_{tensor_}",
        jax.grad(wide, (0, 1, 2)),
        shapes,
        (data_, tensor_),
        [P(None, "b"), P("b", None), P("a", None)],
        (P(None, "b"), P("b", None), P("a", None)),
        [("all_reduce", local, tensor_, 1), ("all_reduce", gradients, data_, tensor_)],
    )


def fsdp(devices: int, hidden: int, batch: int) -> Recipe:
    """Shards of matrices are gathered before, and their gradients scattered after they are used."""

    def local(w1: jax.Array, w2: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def loss(w1: jax.Array, w2: jax.Array) -> jax.Array:
            first = lax.all_gather(w1, "a", axis=0, tiled=True)
            second = lax.all_gather(w2, "a", axis=0, tiled=True)
            return wide(first, second, x)

        gradients: tuple[jax.Array, jax.Array] = jax.grad(loss, (0, 1))(w1, w2)
        return gradients

    shapes = [(hidden, 2 * hidden), (2 * hidden, hidden), (batch, hidden)]
    cuts = [P("a"), P("a"), P("a")]
    whole = 4 * 4 * hidden * hidden
    expected = [
        ("all_gather", whole // devices, devices, 1),
        ("reduce_scatter", whole, devices, 1),
    ]
    call = mapped(local, (devices,), cuts, (P("a"), P("a")))
    name = f"fsdp_{devices}"
    return Recipe(name, call, shapes, (devices,), cuts, None, expected, devices == 4)


def mapped(call: Callable[..., Any], mesh: tuple[int, ...], cuts: Sequence[P], out: Tree) -> Tree:
    """A function of one device's shards."""
    return jax.shard_map(
        call, mesh=mesh_of(mesh), in_specs=tuple(cuts), out_specs=out, check_vma=False
    )


def pipeline(stages: int, hidden: int, batch: int, batches: int, looped: bool) -> Recipe:
    """Stages of one matrix each; activations move to the next stage after each micro-batch."""
    shift = [(stage, stage + 1) for stage in range(stages - 1)]
    steps = batches + stages - 1

    def local(w: jax.Array, x: jax.Array) -> jax.Array:
        stage = lax.axis_index("a")

        def step(carry: jax.Array, at: Tree) -> tuple[jax.Array, None]:
            fresh = lax.dynamic_index_in_dim(x, jnp.minimum(at, batches - 1), 0, False)
            inputs = jnp.where(stage == 0, fresh, carry)
            return lax.ppermute(jnp.tanh(inputs @ w[0]), "a", shift), None

        carry = jnp.zeros((batch, hidden), F32)
        if looped:
            return lax.scan(step, carry, jnp.arange(steps))[0]
        for at in range(steps):
            carry, _ = step(carry, at)
        return carry

    cuts = [P("a"), P()]
    kind = "loop" if looped else "flat"
    return Recipe(
        f"pipeline_{stages}_{kind}",
        mapped(local, (stages,), cuts, P("a")),
        [(stages, hidden, hidden), (batches, batch, hidden)],
        (stages,),
        cuts,
        None,
        [("send", 4 * batch * hidden * steps, 2, 1)],
        stages == 4,
        loop_of=f"pipeline_{stages}_flat" if looped else "",
    )


def experts(devices: int, hidden: int, tokens: int) -> Recipe:
    """Tokens go to the experts of other devices and come back."""

    def local(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
        sent = lax.all_to_all(x.reshape(devices, -1, hidden), "a", 0, 0, tiled=True)
        done = jax.nn.relu(sent.reshape(-1, hidden) @ w1[0]) @ w2[0]
        back = lax.all_to_all(done.reshape(devices, -1, hidden), "a", 0, 0, tiled=True)
        return back.reshape(-1, hidden)

    cuts = [P("a"), P("a"), P("a")]
    size = 4 * tokens * hidden
    return Recipe(
        f"experts_{devices}",
        mapped(local, (devices,), cuts, P("a")),
        [(devices, hidden, 2 * hidden), (devices, 2 * hidden, hidden), (devices * tokens, hidden)],
        (devices,),
        cuts,
        None,
        [("all_to_all", 2 * size, devices, 1)],
        devices == 4,
    )


def sequence(devices: int, outer: int, hidden: int, tokens: int) -> Recipe:
    """Tokens cut between products: gathered before, scattered after them, on the inner axis."""

    def local(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
        whole = lax.all_gather(x, "b", axis=0, tiled=True)
        partial = jax.nn.gelu(whole @ w1) @ w2
        return lax.psum_scatter(partial, "b", scatter_dimension=0, tiled=True)

    cuts = [P(None, "b"), P("b", None), P(("a", "b"))]
    size = 4 * tokens * hidden
    return Recipe(
        f"sequence_{outer}_{devices}",
        mapped(local, (outer, devices), cuts, P(("a", "b"))),
        [(hidden, 4 * hidden), (4 * hidden, hidden), (outer * devices * tokens, hidden)],
        (outer, devices),
        cuts,
        None,
        [
            ("all_gather", size, devices, 1),
            ("reduce_scatter", size * devices, devices, 1),
        ],
    )


def layers(count: int, looped: bool) -> Recipe:
    """A stack of equal layers and its gradients, as a loop or one by one."""

    def stack(w: jax.Array, x: jax.Array) -> jax.Array:
        def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
            return jnp.tanh(x @ w), None

        if looped:
            return jnp.sum(lax.scan(layer, x, w)[0])
        for at in range(count):
            x, _ = layer(x, w[at])
        return jnp.sum(x)

    def local(w: jax.Array, x: jax.Array) -> Tree:
        first, second = jax.grad(stack, (0, 1))(w, x)
        return lax.psum(first, "a"), second

    cuts = [P(), P("a")]
    kind = "loop" if looped else "flat"
    hidden, batch = 32, 64
    return Recipe(
        f"layers_{count}_{kind}",
        mapped(local, (2,), cuts, (P(), P("a"))),
        [(count, hidden, hidden), (batch, hidden)],
        (2,),
        cuts,
        None,
        [("all_reduce", 4 * count * hidden * hidden, 2, 1)],
        loop_of=f"layers_{count}_flat" if looped else "",
    )


def strided(outer: int, inner: int) -> Recipe:
    """A sum over the outer axis, a message around it, and a broadcast of the first of each."""

    def local(x: jax.Array) -> jax.Array:
        total = lax.psum(x, "a")
        ring = [(at, (at + 1) % outer) for at in range(outer)]
        return lax.ppermute(total * 2, "a", ring) + lax.psum(x, ("a", "b"))

    size = 4 * 128 * 8
    return Recipe(
        f"strided_{outer}_{inner}",
        mapped(local, (outer, inner), [P("a", "b")], P("a", "b")),
        [(128 * outer, 8 * inner)],
        (outer, inner),
        [P("a", "b")],
        None,
        [
            ("all_reduce", size, outer, inner),
            ("all_reduce", size, outer * inner, 1),
            ("send", size, 2, inner),
        ],
        outer == 4,
    )


def convolution(devices: int) -> Recipe:
    """Convolutions with padding, strides and pooling; gradients are summed."""

    def loss(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
        dims = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(x, w1, (2, 2), "SAME", dimension_numbers=dims)
        x = lax.reduce_window(jax.nn.relu(x), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = lax.conv_general_dilated(x, w2, (1, 1), "VALID", dimension_numbers=dims)
        return jnp.sum(x * x)

    def local(w1: jax.Array, w2: jax.Array, x: jax.Array) -> Tree:
        return lax.psum(jax.grad(loss, (0, 1))(w1, w2, x), "a")

    cuts = [P(), P(), P("a")]
    sizes = 5 * 5 * 3 * 8 + 3 * 3 * 8 * 16
    return Recipe(
        f"convolution_{devices}",
        mapped(local, (devices,), cuts, (P(), P())),
        [(5, 5, 3, 8), (3, 3, 8, 16), (2 * devices, 32, 32, 3)],
        (devices,),
        cuts,
        None,
        [("all_reduce", 4 * sizes, devices, 1)],
    )


def decoder(data_: int, tensor_: int) -> Recipe:
    """Layers of a transformer and their gradients: samples over the first axis, weights over the
    second one; with the gradient of the input, as layers before these would need it."""
    weights, places = cut_layers(DECODER, "b")
    tokens = (SAMPLES // data_) * DECODER["sequence"]
    activations = 4 * tokens * DECODER["hidden"]
    matrices = DECODER["hidden"] * (4 * DECODER["hidden"] + 2 * DECODER["ffn"]) // tensor_
    held = 4 * DECODER["layers"] * (matrices + 2 * DECODER["hidden"])
    cuts = [places, P("a", None, None)]
    return Recipe(
        f"decoder_{data_}_{tensor_}",
        jax.grad(loss, (0, 1)),
        [weights, (SAMPLES, DECODER["sequence"], DECODER["hidden"])],
        (data_, tensor_),
        cuts,
        tuple(cuts),
        [
            ("all_reduce", 4 * DECODER["layers"] * activations, tensor_, 1),
            ("all_reduce", held, data_, tensor_),
        ],
    )


def others() -> list[Recipe]:
    """Instructions of other kinds, on one device."""

    def tables(table: jax.Array, x: jax.Array) -> Tree:
        at = jnp.argsort(x[:, 0])[:16]
        rows = table[at]
        return table.at[at].add(rows), jnp.cumsum(rows, 0), jnp.sort(x, 0)

    def numbers(x: jax.Array, y: jax.Array) -> Tree:
        spectrum = jnp.abs(jnp.fft.rfft(x))
        whole = x @ x.T + 100 * jnp.eye(x.shape[0])
        return spectrum, jnp.linalg.cholesky(whole), jnp.exp(x) / (1 + jnp.log1p(y * y))

    def random(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + jax.random.normal(jax.random.key(0), x.shape) * y

    def softmax(x: jax.Array, y: jax.Array) -> jax.Array:
        scores = jax.nn.softmax(jnp.einsum("bsnd,btnd->bnst", x, y))
        return jnp.einsum("bnst,btnd->bsnd", scores, y)

    def halves(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.concatenate([x @ y, x[:, ::-1]], 1)[:, 3:40].astype(jnp.float32)

    return [
        Recipe("tables_1", tables, [(64, 16), (128, 16)]),
        Recipe("numbers_1", numbers, [(24, 24), (24, 24)]),
        Recipe("random_1", random, [(33, 17), (33, 17)]),
        Recipe("softmax_1", softmax, [(2, 16, 4, 8), (2, 16, 4, 8)]),
        Recipe("halves_1", halves, [(32, 32), (32, 32)], dtype=jnp.bfloat16),
    ]


def recipes() -> list[Recipe]:
    """All of them."""
    return [
        *(data(devices, 32, 128) for devices in (2, 8, 64)),
        *(tensor(devices, 32, 64) for devices in (2, 4, 16)),
        both(2, 4, 32, 64),
        both(4, 2, 32, 64),
        both(4, 16, 64, 64),
        *(fsdp(devices, 64, 128) for devices in (2, 4, 32)),
        *(pipeline(stages, 16, 4, 3, looped) for stages in (2, 4) for looped in (False, True)),
        *(pipeline(8, 16, 4, 5, looped) for looped in (False, True)),
        *(experts(devices, 16, 64) for devices in (2, 4, 8)),
        sequence(2, 2, 16, 8),
        sequence(8, 4, 16, 8),
        *(layers(5, looped) for looped in (False, True)),
        strided(4, 2),
        strided(2, 8),
        convolution(4),
        decoder(2, 4),
        decoder(4, 2),
        *others(),
    ]


def compiled(recipe: Recipe) -> dict[str, Any]:
    """Costs of a recipe; its module is in the folder of dumps."""
    call = recipe.call
    if recipe.mesh and recipe.out is not None:
        mesh = mesh_of(recipe.mesh)
        ins, out = (
            jax.tree.map(
                lambda cut: NamedSharding(mesh, cut), each, is_leaf=lambda one: isinstance(one, P)
            )
            for each in (tuple(recipe.cuts), recipe.out)
        )
        jitted = jax.jit(named(call, recipe.name), in_shardings=ins, out_shardings=out)
    else:
        jitted = jax.jit(named(call, recipe.name))
    arguments = [
        jax.ShapeDtypeStruct(shape, recipe.dtype) if isinstance(shape, tuple) else shape
        for shape in recipe.shapes
    ]
    costs = jitted.lower(*arguments).compile().cost_analysis()
    keys = ("flops", "transcendentals", "bytes accessed")
    return {
        "devices": int(np.prod(recipe.mesh)) if recipe.mesh else 1,
        **{key.split()[0]: float(costs.get(key, 0)) for key in keys},
        "collectives": [list(each) for each in recipe.expected],
        **({"loop of": recipe.loop_of} if recipe.loop_of else {}),
    }


def named(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function under a name, which its module gets."""

    def wrapped(*arguments: Tree) -> Tree:
        return call(*arguments)

    wrapped.__name__ = name
    return wrapped


def save(recipe: Recipe, folder: Path) -> None:
    """Writes the module of a recipe into a folder."""
    [dump] = Path(DUMPS).glob(f"*jit_{recipe.name}.cpu_after_optimizations.txt")
    dumps = {"txt": dump}
    if recipe.proto:
        stem = dump.name.removesuffix(".txt")
        split = f"*jit_{recipe.name}.*after_spmd-partitioning*.txt"
        dumps["hlo.pb"] = dump.with_name(f"{stem}.hlo.pb")
        dumps["buffers.txt"] = dump.with_name(f"{stem}-buffer-assignment.txt")
        [dumps["split.txt"]] = Path(DUMPS).glob(split)
    for kind, path in dumps.items():
        write(path, folder / f"{recipe.name}.{kind}.gz")


def write(dump: Path, path: Path) -> None:
    """Writes a dump without the names of folders."""
    here = str(Path(__file__).resolve().parent).encode()
    content = dump.read_bytes().replace(here, b"_" * len(here))
    path.write_bytes(gzip.compress(content, mtime=0))


def compile_step(name: str, at: Setting, folder: Path | None) -> None:
    """Compiles a whole training step; writes its module into a folder."""
    sizes = at["pp"], at["dp"], at["tp"]
    mesh = Mesh(np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes), ("p", "d", "t"))
    step, arguments, cuts = step_of(at)
    out = cuts[0], cuts[1], P(("p", "d", "t"))
    call = jax.shard_map(step, mesh=mesh, in_specs=tuple(cuts), out_specs=out, check_vma=False)
    jax.jit(named(call, name)).lower(*arguments).compile()
    [dump] = Path(DUMPS).glob(f"*jit_{name}.*after_spmd-partitioning*.txt")
    if folder is not None:
        write(dump, folder / f"{name}.step.txt.gz")


def answers() -> Answers:
    """All of them."""
    found: dict[str, Any] = {}
    steps = drawn(STEPS)
    for name, at in steps.items():
        compile_step(name, at, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    for recipe in recipes():
        found[recipe.name] = compiled(recipe)
        if len(sys.argv) > 2:
            save(recipe, Path(sys.argv[2]))
    return {"modules": found, "steps": steps}


if __name__ == "__main__":
    main(jax.__version__, answers)
