"""Waits of an all-reduce on growing tori (ISPASS 2020, Fig. 12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from armillary.api import collective_result
from armillary.units import NS_PER_US

from ..study import Study, StudyRow, claimed, drawn, unreferenced
from .ispass import Torus
from .ispass_collectives import MARGIN, MIB, platform, size_of

if TYPE_CHECKING:
    from armillary.report.chart import Chart

WHERE = "section V-D and Fig. 12"
SIZE = 16 * MIB
SMALLEST, SMALL, MIDDLE, LARGE = SHAPES = (
    Torus(2, 2, 2),
    Torus(2, 4, 2),
    Torus(2, 4, 4),
    Torus(2, 4, 8),
)
CHUNKS = 64
"""The figure shows waits in the ready queue, so more chunks than the 16 that leave it at once."""
OTHERS = ((4, SIZE), (16, SIZE), (CHUNKS, MIB), (CHUNKS, 64 * MIB))
"""Chunks and sizes of the rows that show what they do."""

DRAWN = "the figure prints no number"
SLOW = "rings of 4 set the pace of both: the horizontal one in 2x4x2, the vertical one in 2x4x4"
JUMP = "a ring of 8 has 14 rounds instead of 6, and 7/4 of the bytes instead of 3/2"
FIRST = "chunks cross the vertical rings first, so they wait before those"
SHIFT = "in 2x4x2 the vertical rings have 2 NPUs, so chunks wait before the horizontal ones as well"
UNPRINTED = "what the paper does not print: the size of the all-reduce and its number of chunks"


@dataclass(frozen=True, slots=True)
class Run:
    """An all-reduce, us."""

    time: float
    queues: dict[str, float]
    """Mean wait of a chunk before each phase: P0 is the ready queue."""
    network: dict[str, float]
    """Mean time of a chunk in each phase."""


@cache
def run(shape: Torus, backend: str, chunks: int = CHUNKS, size: int = SIZE) -> Run:
    """The enhanced (4-phase) all-reduce."""
    settings = {"topology": shape.topology, "scheduler.chunks": chunks}
    result = collective_result(
        "all_reduce", size, platform("torus-2x4x4", settings), backend=backend
    )
    phases = {phase["name"].partition(" ")[0]: phase for phase in result.report["phases"]}
    return Run(
        result.step_time_ns / NS_PER_US,
        {name: phase["queue_ns"] / NS_PER_US for name, phase in phases.items()},
        {name: p["network_ns"] / NS_PER_US for name, p in phases.items() if name != "P0"},
    )


def growth(
    before: Torus, after: Torus, backend: str, chunks: int = CHUNKS, size: int = SIZE
) -> float:
    """How much longer the larger torus takes, percent."""
    first, second = (run(shape, backend, chunks, size).time for shape in (before, after))
    return 100 * (second / first - 1)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Claims and the bars of the figure on each backend, then what is not printed."""
    found = [row for backend in backends for row in (*_claims(backend), *_bars(backend))]
    if "analytical" in backends:
        found += _sensitivity()
    return found


def _claims(backend: str) -> Iterator[StudyRow]:
    slow = growth(SMALL, MIDDLE, backend)
    jump = growth(MIDDLE, LARGE, backend)
    faster = claimed(1.0, WHERE, ">", MARGIN)
    yield StudyRow(
        "growth 2x4x4 to 2x4x8 over 2x4x2 to 2x4x4", backend, faster, jump / slow, "x", JUMP
    )
    queues = run(MIDDLE, backend).queues
    most = max(wait for name, wait in queues.items() if name != "P2")
    setup = "2x4x4: wait in queue P2 over the longest other"
    yield StudyRow(setup, backend, faster, queues["P2"] / most, "x", FIRST)
    bottleneck = [run(shape, backend).queues["P3"] for shape in (SMALL, MIDDLE)]
    setup = "wait in queue P3, 2x4x2 less 2x4x4"
    shifts = claimed(0.0, WHERE, ">", 0.0)
    yield StudyRow(setup, backend, shifts, bottleneck[0] - bottleneck[1], "us", SHIFT)


def _bars(backend: str) -> Iterator[StudyRow]:
    for shape in SHAPES:
        found = run(shape, backend)
        yield StudyRow(f"{shape}: time", backend, drawn("Fig. 12"), found.time, "us", DRAWN)
        for part, values in (("queue", found.queues), ("network", found.network)):
            for name, value in values.items():
                setup = f"{shape}: {part} {name}"
                yield StudyRow(setup, backend, drawn("Fig. 12"), value, "us", DRAWN)


def _sensitivity() -> Iterator[StudyRow]:
    for chunks, size in OTHERS:
        for before, after in ((SMALL, MIDDLE), (MIDDLE, LARGE)):
            setup = f"growth {before} to {after}, {chunks} chunks, {size_of(size)}"
            grown = growth(before, after, "analytical", chunks, size)
            yield StudyRow(setup, "analytical", unreferenced(), grown, "%", UNPRINTED)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 12: time, and where chunks spend it."""
    from armillary.report.chart import Chart

    parts, times = [], []
    for row in rows:
        shape, _, what = row.setup.partition(": ")
        if row.backend != rows[0].backend or row.unit != "us":
            continue
        if what == "time":
            times.append({"torus": shape, "us": row.ours})
        else:
            parts.append({"torus": shape, "part": what, "us": row.ours})
    axes = {
        "x": {"field": "torus", "type": "nominal", "title": None, "sort": None},
        "y": {"field": "us", "type": "quantitative", "title": "us"},
    }
    bar = {"type": "bar", "tooltip": True}
    color = {"color": {"field": "part", "type": "nominal", "title": None, "sort": None}}
    return [
        Chart(
            "ispass-breakdown",
            "All-reduce on tori (Fig. 12a)",
            times,
            {"mark": bar, "encoding": axes},
        ),
        Chart(
            "ispass-breakdown-parts",
            "Where chunks spend it (Fig. 12b)",
            parts,
            {"mark": bar, "encoding": axes | color},
        ),
    ]


STUDY = Study(
    "Enhanced (4-phase) all-reduce on 8 to 64 NPUs, Tables III and IV, T = 8 and P = 16 (section "
    f"V-F). The size and the chunks are not printed: {size_of(SIZE)} and {CHUNKS}. A torus is "
    "local x horizontal x vertical, and collectives cross it local, vertical, horizontal, local: "
    "queue P2 is before the vertical rings.",
    rows,
    charts,
)
