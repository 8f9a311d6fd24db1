"""Which layout of a job we would choose, and what that costs.

The *chosen* layout is the one with the shortest predicted step of those that leave a tenth of the
memory free: closer to the limit allocators ask the driver again in every step, which predicted
times leave out (docs/models/memory.md). Where none does, it is one that fits; where none fits, one
that is near the limit. Here: jobs, choices and their summary. Not here: predictions
(`predict/plans.py`) and files (`plans.py`)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..predict.plans import Predicted
from .correlation import spearman

NEAR, FAR = 3.0, 8.0
"""How much longer than the fastest a chosen step may be, percent."""
MANY = 8
"""Layouts with a time from which ranks are counted."""
RANKS = 0.85


@dataclass(frozen=True, slots=True)
class Choice:
    """A job, and the layout that we choose for it."""

    source: str
    job: str
    layouts: int
    ran: int
    chosen: str
    """The layout; empty where we say that none fits."""
    works: bool
    """Whether the chosen layout ran."""
    lost: float | None
    """How much longer than the fastest measured step its step is, percent; nothing where it did
    not run."""
    correlation: float | None
    """Spearman's, of the layouts that ran; nothing below three."""
    drawn: float
    """How much longer the median of the measured steps is, percent."""

    def within(self, percent: float) -> bool:
        """Whether the chosen layout ran, and lost at most so much."""
        return self.lost is not None and self.lost <= percent


@dataclass(frozen=True, slots=True)
class Summary:
    """Choices of a source, or of all."""

    name: str
    jobs: int
    layouts: int
    works: float
    """Percent of jobs whose chosen layout ran."""
    near: float
    """Percent of jobs within 3 %."""
    far: float
    """Percent of jobs within 8 %."""
    ranked: int
    """Jobs with eight layouts that ran or more."""
    correlation: float | None
    """Spearman's, median of these jobs."""
    lowest: float | None
    above: int
    """Ranked jobs with 0.85 or more."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """One layout, which may have been tried several times."""

    name: str
    ours: float | None
    fits: str
    room: bool
    measured: float | None
    """Median of its measured steps; nothing where it never ran."""


def choices(found: Iterable[Predicted]) -> list[Choice]:
    """The choice for every job with at least two layouts and a measured time."""
    jobs: dict[tuple[str, str], list[Predicted]] = {}
    for each in found:
        jobs.setdefault((each.tried.source, each.tried.job), []).append(each)
    made = ((key, list(_merged(some))) for key, some in sorted(jobs.items()))
    return [
        _choice(*key, some)
        for key, some in made
        if len(some) > 1 and any(each.measured for each in some)
    ]


def _merged(found: Sequence[Predicted]) -> Iterator[_Layout]:
    names: dict[str, list[Predicted]] = {}
    for each in found:
        names.setdefault(each.tried.layout, []).append(each)
    for name, some in names.items():
        times = [each.tried.step_s for each in some if each.tried.ran and each.tried.step_s]
        first = next((each for each in some if each.ours is not None), some[0])
        measured = statistics.median(times) if times else None
        yield _Layout(name, first.ours, first.fits, first.room, measured)


def _choice(source: str, job: str, found: Sequence[_Layout]) -> Choice:
    ran = [each for each in found if each.measured is not None]
    times = [each.measured for each in found if each.measured is not None]
    chosen = _chosen(found)
    lost = None
    if chosen is not None and chosen.measured is not None:
        lost = 100 * (chosen.measured / min(times) - 1)
    return Choice(
        source,
        job,
        len(found),
        len(ran),
        chosen.name if chosen else "",
        lost is not None,
        lost,
        spearman([(each.ours or 0.0, each.measured or 0.0) for each in ran]),
        100 * (statistics.median(times) / min(times) - 1),
    )


def _chosen(found: Sequence[_Layout]) -> _Layout | None:
    """The layout that we say is fastest, of those with room; else of those that fit; else of those
    near the limit."""
    timed = [each for each in found if each.ours is not None]
    for some in (
        [each for each in timed if each.fits == "yes" and each.room],
        [each for each in timed if each.fits == "yes"],
        [each for each in timed if each.fits == "near"],
    ):
        if some:
            return min(some, key=lambda each: each.ours or 0.0)
    return None


def summaries(found: Sequence[Choice]) -> list[Summary]:
    """All choices, then those of each source."""
    sources = dict.fromkeys(each.source for each in found)
    parts = [("all", list(found))]
    parts += [(name, [each for each in found if each.source == name]) for name in sources]
    return [_summary(name, some) for name, some in parts if some]


def _summary(name: str, found: Sequence[Choice]) -> Summary:
    def percent(true: Iterable[bool]) -> float:
        return 100 * sum(true) / len(found)

    ranked = [
        each.correlation for each in found if each.ran >= MANY and each.correlation is not None
    ]
    return Summary(
        name,
        len(found),
        sum(each.layouts for each in found),
        percent(each.works for each in found),
        percent(each.within(NEAR) for each in found),
        percent(each.within(FAR) for each in found),
        len(ranked),
        statistics.median(ranked) if ranked else None,
        min(ranked, default=None),
        sum(each >= RANKS for each in ranked),
    )
