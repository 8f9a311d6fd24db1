"""How much of the bandwidth each allocation uses (multi-dimensional topologies, Fig. 14)."""

from __future__ import annotations

from collections.abc import Sequence

from ..study import Study, StudyRow, claimed, drawn, printed
from .multidim import SETUP, PaperCase, cases

PRINTED = {"EqualBW": 56.67, "MessageBW": 96.59, "SmartBW": 94.46}
"""Percent; section VI-B."""

WHY = {
    "EqualBW": "bytes sent over what the dimensions in use could have sent, which meets Fig. 10",
    "MessageBW": "full where MP and DP share no dimension; the bubbles of the paper's chunks are "
    "not in the model",
    "SmartBW": "a dimension that MP and DP share is sized for one of them and idles in part under "
    "the other",
}


WHERE = "section VI-B"
MARGIN = 0.01
ORDER = f"{WHERE}: SmartBW is slightly lower than MessageBW where MP and DP share a dimension"

REVERSED = (
    "reversed: GPT-3 on 3D decides. Its MP of 16 takes two of the eight places of dimension 2, "
    "which DP shares; there ours has MessageBW far below SmartBW. The paper prints no number for "
    "one configuration"
)
ODD = ("GPT-3", "3D")


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """A row for each scheme, the mean of 90 cases by the model; then the order of two schemes, and
    the case that decides it."""
    del backends
    found = list(cases())
    odd = [each for each in found if (each.workload, each.shape) == ODD]
    others = [each for each in found if each not in odd]
    order = claimed(1.0, ORDER, ">", MARGIN)
    return [
        *(
            StudyRow(
                f"{name}, mean", "model", printed(paper, WHERE), _mean(found, name), "%", WHY[name]
            )
            for name, paper in PRINTED.items()
        ),
        StudyRow("MessageBW over SmartBW", "model", order, _order(found), "x", REVERSED),
        StudyRow("the same without GPT-3 on 3D", "model", order, _order(others), "x", REVERSED),
        *(
            StudyRow(
                f"{name}, GPT-3 on 3D", "model", drawn("Fig. 14"), _mean(odd, name), "%", REVERSED
            )
            for name in ("MessageBW", "SmartBW")
        ),
    ]


def _mean(found: Sequence[PaperCase], scheme: str) -> float:
    """Percent."""
    return 100 * sum(each.utilisation(scheme) for each in found) / len(found)


def _order(found: Sequence[PaperCase]) -> float:
    return _mean(found, "MessageBW") / _mean(found, "SmartBW")


STUDY = Study(SETUP, rows)
