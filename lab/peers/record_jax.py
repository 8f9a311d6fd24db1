"""Answers of JAX on processors: which collectives XLA puts into sharded layers of a transformer,
what its profiler and compiler write, and what it reads of profiles.

Samples are cut over one axis of the mesh, weights over the other one (`cut_layers.py`). XLA chooses
the collectives itself."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from answers import Answers, main
from cut_layers import F32, SHAPE_OF_MODEL, cut_layers, loss
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MESHES = ((2, 4), (4, 2))
"""Ranks of data parallelism and of tensor parallelism."""
SAMPLES = 8
PROFILES = Path(__file__).parents[2] / "tests/python/data/xplane"
COLLECTIVE = re.compile(
    r" = (?P<shapes>\(?[a-z0-9]+\[.*?) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|"
    r"collective-permute)(?:-start)?\(.*?replica_groups=(?P<groups>\S+?),? "
)
SHAPE = re.compile(r"[a-z0-9]+\[(\d*(?:,\d+)*)\]")


def collectives(data: int, tensor: int) -> list[dict[str, Any]]:
    """Kind, elements and ranks of a group, of each collective of a step's gradients."""
    mesh = Mesh(np.array(jax.devices()).reshape(data, tensor), ("data", "tensor"))
    weights, places = cut_layers(SHAPE_OF_MODEL, "tensor")
    x = jax.ShapeDtypeStruct((SAMPLES, SHAPE_OF_MODEL["sequence"], SHAPE_OF_MODEL["hidden"]), F32)
    cuts = (places, PartitionSpec("data", None, None))
    whole = jax.tree.map(lambda cut: NamedSharding(mesh, cut), cuts)
    # With the gradient of the input, as layers before these would need it.
    step = jax.jit(jax.grad(loss, (0, 1)), in_shardings=whole, out_shardings=whole)
    found = []
    for line in step.lower(weights, x).compile().as_text().splitlines():
        if match := COLLECTIVE.search(line):
            elements = [
                math.prod(int(size) for size in sizes.split(",") if size)
                for sizes in SHAPE.findall(match["shapes"])
            ]
            ranks = ranks_of(match["groups"])
            found += [
                {"kind": match["kind"], "elements": each, "ranks": ranks} for each in elements
            ]
    return sorted(found, key=lambda each: (each["ranks"], each["elements"], each["kind"]))


def ranks_of(groups: str) -> int:
    """Ranks in the first of the groups, as XLA writes them: `[2,4]<=[8]` or `{{0,1},{2,3}}`."""
    if groups.startswith("["):
        return int(groups[1 : groups.index("]")].split(",")[1])
    return len(groups.lstrip("{").split("}")[0].split(","))


def written() -> dict[str, Any]:
    """Names of the planes and processes in a profile, and how the text of a program begins."""
    step = jax.jit(lambda x: jnp.sum(x @ x))
    x = jnp.ones((64, 64))
    text = step.lower(x).compile().as_text()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            step(x).block_until_ready()
        [profile] = Path(folder).rglob("*.xplane.pb")
        [trace] = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
        planes = [each.name for each in jax.profiler.ProfileData.from_file(str(profile)).planes]
    processes = [each["args"]["name"] for each in events if each.get("name") == "process_name"]
    return {
        "planes": planes,
        "processes": processes,
        "program": text.split(",")[0],
    }


def profiles() -> dict[str, Any]:
    """Events that `ProfileData` reads of the profiles that tests read: for each plane and line the
    number of events, their time, the first and the last one, and a sum of all names and times.
    Times are whole picoseconds."""
    found = {}
    for path in sorted(PROFILES.glob("*.xplane.pb.gz")):
        space = jax.profiler.ProfileData.from_serialized_xspace(gzip.decompress(path.read_bytes()))
        found[path.name] = [
            {"name": plane.name, "lines": [line_of(line) for line in plane.lines]}
            for plane in space.planes
        ]
    return found


def line_of(line: Any) -> dict[str, Any]:  # noqa: ANN401 - a type of jaxlib
    """What a line has. Starts and durations are binary fractions of nanoseconds."""
    events = [
        [each.name, round(each.start_ns * 1000), round(each.duration_ns * 1000)]
        for each in line.events
    ]
    told = "\n".join(" ".join(map(str, each)) for each in events)
    return {
        "name": line.name,
        "events": len(events),
        "time_ps": sum(length for _, _, length in events),
        "first": events[0] if events else [],
        "last": events[-1] if events else [],
        "sha256": hashlib.sha256(told.encode()).hexdigest(),
    }


def answers() -> Answers:
    """All of them."""
    meshes = [
        {"data": data, "tensor": tensor, "collectives": collectives(data, tensor)}
        for data, tensor in MESHES
    ]
    model = {"shape": SHAPE_OF_MODEL, "samples": SAMPLES, "meshes": meshes}
    return {"sharded": model, "written": written(), "profiles": profiles()}


if __name__ == "__main__":
    main(jax.__version__, answers)
