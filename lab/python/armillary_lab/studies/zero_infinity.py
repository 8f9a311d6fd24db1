"""ZeRO-Infinity against a hierarchical memory pool, a mixture of experts of 1 T parameters on
256 GPUs.

ASTRA-sim 2.0, section V-B, Table V and Fig. 11. Not here: the model (`models/moe-1t.yml`), what is
offloaded when (`workload/stage.py`), the pool (`crates/device/src/memory`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_MS
from armillary.workload import Workload, moe

from ..study import Study, StudyRow, analytical, claimed, drawn, evaluated, printed

if TYPE_CHECKING:
    from armillary.report.chart import Chart

NODES, PER_NODE, SWITCHES, GROUPS = 16, 16, 16, 256
FABRICS = range(256, 2049, 256)
MEMORIES = range(100, 501, 100)


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """Choices that the paper leaves open."""

    tp: int = 8
    """Tensor parallelism, of experts too; with `ep` it makes the 256 GPUs."""
    seq: int = 2048
    chunk: str = "64 kB"

    @property
    def ep(self) -> int:
        """Expert parallelism."""
        return NODES * PER_NODE // self.tp


@dataclass(frozen=True, slots=True)
class System:
    """A column of Table V; `fabric` is that within a node, both in GB/s."""

    pool: bool
    fabric: int = 256
    memory: int = 100


ZERO_INFINITY, BASELINE, OPT = System(False), System(True), System(True, 512, 500)
SYSTEMS = {"ZeRO-Infinity": ZERO_INFINITY, "HierMem": BASELINE, "HierMem (opt)": OPT}


def platform(system: System, choice: PoolChoice) -> Platform:
    """The platform of a column."""
    if system.pool:
        pool = f"nodes: {NODES}, out_switches: {SWITCHES}, groups: {GROUPS}, chunk: {choice.chunk}"
        memory = f"memory_side: {{bandwidth: {system.memory} GB/s, per: group}}"
        out = f"npu_side: {{bandwidth: {system.memory * GROUPS // NODES} GB/s, per: node}}"
        inner = f"in_node: {{bandwidth: {system.fabric} GB/s}}"
        remote = f"{{model: hierarchical, {pool}, {memory}, {out}, {inner}}}"
    else:
        remote = f"{{model: zero_infinity, cpu: {{bandwidth: {system.memory} GB/s}}}}"
    return Platform(
        f"SW({PER_NODE})_SW({NODES})",
        bandwidth=[f"{system.fabric} GB/s", f"{system.memory} GB/s"],
        latency="500 ns",
        settings={
            "npu.peak": "2048 TFLOPS",
            "npu.memory.bandwidth": "4096 GB/s",
            "remote_memory": remote,
        },
    )


@cache
def workload(choice: PoolChoice) -> Workload:
    """A training step: parameters, gradients and optimizer states outside, brought in and out layer
    by layer."""
    return moe(
        "moe-1t",
        tp=choice.tp,
        ep=choice.ep,
        dp=choice.ep,
        zero=3,
        offload="parameters",
        seq=choice.seq,
    )


def parts(system: System, choice: PoolChoice, backend: str) -> dict[str, float]:
    """The five parts of a step, ns, as the charts call them."""
    only = simulate(workload(choice), platform(system, choice), backend=backend).report["classes"][
        0
    ]
    return {
        "compute": only["compute_ns"],
        "communication": only["exposed_comm_ns"],
        "remote memory": only["exposed_remote_ns"],
        "local memory": only["exposed_local_ns"],
        "idle": only["idle_ns"],
    }


def _step(system: System, choice: PoolChoice, backend: str) -> float:
    return sum(parts(system, choice, backend).values())


def waits(system: System, choice: PoolChoice, backend: str) -> float:
    """Share of the step, in percent, in which GPUs wait for data from the pool or from each
    other."""
    found = parts(system, choice, backend)
    return 100 * (found["communication"] + found["remote memory"]) / sum(found.values())


def best(choice: PoolChoice, backend: str, within: float = 1.05) -> System:
    """The least fabric and memory whose step is within a factor of the sweep's shortest: memory
    first."""
    systems = [System(True, fabric, memory) for memory in MEMORIES for fabric in FABRICS]
    steps = {system: _step(system, choice, backend) for system in systems}
    shortest = min(steps.values())
    return next(system for system in systems if steps[system] <= within * shortest)


WHY_NEAR = (
    "pool and own memories are as fast; the pool fills its links first, one chunk after the other"
)
WHY_OPT = "memory is 5 times as fast, the fabric twice; what computes stays"
WHY_WAITS = (
    "the figure's bars have no numbers; the paper counts as communication what we report as remote "
    "memory"
)
WHY_PARTS = (
    "the figure's bars have no numbers; what kernels read and write of HBM is part of compute"
)
WHY_BEST = (
    "the least of the sweep within 5 % of its best: a GPU's link must carry what a memory "
    "group gives"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """The comparison, the sweep's best, and how both ratios move with what the paper leaves
    open."""
    found = []
    for backend in analytical(backends):
        found += _ratios(PoolChoice(), "", backend)
        for name, system in SYSTEMS.items():
            found.append(
                StudyRow(
                    f"{name}: waiting for data",
                    backend,
                    claimed(50, "section I: communication time dominates", ">", 0.05),
                    waits(system, PoolChoice(), backend),
                    "%",
                    WHY_WAITS,
                )
            )
            found += _parts(system, name, backend)
        least = best(PoolChoice(), backend)
        found.append(
            StudyRow(
                "best of the sweep: fabric in a node",
                backend,
                printed(OPT.fabric, "Table V"),
                least.fabric,
                "GB/s",
                WHY_BEST,
            )
        )
        found.append(
            StudyRow(
                "best of the sweep: a memory group",
                backend,
                printed(OPT.memory, "Table V"),
                least.memory,
                "GB/s",
                WHY_BEST,
            )
        )
        for choice in (
            PoolChoice(tp=2),
            PoolChoice(tp=4),
            PoolChoice(seq=512),
            PoolChoice(chunk="1 MB"),
            PoolChoice(chunk="4 kB"),
        ):
            label = (
                f" (tp {choice.tp}, ep {choice.ep}, {choice.seq} tokens, chunks of {choice.chunk})"
            )
            found += _ratios(choice, label, backend)
    return found


def _parts(system: System, name: str, backend: str) -> list[StudyRow]:
    """Fig. 11: the five parts of a step, ms."""
    times = parts(system, PoolChoice(), backend)
    return [
        StudyRow(f"{name}: {part}", backend, drawn("Fig. 11"), ns / NS_PER_MS, "ms", WHY_PARTS)
        for part, ns in times.items()
    ]


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 11: where the step goes on each of the three."""
    from armillary.report.chart import COLOURS, Chart

    names = [part for part in COLOURS if any(row.setup.endswith(f": {part}") for row in rows)]
    times = [(*row.setup.split(": "), row.ours) for row in rows if row.unit == "ms"]
    records = [{"system": name, "part": part, "time": time} for name, part, time in times]
    spec = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "system", "type": "nominal", "title": None, "sort": list(SYSTEMS)},
            "x": {"field": "time", "type": "quantitative", "title": "step, ms"},
            "color": {
                "field": "part",
                "type": "nominal",
                "title": None,
                "scale": {"domain": names, "range": [COLOURS[part] for part in names]},
            },
        },
    }
    return [Chart("zero-infinity", "ZeRO-Infinity and a hierarchical pool", records, spec)]


def _ratios(choice: PoolChoice, label: str, backend: str) -> list[StudyRow]:
    own, pool, opt = (_step(system, choice, backend) for system in (ZERO_INFINITY, BASELINE, OPT))
    return [
        StudyRow(
            f"ZeRO-Infinity over HierMem{label}",
            backend,
            evaluated(0.999, "section V-B: ZeRO-Infinity performs 0.1 % better"),
            own / pool,
            "of the step",
            WHY_NEAR,
        ),
        StudyRow(
            f"HierMem over HierMem (opt){label}",
            backend,
            printed(4.6, "section V-B"),
            pool / opt,
            "x",
            WHY_OPT,
        ),
    ]


STUDY = Study(
    "One training step of moe-1t on 16 nodes of 16 GPUs; ZeRO 3 with parameters, gradients and "
    "optimizer states outside, the next layer loaded ahead. The paper leaves open: the parallelism "
    "(tp 8, the cited model's, and ep 32), tokens (2,048 a tensor-parallel group), chunks (64 kB), "
    "and the out-node fabric, which carries here what the memory groups give, for loads and for "
    "collectives. Each choice is moved in rows of its own.",
    rows,
    charts,
)
