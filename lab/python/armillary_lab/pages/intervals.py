"""Tables of the intervals that ship with the package: how they do on sources that nothing has seen.

Each source is left out: of the fit that made the residuals, and of the stretch and factors of the
intervals (`Intervals.new_sources`). Groups are the values of every label. A group of fewer than
three sources shows no part within its intervals, because nothing can be said of a new source."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from armillary.uncertainty import GOAL, LEVEL, Interval, Residual, of

HEAD = (
    "sources (measurements)",
    "half of the errors",
    "nine of ten errors",
    "80 % interval",
    "held",
    "held, mean of sources",
    "score",
)
"""Columns after the group."""
KINDS = {"steps": "training steps", "hardware": "steps on other GPUs", "collectives": "collectives"}
"""Tables of residuals, and the words for all of their rows."""
_LABELS = {
    "family": "model",
    "format": "number format",
    "gpu": "GPU",
    "scale": "size of the job",
    "operation": "operation",
    "size": "message",
    "GPU": "GPU",
    "network": "network",
    "nodes": "nodes",
    "known": "preset measured",
}
"""Labels of residuals in the words of the page. A label with one value is not a group."""
_FEWEST = 3
"""Sources of a group whose intervals are judged."""
_OUTSIDE = 2 / (1 - LEVEL)
"""Weight of the distance of a measurement outside of its interval: 2 / (1 - level)."""


@dataclass(frozen=True, slots=True)
class Held:
    """A measurement of a left-out source, and the interval that the others give it."""

    source: str
    log: float
    """ln(measured / predicted)."""
    interval: Interval

    @property
    def within(self) -> bool:
        """Whether the interval holds it."""
        return self.interval.holds(math.exp(self.log))

    @property
    def score(self) -> float:
        """Winkler's interval score of the logarithm of the time; lower is better."""
        low, high = math.log(self.interval.low), math.log(self.interval.high)
        outside = max(low - self.log, self.log - high, 0.0)
        return high - low + _OUTSIDE * outside


def table(kind: str) -> list[str]:
    """Lines of a table in Markdown: a row of all measurements, then one of each group."""
    groups: dict[str, list[Held]] = {}
    for residual, interval in of(kind).new_sources():
        found = [Held(residual.source, log, interval) for log in residual.logs]
        for name in _names(kind, residual):
            groups.setdefault(name, []).extend(found)
    every = groups.pop(KINDS[kind])
    rows = [_row(KINDS[kind], every), *(_row(name, held) for name, held in sorted(groups.items()))]
    return [f"| {' | '.join(('group', *HEAD))} |", f"|{' --- |' * (len(HEAD) + 1)}", *rows]


def _names(kind: str, residual: Residual) -> Iterator[str]:
    yield KINDS[kind]
    for label, words in _LABELS.items():
        if label in residual.labels:
            yield f"{words}: {residual.labels[label]}"


def _row(name: str, group: Sequence[Held]) -> str:
    sources = {each.source for each in group}
    errors = sorted(math.exp(abs(each.log)) - 1 for each in group)
    low = statistics.median(each.interval.low for each in group)
    high = statistics.median(each.interval.high for each in group)
    parts = [_part([each.within for each in group if each.source == one]) for one in sources]
    judged = len(sources) >= _FEWEST
    cells = (
        f"{len(sources)} ({len(group):,})",
        f"up to {100 * statistics.median(errors):.0f} %",
        f"up to {100 * errors[math.ceil(0.9 * len(errors)) - 1]:.0f} %",
        f"{100 * (low - 1):+.0f} to {100 * (high - 1):+.0f} %",
        _judged(_part([each.within for each in group])) if judged else "few sources",
        _judged(statistics.mean(parts)) if judged else "few sources",
        f"{statistics.mean(each.score for each in group):.2f}",
    )
    return f"| {' | '.join((name, *cells))} |"


def _part(within: Sequence[bool]) -> float:
    return sum(within) / len(within)


def _judged(part: float) -> str:
    """A part within, and whether it is what it should be."""
    low, high = GOAL
    outside = ", too few" if part < low else ", more than needed" if part > high else ""
    return f"{100 * part:.0f} %{outside}"
