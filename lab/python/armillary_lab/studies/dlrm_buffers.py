"""DLRM with other buffers in the scale-out switch, under TCP (HOTI 2020, Fig. 15)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..study import Study, StudyRow, claimed, drawn, printed, unreferenced
from .hoti import FEWER, SETUP, Loop, loop, shares

if TYPE_CHECKING:
    from armillary.report.chart import Chart

BUFFERS = {"64 MB": 64_000_000, "128 MB": 128_000_000, "1 GB": 1_000_000_000}
SMALL, LARGE = "64 MB", "1 GB"
COMPUTE = {("hierOpt100", SMALL): 3.4, ("hierOpt100", LARGE): 77.8}
"""Percent of the time."""
GAIN = 22.9
"""How much faster hierOpt100 is with 1 GB."""
WHERE = "section IV-D, observation 10"
EQUAL = 0.02

SHARE = (
    "a timeout of 50 ms is six iterations long, so a few of them decide. They come when a queue "
    "gets longer than its port's part of the buffer"
)
FLAT = (
    "64 chunks of 8 kB under way are 0.5 MB, as much as a port's part of 64 MB holds: our longest "
    "queue is 452 kB"
)
EDGE = (
    "our longest queue is 495 kB where a port has 500 kB: nothing is lost, by 1 %. The rows below "
    "show what happens past that edge"
)
PAST = "past the edge"


def rows(_backends: Sequence[str]) -> list[StudyRow]:
    """The shares of each system, the paper's claims, and where the edge is."""
    return [*_systems(), *_claims(), *_edge()]


def _run(system: str, buffer: str) -> Loop:
    return loop(system, "packet", BUFFERS[buffer])


def _share(run: Loop) -> float:
    return 100 - run.exposed_before_last


def _systems() -> Iterator[StudyRow]:
    for system in ("flat100", "flat800", "hier100", "hierOpt100"):
        # A buffer that fits into the least needs no more.
        for buffer in (SMALL, LARGE) if system.startswith("flat") else BUFFERS:
            run, paper = _run(system, buffer), COMPUTE.get((system, buffer))
            reference = drawn("Fig. 15") if paper is None else printed(paper, WHERE)
            setup = f"{system}, {buffer}: compute"
            why = EDGE if (system, buffer) == ("hierOpt100", SMALL) else SHARE
            yield StudyRow(setup, "packet", reference, _share(run), "%", why)


def _claims() -> Iterator[StudyRow]:
    for system in ("flat100", "flat800"):
        ratio = _run(system, SMALL).computed / _run(system, LARGE).computed
        same = claimed(1, f"{WHERE}: insensitive", "=", EQUAL)
        setup = f"{system}, {SMALL} over {LARGE}: time"
        yield StudyRow(setup, "packet", same, ratio, "x", FLAT)
    ratio = _run("hierOpt100", SMALL).computed / _run("hierOpt100", LARGE).computed
    setup = f"hierOpt100, {SMALL} over {LARGE}: time"
    yield StudyRow(setup, "packet", printed(GAIN, WHERE), ratio, "x", EDGE)


def _edge() -> Iterator[StudyRow]:
    whole = _run("hierOpt100", LARGE).computed
    cases = {
        "48 MB": loop("hierOpt100", "packet", 48_000_000),
        "32 MB": loop("hierOpt100", "packet", 32_000_000),
        f"{SMALL}, 128 chunks under way": loop(
            "hierOpt100", "packet", BUFFERS[SMALL], active_chunks=128
        ),
    }
    for name, run in cases.items():
        timeouts = f"{run.timeouts} timeouts. {PAST}" if run.timeouts else PAST
        yield StudyRow(
            f"hierOpt100, {name}: compute", "packet", unreferenced(), _share(run), "%", timeouts
        )
        setup = f"hierOpt100, {name}, over {LARGE}: time"
        yield StudyRow(setup, "packet", unreferenced(), run.computed / whole, "x", timeouts)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 15: computation."""
    return shares(rows, "dlrm-buffers", "Computation (Fig. 15)")


STUDY = Study(
    SETUP + FEWER + "Shares are until the last computation. This study runs on packets whatever "
    "`--backend` says.",
    rows,
    charts,
)
