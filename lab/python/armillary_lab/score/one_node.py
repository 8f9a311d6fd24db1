"""NCCL within one node: the times of the shipped presets against measured ones.

Measurements: `measured.one_node`. The presets were fitted to all of these; what a fit makes of a
version of NCCL or a GPU that it has not seen prints `python -m armillary_lab.fit.one_node`. An
error is `exp |ln(ours / measured)| - 1` of one size, collective, type of data and number of GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from armillary.calibrate import Case, MeasuredTable

from ..measured import one_node
from ..measured.one_node import Measured, measured
from ..measured.sweeps import BANDS, band, quantile
from ..study import Study, StudyRow, limit

HALF, NINTH = 0.5, 0.9
MOST = {HALF: 8.0, NINTH: 25.0}
"""Allowed errors in each band, percent: half of them, and nine of ten."""
OF_ONE_VERSION = {HALF: 15.0, NINTH: 40.0}
"""The same of a GPU that was measured with one version of NCCL."""


def rows(_: Sequence[str] = ()) -> list[StudyRow]:
    """Errors by GPU, collective and band."""
    return list(_rows())


def _rows() -> Iterator[StudyRow]:
    for gpu in one_node.PRESETS:
        found = of_presets([gpu])
        yield from _by_band(gpu, found, most(gpu))
        for collective in dict.fromkeys(each.collective for each in found):
            chosen = {each: log for each, log in found.items() if each.collective == collective}
            yield from _by_band(f"{gpu}, {collective}", chosen, most(gpu))


def most(gpu: str) -> dict[float, float]:
    """Errors allowed of a GPU."""
    return MOST if len(one_node.versions(gpu)) > 1 else OF_ONE_VERSION


def of_presets(gpus: Collection[str]) -> dict[Measured, float]:
    """`ln(ours / measured)` of the shipped presets."""
    found: dict[Measured, float] = {}
    for sweep, group in one_node.groups(each for each in measured() if each.gpu in gpus):
        table = MeasuredTable(sweep.name, sweep.collective, sweep.gpus, sweep.points)
        times = zip(group, Case(table, sweep.platform).times({}), strict=True)
        found |= {each: math.log(ours / each.us) for each, ours in times}
    return found


def _by_band(
    words: str, found: dict[Measured, float], allowed: dict[float, float]
) -> Iterator[StudyRow]:
    for at, size in enumerate(BANDS):
        logs = [log for each, log in found.items() if band(each.size) == at]
        worst = max((each for each in found if band(each.size) == at), key=lambda e: abs(found[e]))
        why = f"worst: {worst.gpus} GPUs, NCCL {worst.nccl}, {worst.collective}, {worst.size} B"
        for part, name in ((HALF, "half of them"), (NINTH, "nine of ten")):
            setup = f"{words}, {size}: {name} ({len(logs)})"
            reference = limit(allowed[part], "<")
            yield StudyRow(setup, "analytical", reference, quantile(logs, part), "%", why)


STUDY = Study(
    "Error of the predicted time of NCCL within one node on the shipped presets; in parentheses "
    "the number of measured times. Reference: a limit that we chose. Presets were fitted to these "
    "times.",
    rows,
)
"""NCCL within one node: predicted times against measured ones."""
