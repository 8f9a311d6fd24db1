"""Chunks of an all-reduce on three allocations of bandwidth (multi-dimensional topologies,
Fig. 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_MS

from ..study import Study, StudyRow, analytical, claimed, drawn
from .astra2_table4 import all_reduce

if TYPE_CHECKING:
    from armillary.report.chart import Chart

SIZES = (8, 8, 16)
TOTAL = 300.0
"""GB/s of an NPU."""
CHUNKS = 4
BYTES = 10**9
ALLOCATIONS = {"a": "dimension 1 has too little", "b": "dimension 2 has too little", "c": "ideal"}

WHERE = "Fig. 9 and section III-C"
MARGIN = 0.05
FULL = "the dimension with too little is busy at all times, but for the ends of a pipeline"
IDLE = "the others wait for it"
LEAST = "the ideal allocation finishes in the shortest time"
DRAWN = "the figure prints no numbers"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """An all-reduce on an allocation."""

    time: float
    """ms."""
    busy: tuple[float, ...]
    """Percent of the time in which a dimension has a chunk, by dimension."""
    spans: tuple[tuple[int, float, float], ...]
    """Dimension from 1, begin and end of what is busy without a gap, ms."""


def shares(allocation: str) -> list[float]:
    """GB/s of an NPU by dimension: in proportion to the bytes (ideal), or half of that in one
    dimension and the rest in proportion in the others."""
    sent, left = [], 1.0
    for size in SIZES:
        sent.append(left * (size - 1) / size)
        left /= size
    ideal = [TOTAL * each / sum(sent) for each in sent]
    if allocation == "c":
        return ideal
    poor = 0 if allocation == "a" else 1
    rest = (TOTAL - ideal[poor] / 2) / (TOTAL - ideal[poor])
    return [each / 2 if dim == poor else each * rest for dim, each in enumerate(ideal)]


@cache
def run(allocation: str, backend: str) -> Pipeline:
    """The all-reduce on that allocation."""
    platform = Platform(
        "_".join(f"Switch({size})" for size in SIZES),
        bandwidth=[f"{each:.6f} GB/s" for each in shares(allocation)],
        latency="0 ns",
        settings={"scheduler.chunks": CHUNKS, "scheduler.endpoint_delay": "0 ns"},
    )
    report = simulate(all_reduce(platform.npus, BYTES), platform, backend=backend, detail=True)
    whole = report.step_time_ns
    detail = report.report["detail"]
    assert detail is not None, "it was asked for"
    width = detail["bin_ns"] / NS_PER_MS
    spans = tuple(
        (dim, begin * width, min(end * width, whole / NS_PER_MS))
        for dim, bins in enumerate(detail["activity"]["dimensions"], 1)
        for begin, end in _runs(bins)
    )
    busy = tuple(100 * each["busy_ns"] / whole for each in report.report["dimensions"])
    return Pipeline(whole / NS_PER_MS, busy, spans)


def _runs(bins: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Begin and end of the bins that are not empty, without gaps."""
    begin = None
    for at, share in enumerate([*bins, 0.0]):
        if share > 0 and begin is None:
            begin = at
        elif share == 0 and begin is not None:
            yield begin, at
            begin = None


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """How busy each dimension is, and which allocation is the fastest."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    for name, words in ALLOCATIONS.items():
        found = run(name, backend)
        yield StudyRow(f"({name}) {words}", backend, drawn("Fig. 9"), found.time, "ms", DRAWN)
        for dim, busy in enumerate(found.busy, 1):
            full = (name, dim) in (("a", 1), ("b", 2))
            reference = claimed(80, WHERE, ">", MARGIN) if full else drawn("Fig. 9")
            setup = f"({name}) busy, dimension {dim}"
            yield StudyRow(setup, backend, reference, busy, "%", FULL if full else IDLE)
    for name in ("a", "b"):
        over = run("c", backend).time / run(name, backend).time
        faster = claimed(1.0, WHERE, "<", MARGIN)
        yield StudyRow(f"(c) over ({name})", backend, faster, over, "x", LEAST)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 9: when each dimension has a chunk, on the three allocations."""
    from armillary.report.chart import Chart

    backend = rows[0].backend
    records = [
        {"allocation": f"({name}) {words}", "dimension": f"dim {dim}", "begin": begin, "end": end}
        for name, words in ALLOCATIONS.items()
        for dim, begin, end in run(name, backend).spans
    ]
    spec = {
        "mark": {"type": "bar", "tooltip": True},
        "height": 70,
        "encoding": {
            "row": {
                "field": "allocation",
                "type": "nominal",
                "title": None,
                "header": {"labelAngle": 0, "labelOrient": "top", "labelAnchor": "start"},
            },
            "y": {"field": "dimension", "type": "nominal", "title": None},
            "x": {"field": "begin", "type": "quantitative", "title": "ms"},
            "x2": {"field": "end"},
            "color": {"field": "dimension", "type": "nominal", "title": None},
        },
    }
    title = "When each dimension has a chunk, by allocation of bandwidth"
    return [Chart("multidim-allocation", title, records, spec)]


STUDY = Study(
    "An all-reduce of 1 GB in 4 chunks on Switch(8)_Switch(8)_Switch(16), 300 GB/s an NPU. Ideal "
    "is in proportion to the bytes; too little is half of that. The paper names neither sizes nor "
    "bandwidths. A dimension that the paper calls fully or almost fully utilized is busy for more "
    "than 80 % of the time here: a pipeline of 4 chunks has ends.",
    rows,
    charts,
)
