"""The fit of what layouts of a job share, on errors that are drawn with known parts."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from armillary_lab.fit.after_steps import (
    EACH,
    JOBS,
    Case,
    Missed,
    best,
    drawn,
    report,
    score,
    stretch,
)
from armillary_lab.measured.tried import ours

_DEVIATION = 0.1
_BEFORE = math.exp(-1.2816 * _DEVIATION), math.exp(1.2816 * _DEVIATION)


def _cases(shared: float, count: int) -> list[Case]:
    chance = random.Random(7)
    found = []
    for _ in range(count):
        common = chance.gauss(0, _DEVIATION * math.sqrt(shared))
        logs = [common + chance.gauss(0, _DEVIATION * math.sqrt(1 - shared)) for _ in range(3)]
        known, other = logs[:2], logs[2]
        found.append(Case(tuple(Missed(log, _BEFORE) for log in known), Missed(other, _BEFORE)))
    return found


@pytest.mark.parametrize("shared", [0.3, 0.9])
def test_the_fit_finds_the_part_that_was_drawn(shared: float) -> None:
    """Among its candidates, with a variance that is known best."""
    found = {"one": _cases(shared, 4000)}
    part, freedom, factor = best(found)
    assert part == pytest.approx(shared, abs=0.15)
    assert freedom == 8.0
    assert score(found, part, freedom, factor) <= score(found, 0.6, 2.0, stretch(found, 0.6, 2.0))
    inside = [off <= half * factor for off, half in (x.off(part, freedom) for x in found["one"])]
    assert sum(inside) / len(inside) == pytest.approx(0.8, abs=0.001)


def test_sources_are_left_out_of_their_row() -> None:
    """A row for each source and number of steps."""
    rows = list(report({"a": _cases(0.5, 50), "b": _cases(0.5, 50)}))
    assert rows[0].startswith("SHARED")
    assert [row.split(" | ")[:2] for row in rows[3:]] == [["| a", "2"], ["| b", "2"]]


def test_no_source_is_drawn_too_often() -> None:
    """Each job has several layouts, and no more than the stated number."""
    rows = list(drawn(list(ours())))
    jobs = Counter((row.source, row.job) for row in rows)
    assert min(jobs.values()) > 1
    for (source, _), count in jobs.items():
        assert count <= EACH.get(source, count)
    assert sum(source == "vTrain" for source, _ in jobs) == JOBS["vTrain"]
