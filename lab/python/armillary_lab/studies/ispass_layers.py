"""Communication by layer of a Transformer and of ResNet-50 (ISPASS 2020, Figs. 13 to 16)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_US
from armillary.workload import layerwise

from ..study import Study, StudyRow, claimed, drawn, unreferenced
from .ispass import PASSES, Torus

if TYPE_CHECKING:
    from armillary.report.chart import Chart
    from armillary.schema import Detail, LayerPhase

TRANSFORMER, RESNET = Torus(2, 2, 2), Torus(2, 4, 4)
BLOCKS = 6
"""Layers of the Transformer that are built alike."""
POLICIES = ("lifo", "fifo")
UNIFORM, ALIKE = 0.05, 0.05
"""Relative differences that count as equal: the paper prints none."""

STRICT = (
    "each layer waits for the activations of the one before it, so the layers do the same at "
    "different times"
)
DRAWN = "the figure draws bars for each layer and prints no number"
ORDER = (
    "the policy orders the ready queue. The local rings are so fast that chunks never wait there, "
    "and from then on they come in turn"
)
QUEUE = "the local rings are 8 times as fast, so chunks wait for the first ring between packages"
EVERY = "without a ready queue, the policy orders the queue of each phase, and LIFO differs"


@dataclass(frozen=True, slots=True)
class Run:
    """Results of a run that the studies read."""

    time: float
    """Two iterations, us."""
    layers: dict[str, tuple[float, float]]
    """Communication and its exposed part of the first rank by layer, us."""
    compute: dict[str, float]
    """Computation of the first rank by layer, us."""
    passes: dict[tuple[str, str], float]
    """Communication of the model by layer and pass, us, where there is some."""
    delays: dict[str, dict[str, float]]
    """Mean delay of a chunk by layer and part (`queue P1`, `network P1`), us."""
    waits: dict[str, float]
    """Mean wait of a chunk in the queue of each phase, us."""


@cache
def run(model: str, backend: str, policy: str = "lifo", *, in_all: bool = False) -> Run:
    """Two iterations of `transformer` on 2x2x2 or of `resnet` on 2x4x4. `in_all`: the policy orders
    every queue, because there is no ready queue."""
    if model == "transformer":
        torus = TRANSFORMER
        # Data-parallel across the local and the horizontal dimension, model-parallel across the
        # vertical one (section V-E).
        workload = layerwise("ispass-transformer", dp=4, mp=2, inner_dp=2, passes=PASSES)
    else:
        torus = RESNET
        workload = layerwise("ispass-resnet-50", dp=torus.npus, passes=PASSES)
    settings: dict[str, object] = {"topology": torus.topology, "scheduler.policy": policy}
    if in_all:
        settings["scheduler.dispatch_below"] = "unlimited"
    platform = Platform.load("paper-ispass-resnet", settings=settings)
    result = simulate(workload, platform, backend=backend, detail=True)
    detail = result.report["detail"]
    assert detail is not None, "the run was logged"
    first = [layer for layer in detail["layers"] if layer["rank_class"] == 0]
    layers = {
        layer["layer"]: (layer["comm_ns"] / NS_PER_US, layer["exposed_comm_ns"] / NS_PER_US)
        for layer in first
    }
    waits: dict[str, float] = {}
    for phase in result.report["phases"]:
        queue = phase["name"].partition(" ")[0]
        waits[queue] = waits.get(queue, 0.0) + phase["queue_ns"] / NS_PER_US
    return Run(
        result.step_time_ns / NS_PER_US,
        layers,
        {layer["layer"]: layer["compute_ns"] / NS_PER_US for layer in first},
        {
            (layer["layer"], each["pass_name"]): each["comm_ns"] / NS_PER_US
            for layer in first
            for each in layer["passes"]
            if each["comm_ns"]
        },
        _delays(detail),
        waits,
    )


def _delays(detail: Detail) -> dict[str, dict[str, float]]:
    from armillary.report.run_passes import delay

    found: dict[str, list[LayerPhase]] = {}
    for row in detail["layer_phases"]:
        found.setdefault(row["layer"], []).append(row)
    return {
        layer: {part: ns / NS_PER_US for part, ns in delay(rows).items()}
        for layer, rows in found.items()
    }


def blocks(found: Run) -> list[float]:
    """Communication of each of the Transformer's layers, us."""
    sums = [0.0] * BLOCKS
    for name, (communication, _) in found.layers.items():
        if number := re.search(r"\d", name):
            sums[int(number.group()) - 1] += communication
    return sums


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Claims on each backend, the bars of Figs. 13 to 16, then LIFO without a ready queue."""
    found = [row for backend in backends for row in _claims(backend)]
    backend = backends[0]
    found += _bars(backend)
    fifo, lifo = (run("resnet", backend, policy, in_all=True).time for policy in ("fifo", "lifo"))
    setup = "ResNet-50, LIFO in every queue: time, FIFO over LIFO"
    found.append(StudyRow(setup, backend, unreferenced(), fifo / lifo, "x", EVERY))
    return found


def _claims(backend: str) -> list[StudyRow]:
    layers = blocks(run("transformer", backend))
    uniform = claimed(1.0, "section V-E and Fig. 13", "=", UNIFORM)
    alike = claimed(1.0, "section V-F and Fig. 16", "=", ALIKE)
    lifo, fifo = (run("resnet", backend, policy) for policy in POLICIES)
    others = max(wait for queue, wait in lifo.waits.items() if queue != "P2")
    first = claimed(1.0, "section V-F", ">", 0.1)
    name = "Transformer: communication, most of layers 1 to 6 over the least"
    return [
        StudyRow(name, backend, uniform, max(layers) / min(layers), "x", STRICT),
        StudyRow(
            "ResNet-50: time, FIFO over LIFO", backend, alike, fifo.time / lifo.time, "x", ORDER
        ),
        StudyRow(
            "ResNet-50: wait in queue P2 over the longest other",
            backend,
            first,
            lifo.waits["P2"] / others,
            "x",
            QUEUE,
        ),
    ]


def _bars(backend: str) -> list[StudyRow]:
    from armillary.report.layer_chart import PASSES

    found = [
        StudyRow(
            f"Transformer, layer {i}: communication", backend, drawn("Fig. 13"), time, "us", DRAWN
        )
        for i, time in enumerate(blocks(run("transformer", backend)), 1)
    ]
    found += [
        StudyRow(
            f"Transformer, {layer}: {PASSES[name][0]}",
            backend,
            drawn("Fig. 13"),
            time,
            "us",
            DRAWN,
        )
        for (layer, name), time in run("transformer", backend).passes.items()
    ]
    resnet = run("resnet", backend)
    for name, (communication, exposed) in resnet.layers.items():
        for what, time, figure in (
            ("communication", communication, "Fig. 14"),
            ("compute", resnet.compute[name], "Fig. 15"),
            ("exposed", exposed, "Fig. 15"),
        ):
            setup = f"ResNet-50, {name}: {what}"
            found.append(StudyRow(setup, backend, drawn(figure), time, "us", DRAWN))
    return found + [row for policy in POLICIES for row in _longest(backend, policy)]


def _longest(backend: str, policy: str) -> Iterator[StudyRow]:
    """The layer with the longest delay of each kind; the chart has all."""
    delays = run("resnet", backend, policy).delays
    for part in sorted({part for each in delays.values() for part in each}):
        layer = max(delays, key=lambda layer: delays[layer].get(part, 0.0))
        setup = f"ResNet-50, {policy.upper()}: {part}, longest ({layer})"
        yield StudyRow(setup, backend, drawn("Fig. 16"), delays[layer].get(part, 0.0), "us", DRAWN)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Figs. 13 to 16: bars by layer."""
    from armillary.report.layer_chart import END_TO_END, PASSES, delays, stacked

    backend = rows[0].backend
    by_pass = [
        {"layer": layer, "part": PASSES[name][0], "time": time}
        for (layer, name), time in run("transformer", backend).passes.items()
    ]
    resnet = run("resnet", backend)
    raw = [
        {"layer": layer, "part": PASSES[name][0], "time": time}
        for (layer, name), time in resnet.passes.items()
    ]
    ends = [
        {"layer": layer, "part": part, "time": time}
        for layer, (_, exposed) in resnet.layers.items()
        for part, time in zip(END_TO_END, (resnet.compute[layer], exposed), strict=True)
    ]
    passes = dict(PASSES.values())
    title = "communication by layer"
    found = [
        stacked("ispass-transformer", f"Transformer: {title} (Fig. 13)", by_pass, passes, "us"),
        stacked("ispass-resnet", f"ResNet-50: {title} (Fig. 14)", raw, passes, "us"),
        stacked(
            "ispass-resnet-end-to-end",
            "ResNet-50: computation and exposed communication by layer (Fig. 15)",
            ends,
            END_TO_END,
            "us",
        ),
    ]
    for policy in POLICIES:
        waits = [
            {"layer": layer, "part": part, "time": time}
            for layer, each in run("resnet", backend, policy).delays.items()
            for part, time in each.items()
        ]
        colours = delays([str(row["part"]) for row in waits])
        called = f"ResNet-50, {policy.upper()}: delays of a chunk by layer (Fig. 16)"
        found.append(stacked(f"ispass-resnet-{policy}", called, waits, colours, "us"))
    return found


STUDY = Study(
    "Two iterations with the layers and cycles that the authors published, a cycle is 1 ns. The "
    "Transformer runs on 2x2x2, data-parallel across the local and the horizontal dimension and "
    "model-parallel across the vertical one; ResNet-50 runs on 2x4x4, data-parallel. LIFO. "
    "Settings of Tables III and IV.",
    rows,
    charts,
)
