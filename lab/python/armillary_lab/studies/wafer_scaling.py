"""GPT-3 and Transformer-1T on wafers and conventional systems of growing size (ASTRA-sim 2.0,
Fig. 9b)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_MS
from armillary.workload import Workload, build

from ..study import Study, StudyRow, analytical, claimed, drawn, unreferenced
from .themis import BATCH, Time

if TYPE_CHECKING:
    from armillary.report.chart import Chart

BASE = (2, 8, 8, 4)
OUT = {f"Conv-{512 * n // 4}": (2, 8, 8, n) for n in (8, 16, 32)}
"""The last dimension, of NICs, grows."""
WAFER = {f"W-{256 * n}": (n, 8, 8, 4) for n in (4, 8, 16)}
"""The first dimension, on the wafer, grows."""
SYSTEMS = {"Base-512": BASE, **OUT, **WAFER}
MODELS = {"GPT-3": ("gpt3-175b", 16), "Transformer-1T": ("transformer-1t", 128)}
"""Model and tensor parallelism."""

MARGIN = 0.01
WHERE = "section V-A2 and Fig. 9b, an equivalent trend"

SAME = "scale-out shows identical time: more NICs add little to what each of them carries"
FASTER = (
    "a larger wafer is faster than the same number of NPUs by scale-out, while the wafer is fast"
)
BOUNCE = "once the wafer is the bottleneck, time starts to increase again"
DRAWN = "the figure prints no numbers"
LINKS = (
    "tensor parallelism of 16 takes 4 of the 8 NPUs of a FullyConnected on W-1024 and 2 on W-2048, "
    "so it uses 3 and 1 of the 7 links of each; on Base-512 it takes all 8"
)
SWITCHED = (
    "with a Switch as dimension 2 a group of any size has an NPU's whole bandwidth: the trend of "
    "Table IV is back, so links without use are why it fails with FullyConnected"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """The claims of the text, then the bars of the figure."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    for model in MODELS:
        yield from _claims(model, backend)
    for model in MODELS:
        for name in SYSTEMS:
            time, setup = step(model, name, backend), f"{model}, {name}"
            bar = drawn("Fig. 9b")
            yield StudyRow(setup, backend, bar, time.total, "ms", DRAWN)
            yield StudyRow(
                f"{setup}, exposed communication", backend, bar, time.exposed, "ms", DRAWN
            )


def _claims(model: str, backend: str) -> Iterator[StudyRow]:
    def ratio(name: str, other: str) -> float:
        return step(model, name, backend).total / step(model, other, backend).total

    same = claimed(1.0, WHERE, "=", MARGIN)
    faster, slower = claimed(1.0, WHERE, "<", MARGIN), claimed(1.0, WHERE, ">", MARGIN)
    for name in OUT:
        over = ratio(name, "Base-512")
        yield StudyRow(f"{model}: {name} over Base-512", backend, same, over, "x", SAME)
    for name, other in zip(WAFER, OUT, strict=True):
        over = ratio(name, other)
        why = LINKS if over >= 1 else FASTER
        yield StudyRow(f"{model}: {name} over {other}", backend, faster, over, "x", why)
    back = ratio("W-4096", "W-2048")
    why = LINKS if back < 1 else BOUNCE
    yield StudyRow(f"{model}: W-4096 over W-2048", backend, slower, back, "x", why)
    for name, other in zip(WAFER, OUT, strict=True):
        times = [step(model, each, backend, "Switch").total for each in (name, other)]
        setup = f"{model}: {name} over {other}, Switch as dimension 2"
        yield StudyRow(setup, backend, unreferenced(), times[0] / times[1], "x", SWITCHED)


@cache
def step(model: str, name: str, backend: str, second: str = "FullyConnected") -> Time:
    """One bar of the figure; `second` is the block of dimension 2."""
    ring, full, outer, switch = SYSTEMS[name]
    topology = f"Ring({ring})_{second}({full})_Ring({outer})_Switch({switch})"
    settings: dict[str, object] = {"topology": topology, "links[0].bandwidth": "1000 GB/s"}
    system = Platform.load("paper-conv-4d", settings=settings)
    result = simulate(workload(model, system.npus), system, backend=backend)
    classes = result.report["classes"]
    exposed = sum(each["exposed_comm_ns"] * each["count"] for each in classes) / system.npus
    return Time(result.step_time_ns / NS_PER_MS, exposed / NS_PER_MS)


@cache
def workload(model: str, npus: int) -> Workload:
    """A step on that many NPUs: data parallelism takes what tensor parallelism leaves."""
    name, tp = MODELS[model]
    serial = {"overlap_grad_reduce": False, "overlap_param_gather": False}
    return build(name, tp=tp, dp=npus // tp, zero=2, micro_batch=BATCH, framework_set=serial)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 9b: compute and exposed communication on each system, over Base-512's step."""
    from armillary.report.chart import COLOURS, Chart

    bars = {row.setup: row.ours for row in rows if row.unit == "ms"}
    records = []
    for model in MODELS:
        unit = bars[f"{model}, Base-512"]
        for name in SYSTEMS:
            whole, waits = (bars[f"{model}, {name}{x}"] for x in ("", ", exposed communication"))
            place = {"model": model, "system": name}
            records.append({**place, "part": "compute", "time": (whole - waits) / unit})
            records.append({**place, "part": "communication", "time": waits / unit})
    parts = ["compute", "communication"]
    spec = {
        "mark": {"type": "bar", "tooltip": True},
        "width": 240,
        "encoding": {
            "column": {"field": "model", "type": "nominal", "title": None, "sort": list(MODELS)},
            "y": {"field": "system", "type": "nominal", "title": None, "sort": list(SYSTEMS)},
            "x": {"field": "time", "type": "quantitative", "title": "time over Base-512"},
            "color": {
                "field": "part",
                "type": "nominal",
                "title": None,
                "scale": {"domain": parts, "range": [COLOURS[part] for part in parts]},
            },
        },
    }
    return [Chart("wafer-scaling", "Scale-out and wafer, growing", records, spec)]


STUDY = Study(
    "Ring_FullyConnected_Ring_Switch at 1000, 200, 100 and 50 GB/s as in Table IV: Base-512 is "
    "2_8_8_4, Conv-k grows the last dimension, W-k the first. GPT-3 at MP 16, Transformer-1T at "
    f"MP 128, DP the rest. The paper gives no batch: {BATCH} samples a replica, ZeRO-2, gradients "
    "reduced after the backward pass. The figure prints no numbers; its text says that the trend "
    "is that of Table IV.",
    rows,
    charts,
)
