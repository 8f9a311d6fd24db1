"""DLRM with other numbers of chunks, and of chunks under way (HOTI 2020, Fig. 16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..study import Study, StudyRow, drawn, printed
from .hoti import SETUP, Loop, loop, shares

if TYPE_CHECKING:
    from armillary.report.chart import Chart

COUNTS = {"flat800": (4, 8, 32), "hierOpt100": (8, 32, 128)}
ON_FLOW = (2, 4, 8)
ON_PACKETS = (32, 128, 1024)
"""Those of Table IV."""
AT_ONCE = (64, 128)
EXPOSED = {"flat800": 8.89, "hierOpt100": 1.54}
"""The longest exposed communication over the shortest."""
STEP = {"flat800": 21.5, "hierOpt100": 7.4}
"""Percent by which the longest iteration is longer than the shortest."""
WHERE = "section IV-E, observation 11"

FEW = (
    "fewer chunks overlap less of a tree's levels. With more of them under way more bytes wait in "
    "switches, and only `packet` loses some"
)
RANGE = (
    "over the numbers of chunks above. The paper's range has congestion and lost packets in it, as "
    "on `packet`; on other networks there is the pipeline alone"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """The share of each combination, then how far they are apart."""
    return [row for backend in backends for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    for system, exposed in EXPOSED.items():
        found: list[Loop] = []
        for count in {"flow": ON_FLOW, "packet": ON_PACKETS}.get(backend, COUNTS[system]):
            for limit in AT_ONCE:
                run = loop(system, backend, chunks=count, active_chunks=limit)
                found.append(run)
                setup = f"{system}, {count} chunks, {limit} under way"
                share = run.exposed_before_last
                yield StudyRow(setup, backend, drawn("Fig. 16"), share, "%", FEW)
        waits = [run.computed - run.compute for run in found]
        times = [run.computed for run in found]
        ratio = max(waits) / min(waits)
        reference = printed(exposed, WHERE)
        yield StudyRow(f"{system}, exposed, most over least", backend, reference, ratio, "x", RANGE)
        longer = 100 * (max(times) / min(times) - 1)
        reference = printed(STEP[system], WHERE)
        yield StudyRow(f"{system}, time, most over least", backend, reference, longer, "%", RANGE)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 16: exposed communication."""
    return shares(rows, "dlrm-chunks", "Exposed communication (Fig. 16)")


STUDY = Study(
    SETUP + "4 to 32 on flat systems, 8 to 128 on hierarchical ones, and 2 to 8 on `flow`, because "
    "of the time to run, but on `packet` the paper's 32 to 1,024. Shares are until the last "
    "computation.",
    rows,
    charts,
)
