"""DLRM with slow memory copies between network and NPU (HOTI 2020, Fig. 14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..study import Study, StudyRow, claimed, drawn, printed, unreferenced
from .hoti import FEWER, SETUP, SYSTEMS, loop, shares

if TYPE_CHECKING:
    from armillary.report.chart import Chart

LATENCIES = ("10 ns", "1 us", "10 us", "100 us")
COMPUTE = {
    ("flat800", "10 ns"): 79.9,
    ("flat800", "100 us"): 1.5,
    ("hierOpt100", "10 ns"): 77.8,
    ("hierOpt100", "100 us"): 17.5,
}
"""Percent of the time."""
SLOWER = {"flat800": 50.0, "hierOpt100": 4.53}
WHERE = "section IV-C, observation 9"
MARGIN = 0.1
COUNTS = (8, 32)
"""Numbers of chunks of the rows that show what they do, and of the straight line through them."""
PAPERS = 1024

DELAY = (
    "an endpoint delay for each message, so it counts once for each chunk and step of a tree. "
    "hierOpt100 has the paper's 128 chunks; flat800 has fewer but on `packet`, and so less of it"
)
CHUNKS = "the slow-down grows with the number of chunks"
EXTENDED = (
    "a straight line through the slow-downs with 8 and 32 chunks, at the paper's 1,024: simulating "
    "those takes minutes. An estimate from above: that number of chunks is slower at 10 ns too"
)
FLAT = "a tree over 128 NPUs has more steps than one over 16"


def rows(backends: Sequence[str], systems: Sequence[str] = tuple(SYSTEMS)) -> list[StudyRow]:
    """Shares and slow-downs on each backend, then the number of chunks. The figure has all systems;
    where they take minutes there are the two that the text compares."""
    found = [
        row
        for backend in backends
        for row in _rows(backend, systems if backend == "analytical" else tuple(SLOWER))
    ]
    if "analytical" in backends:
        found += _sensitivity()
    return found


def _rows(backend: str, systems: Sequence[str]) -> Iterator[StudyRow]:
    for system in systems:
        for latency in LATENCIES:
            run, paper = (
                loop(system, backend, endpoint_delay=latency),
                COMPUTE.get((system, latency)),
            )
            share = 100 - run.exposed_before_last
            reference = drawn("Fig. 14") if paper is None else printed(paper, WHERE)
            yield StudyRow(f"{system}, {latency}: compute", backend, reference, share, "%", DELAY)
    for system, paper in SLOWER.items():
        reference, ratio = printed(paper, WHERE), _slower(system, backend)
        yield StudyRow(f"{system}, 100 us over 10 ns", backend, reference, ratio, "x", DELAY)


def _slower(system: str, backend: str, **settings: object) -> float:
    fast, slow = (
        loop(system, backend, endpoint_delay=each, **settings).computed
        for each in (LATENCIES[0], LATENCIES[-1])
    )
    return slow / fast


def _sensitivity() -> Iterator[StudyRow]:
    for count in COUNTS:
        for system in SLOWER:
            setup = f"{system}, 100 us over 10 ns, {count} chunks"
            ratio = _slower(system, "analytical", chunks=count)
            yield StudyRow(setup, "analytical", unreferenced(), ratio, "x", CHUNKS)
    few, many = (_slower("flat800", "analytical", chunks=count) for count in COUNTS)
    slope = (many - few) / (COUNTS[1] - COUNTS[0])
    setup = f"flat800, 100 us over 10 ns, extended to {PAPERS:,} chunks"
    ours, reference = many + slope * (PAPERS - COUNTS[1]), printed(SLOWER["flat800"], WHERE)
    yield StudyRow(setup, "analytical", reference, ours, "x", EXTENDED)
    flat = claimed(1.0, f"{WHERE}: flat systems degrade far more", ">", MARGIN)
    over = ours / _slower("hierOpt100", "analytical")
    yield StudyRow("its slow-down over hierOpt100's", "analytical", flat, over, "x", FLAT)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 14: computation."""
    return shares(rows, "dlrm-injection", "Computation (Fig. 14)")


STUDY = Study(
    SETUP
    + FEWER
    + "Shares are until the last computation. Other networks than the analytical one have the two "
    "systems that the text compares.",
    rows,
    charts,
)
