"""Wafers against conventional systems, with and without Themis (ASTRA-sim 2.0, Tables II and
III, Fig. 9a)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_MS
from armillary.workload import Workload, build

from ..study import Reference, Study, StudyRow, analytical, claimed, drawn, unreferenced
from .astra2_table4 import all_reduce

if TYPE_CHECKING:
    from armillary.report.chart import Chart

WAFERS = ("W-1D-350", "W-1D-500", "W-1D-600")
STACKS = ("W-2D", "Conv-3D", "Conv-4D")
PLATFORMS = WAFERS + STACKS
"""Table II, 512 NPUs each; the number of a wafer is its GB/s an NPU."""

EQUAL = {"W-2D": "W-1D-500", "Conv-3D": "W-1D-350", "Conv-4D": "W-1D-600"}
"""Wafers of one dimension with the same bandwidth an NPU."""

LEVEL = ("All-Reduce", "DLRM")
"""Workloads that span all dimensions: where conventional systems equal wafers under Themis."""

HYBRID = ("GPT-3", "Transformer-1T")
WORKLOADS = LEVEL + HYBRID

BATCH = 16
"""Samples a replica; the paper prints none."""

BATCHES = (4, BATCH, 64)

MARGIN = 0.01
"""The least difference that counts for a claim of faster or slower: a figure shows no less."""
LEVEL_MARGIN = 0.06
"""The largest that counts as equal between platforms."""
WHERE = "section V-A1 and Fig. 9a"

BEST = (
    "W-1D yields the overall best performance (V-A1); without Themis, against the fastest of "
    "the others"
)
DRIVES = "Conv-4D drives more bandwidth an NPU, showing better performance (V-A1)"
SAME = "W-1D shows no gain from smart scheduling (V-A1)"
LIFTS = (
    "multi-dimensional systems benefit from Themis (V-A1); groups that lie in one dimension "
    "leave it nothing to move"
)
IDENTICAL = (
    "identical at equal bandwidth an NPU under Themis (V-A1); ours fills and drains a pipeline of "
    "64 chunks, and moves no all-to-all"
)
KEEPS = (
    "the wafer maintains better training time (V-A1): model- and data-parallel groups use "
    "some dimensions each"
)
PRINTED = "the figure prints no numbers"
COUNT = (
    "the claims above for that many samples a replica, which the paper leaves open; faster and "
    "slower count from 1 %, equal is within 6 %"
)


@dataclass(frozen=True, slots=True)
class Time:
    """A step, in ms."""

    total: float
    exposed: float


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """The paper's claims, what becomes of them with other batches, and the bars of the figure."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    claims = list(_claims(backend, BATCH))
    yield from claims
    for batch in BATCHES:
        found = [row.verdict for row in _claims(backend, batch)]
        for verdict in ("holds", "below the margin", "fails"):
            setup = f"claims, {batch} samples: {verdict}"
            whole = unreferenced(f"the study counts its {len(claims)} claims itself")
            yield StudyRow(setup, backend, whole, found.count(verdict), "claims", COUNT)
    for workload, platform, themis in product(WORKLOADS, PLATFORMS, (False, True)):
        time = step(workload, platform, themis, backend)
        setup = f"{workload}, {platform}{', Themis' if themis else ''}"
        bar = drawn("Fig. 9a")
        yield StudyRow(setup, backend, bar, time.total, "ms", PRINTED)
        yield StudyRow(f"{setup}, exposed communication", backend, bar, time.exposed, "ms", PRINTED)


def _claims(backend: str, batch: int) -> Iterator[StudyRow]:
    def ratio(workload: str, one: str, other: str, themis: bool) -> float:
        times = [
            step(workload, platform, themis, backend, batch).total for platform in (one, other)
        ]
        return times[0] / times[1]

    faster, slower = claimed(1.0, WHERE, "<", MARGIN), claimed(1.0, WHERE, ">", MARGIN)
    same, level = claimed(1.0, WHERE, "=", 0.0), claimed(1.0, WHERE, "=", LEVEL_MARGIN)

    def row(setup: str, reference: Reference, ours: float, why: str) -> StudyRow:
        return StudyRow(setup, backend, reference, ours, "x", why)

    for name in WORKLOADS:
        best = min(STACKS, key=lambda platform: step(name, platform, False, backend, batch).total)
        over = ratio(name, "W-1D-600", best, False)
        yield row(f"{name}: W-1D-600 over {best}", faster, over, BEST)
        gain = ratio(name, "Conv-4D", "W-1D-350", False)
        yield row(f"{name}: Conv-4D over W-1D-350", faster, gain, DRIVES)
        for platform in PLATFORMS:
            times = [step(name, platform, themis, backend, batch).total for themis in (True, False)]
            flat = platform in WAFERS
            setup = f"{name}: Themis over baseline, {platform}"
            gain = times[0] / times[1]
            yield row(setup, same if flat else faster, gain, SAME if flat else LIFTS)
        for platform, wafer in EQUAL.items():
            over = ratio(name, platform, wafer, True)
            setup = f"{name}: {platform} over {wafer}, Themis"
            alike = name in LEVEL
            yield row(setup, level if alike else slower, over, IDENTICAL if alike else KEEPS)


def step(workload: str, platform: str, themis: bool, backend: str, batch: int = BATCH) -> Time:
    """One bar of the figure. Only the hybrid workloads depend on the batch, in samples a replica:
    the others are simulated once for all batches."""
    return _step(workload, platform, themis, backend, batch if workload in HYBRID else BATCH)


@cache
def _step(workload: str, platform: str, themis: bool, backend: str, batch: int) -> Time:
    order = "themis" if themis else "baseline"
    settings: dict[str, object] = {
        "scheduler.dimension_order": order,
        "scheduler.policy": "smallest_first",
    }
    system = Platform.load(f"paper-{platform.lower()}", settings=settings)
    result = simulate(program(workload, batch), system, backend=backend)
    classes = result.report["classes"]
    exposed = sum(each["exposed_comm_ns"] * each["count"] for each in classes) / system.npus
    return Time(result.step_time_ns / NS_PER_MS, exposed / NS_PER_MS)


@cache
def program(workload: str, batch: int) -> Workload:
    """A workload of Table III on 512 NPUs; `batch` samples a replica where there are any."""
    serial = {"overlap_grad_reduce": False, "overlap_param_gather": False}
    decoder = {"zero": 2, "micro_batch": batch, "framework_set": serial}
    match workload:
        case "All-Reduce":
            return all_reduce(512, 10**9)
        case "DLRM":
            return build("dlrm-hoti", dp=512)
        case "GPT-3":
            return build("gpt3-175b", tp=16, dp=32, **decoder)
        case _:
            return build("transformer-1t", tp=128, dp=4, **decoder)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 9a: time of each workload on each platform, compute and exposed communication, over the
    slowest wafer's."""
    from armillary.report.chart import COLOURS, Chart

    bars = {row.setup: row.ours for row in rows if row.unit == "ms"}
    records = []
    for workload, platform, themis in product(WORKLOADS, PLATFORMS, (False, True)):
        setup = f"{workload}, {platform}{', Themis' if themis else ''}"
        whole, exposed = bars[setup], bars[f"{setup}, exposed communication"]
        unit = bars[f"{workload}, {WAFERS[0]}"]
        place = {
            "workload": workload,
            "platform": platform,
            "scheduler": "Themis" if themis else "baseline",
        }
        records.append({**place, "part": "compute", "time": (whole - exposed) / unit})
        records.append({**place, "part": "communication", "time": exposed / unit})
    parts = ["compute", "communication"]
    spec = {
        "mark": {"type": "bar", "tooltip": True},
        "width": 150,
        "encoding": {
            "column": {
                "field": "workload",
                "type": "nominal",
                "title": None,
                "sort": list(WORKLOADS),
            },
            "row": {
                "field": "scheduler",
                "type": "nominal",
                "title": None,
                "sort": ["baseline", "Themis"],
            },
            "y": {"field": "platform", "type": "nominal", "title": None, "sort": list(PLATFORMS)},
            "x": {"field": "time", "type": "quantitative", "title": "time over W-1D-350"},
            "color": {
                "field": "part",
                "type": "nominal",
                "title": None,
                "scale": {"domain": parts, "range": [COLOURS[part] for part in parts]},
            },
        },
    }
    return [
        Chart(
            "themis",
            "Wafers and conventional systems, with and without Themis",
            records,
            spec,
        )
    ]


STUDY = Study(
    "512 NPUs of 234 TFLOPS, no latencies, 64 chunks, smallest chunk first within a dimension; "
    "Themis is scheduler.dimension_order. 1 GB all-reduce; the DLRM of 57 M parameters in its "
    "MLPs on 512 NPUs; GPT-3 at MP 16 and Transformer-1T at MP 128, whose DP 64 and 8 make 1,024 "
    f"NPUs: halved here. The paper gives no batch: {BATCH} samples a replica, ZeRO-2, gradients "
    "reduced after the backward pass. The figure prints no numbers; what the text claims of it is "
    "checked.",
    rows,
    charts,
)
