"""Cost of networks, and performance per cost, by allocation (multi-dimensional topologies, Figs. 15
and 16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..study import Study, StudyRow, printed
from .multidim import SETUP, PaperCase, cases

COST = {"EqualBW": (7.77, 13.82), "SmartBW": (1.65, 4.13)}
"""Mean and maximum over MessageBW. The text prints them the other way round, see `SWAPPED`."""
WORTH = {"MessageBW": (8.52, 17.02), "SmartBW": (5.51, 15.37)}
"""Performance per cost over EqualBW, mean and maximum; section VI-C."""

SWAPPED = (
    "printed for the other scheme: the text says SmartBW 7.77x and EqualBW 1.65x, but also that "
    "EqualBW costs most, "
    "and its own 5.51x of performance per cost is 7.77 / 1.65 x 1.17, which needs EqualBW at 7.77x"
)
PER_COST = (
    "steps a second for a dollar; the maxima are where the last dimension needs least, "
    "which hangs on the batch"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Mean and maximum of each ratio over the 90 cases, by the model."""
    del backends
    found = list(cases())
    table = []
    for name, pair in COST.items():
        table += _pair(f"cost of {name} over MessageBW", pair, found, _dearer(name), SWAPPED)
    for name, pair in WORTH.items():
        table += _pair(
            f"performance per cost of {name} over EqualBW", pair, found, _worth(name), PER_COST
        )
    return table


def _dearer(name: str) -> Callable[[PaperCase], float]:
    return lambda each: each.cost(name) / each.cost("MessageBW")


def _worth(name: str) -> Callable[[PaperCase], float]:
    def ratio(each: PaperCase) -> float:
        return each.time("EqualBW") * each.cost("EqualBW") / (each.time(name) * each.cost(name))

    return ratio


def _pair(
    setup: str,
    pair: tuple[float, float],
    found: Iterable[PaperCase],
    ratio: Callable[[PaperCase], float],
    why: str,
) -> list[StudyRow]:
    values = [ratio(each) for each in found]
    ours = (sum(values) / len(values), max(values))
    return [
        StudyRow(f"{setup}, {what}", "model", printed(paper, "section VI-C"), value, "x", why)
        for what, paper, value in zip(("mean", "most"), pair, ours, strict=True)
    ]


STUDY = Study(
    SETUP,
    rows,
)
