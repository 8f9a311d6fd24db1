"""DLRM's exposed communication on flat and hierarchical systems (HOTI 2020, Fig. 13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..study import Study, StudyRow, evaluated, printed, unreferenced
from .hoti import FEWER, FLAT, SETUP, loop, shares

if TYPE_CHECKING:
    from armillary.report.chart import Chart

EXPOSED = {"flat100": 73.1, "flat800": 20.0, "hier100": 73.2, "hierOpt100": 22.1}
"""Percent."""
GAINS = {("flat100", "flat800"): 2.97, ("hier100", "hierOpt100"): 2.91}
WHERE = "section IV-B, observation 7"
COUNTS = (4, 16)
"""Numbers of chunks of the rows that show what they do."""
PARAMETERS = 57_411_584
"""Parameters of the MLPs; gradients have 16 bits."""

WHOLE = (
    "until the gradients of the second iteration have arrived. The paper's share can't hold that: "
    "see the bound on its time"
)
BEFORE = (
    "until the second iteration's last computation: one iteration's reductions are waited for, as "
    "the paper's shares imply"
)
BOUND = (
    "two iterations reduce 2 x 57.4 M gradients of 16 bits over 100 Gb/s, each 2 (n - 1) / n "
    "times. That takes longer than 73.1 % exposed allows with our computation, so the paper stops "
    "before"
)
GAIN = "ratio of the times of two iterations until the last computation, as the paper's imply"
CHUNKING = (
    "to the last computation: more chunks overlap the levels of a tree. With several hundred the "
    "share of flat800 rises again, because 64 small chunks under way don't fill its links"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Exposed shares and gains on each backend, then what the paper's time can hold, and the
    number of chunks."""
    found = [row for backend in backends for row in _rows(backend)]
    if "packet" in backends:
        found += _on_packets()
    if "analytical" in backends:
        found += _bound()
        found += _sensitivity()
    return found


def _rows(backend: str) -> Iterator[StudyRow]:
    for system, paper in EXPOSED.items():
        run, reference = loop(system, backend), printed(paper, WHERE)
        yield StudyRow(f"{system}, whole", backend, reference, run.exposed, "%", WHOLE)
        before = run.exposed_before_last
        yield StudyRow(
            f"{system}, to the last computation", backend, reference, before, "%", BEFORE
        )
    for (slow, fast), paper in GAINS.items():
        gain = loop(slow, backend).computed / loop(fast, backend).computed
        reference = printed(paper, WHERE)
        yield StudyRow(f"{fast} over {slow}", backend, reference, gain, "x", GAIN)


def _bound() -> Iterator[StudyRow]:
    """Time that the bytes need, and the time that the paper's share leaves."""
    compute = loop("flat100", "analytical").compute
    left = compute / (1 - EXPOSED["flat100"] / 100)
    floor = 2 * 2 * (127 / 128) * PARAMETERS * 2 / 12.5e9 * 1e3
    allowed = evaluated(left, f"our computation and the share of {WHERE}")
    yield StudyRow(
        "flat100: least time of two iterations' reductions", "-", allowed, floor, "ms", BOUND
    )


def _on_packets() -> Iterator[StudyRow]:
    """Flat systems with other numbers of chunks than the paper's."""
    for system in ("flat100", "flat800"):
        for count in (FLAT, 4 * FLAT):
            share = loop(system, "packet", chunks=count).exposed_before_last
            setup = f"{system}, {count} chunks"
            yield StudyRow(setup, "packet", unreferenced(), share, "%", CHUNKING)


def _sensitivity() -> Iterator[StudyRow]:
    for system in EXPOSED:
        for count in COUNTS:
            share = loop(system, "analytical", chunks=count).exposed_before_last
            setup = f"{system}, {count} chunks"
            yield StudyRow(setup, "analytical", unreferenced(), share, "%", CHUNKING)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 13: exposed communication."""
    return shares(rows, "dlrm-topology", "Exposed communication (Fig. 13)")


STUDY = Study(
    SETUP + FEWER + "Rows with other numbers of chunks follow.",
    rows,
    charts,
)
