"""The worked example of a hierarchical remote memory (ASTRA-sim 2.0, section IV-D).

Every load is measured on a run: with one kind of link at 1 byte a ns and all others a billion times
as fast, a load of W takes as long as the bytes on that link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_MS
from armillary.workload import Program, Workload

from ..study import Study, StudyRow, analytical, evaluated, printed

GPUS, NODES, SWITCHES, GROUPS = 256, 16, 4, 8
TENSOR = 256_000_000
"""W, bytes; any that the counts divide."""
CHUNK = 1_000_000
FAST = "1000000 TB/s"
BANDWIDTHS = {"memory_side": 100, "npu_side": 50, "in_node": 256}
"""GB/s of a link, for the time of the whole; the paper gives none."""


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """A link of the example and what the paper says it carries, in W."""

    name: str
    slow: dict[str, str]
    printed: int
    in_switch: bool = False


LOADS = (
    PoolLoad("a remote memory group", {"memory_side": "{bandwidth: 1 GB/s, per: group}"}, 32),
    PoolLoad(
        "a remote memory group to an out-node switch", {"memory_side": "{bandwidth: 1 GB/s}"}, 8
    ),
    PoolLoad("an out-node switch to a node", {"npu_side": "{bandwidth: 1 GB/s}"}, 4),
    PoolLoad(
        "in-switch: an out-node switch to a node", {"npu_side": "{bandwidth: 1 GB/s}"}, 64, True
    ),
    PoolLoad("in-switch: an in-node switch", {"in_node": "{bandwidth: 1 GB/s}"}, 256, True),
)


def step(links: dict[str, str], in_switch: bool, backend: str) -> float:
    """ns that 256 GPUs take to load W each over the given links."""
    keys = ", ".join(f"{key}: {value}" for key, value in links.items())
    pool = (
        f"model: hierarchical, nodes: {NODES}, out_switches: {SWITCHES}, groups: {GROUPS}, "
        f"chunk: {CHUNK} B"
    )
    platform = Platform(
        f"SW({GPUS // NODES})_SW({NODES})",
        bandwidth="50 GB/s",
        latency="0 ns",
        settings={"remote_memory": f"{{{pool}, {keys}}}"},
    )
    program = Program()
    program.memory("load", [], TENSOR, reach="in_switch" if in_switch else "remote")
    workload = Workload.listed("load", [program], [0] * GPUS, {})
    return simulate(workload, platform, backend=backend).step_time_ns


def measured(load: PoolLoad, backend: str) -> float:
    """Bandwidth of a link, in W."""
    links = dict.fromkeys(BANDWIDTHS, f"{{bandwidth: {FAST}}}") | load.slow
    return step(links, load.in_switch, backend) / TENSOR


def equations(in_switch: bool) -> float:
    """The paper's time in ns: stages and transfers as it writes them, and the sum of the critical
    path."""
    memory, npu, node = (BANDWIDTHS[key] for key in ("memory_side", "npu_side", "in_node"))
    stages = TENSOR * GPUS // GROUPS // SWITCHES // CHUNK
    first = CHUNK / memory
    second = GROUPS * CHUNK / ((1 if in_switch else NODES) * npu)
    third = GROUPS * SWITCHES * CHUNK / ((1 if in_switch else GPUS) * node)
    return (
        first
        + max(first, second)
        + (stages - 2) * max(first, second, third)
        + max(second, third)
        + third
    )


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Each load, and the time of the whole, by the equations and by a run."""
    backends = analytical(backends)
    loads = [
        StudyRow(
            load.name,
            backend,
            printed(load.printed, "section IV-D"),
            measured(load, backend),
            "W",
            "counted by the time of a run",
        )
        for load in LOADS
        for backend in backends
    ]
    links = {key: f"{{bandwidth: {value} GB/s}}" for key, value in BANDWIDTHS.items()}
    times = [
        StudyRow(
            f"{'in-switch' if in_switch else 'own tensors'}: the whole",
            backend,
            evaluated(
                equations(in_switch) / NS_PER_MS,
                "the equations of section IV-D, with bandwidths that we chose",
            ),
            step(links, in_switch, backend) / NS_PER_MS,
            "ms",
            "the paper's equations and a run; steps are rounded up to the picosecond",
        )
        for in_switch in (False, True)
        for backend in backends
    ]
    return loads + times


STUDY = Study(
    "16 nodes of 16 GPUs, 4 out-node switches, 8 remote memory groups; each GPU loads a tensor of "
    "W. The paper gives neither W nor bandwidths: 256 MB, chunks of 1 MB, and 100, 50 and 256 GB/s "
    "for the time of the whole.",
    rows,
)
