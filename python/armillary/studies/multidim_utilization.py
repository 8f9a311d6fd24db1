"""How much of the bandwidth each allocation uses (multi-dimensional topologies, Fig. 14)."""

from __future__ import annotations

from collections.abc import Sequence

from ..study import Study, StudyRow
from .multidim import PAPER, SETUP, cases

PRINTED = {"EqualBW": 56.67, "MessageBW": 96.59, "SmartBW": 94.46}
"""Percent; section VI-B."""

WHY = {
    "EqualBW": "bytes sent over what the dimensions in use could have sent, which meets Fig. 10",
    "MessageBW": "full where MP and DP share no dimension; the bubbles of the paper's chunks are "
    "not in the model",
    "SmartBW": "a dimension that MP and DP share is sized for one of them and idles in part under "
    "the other",
}


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """A row for each scheme, the mean of 90 cases by the model."""
    del backends
    found = list(cases())
    means = {
        name: 100 * sum(each.utilisation(name) for each in found) / len(found) for name in PRINTED
    }
    return [
        StudyRow(f"{name}, mean", "model", paper, means[name], "%", WHY[name])
        for name, paper in PRINTED.items()
    ]


STUDY = Study("Bandwidth used by allocation", f"{PAPER}, Fig. 14 and section VI-B", SETUP, rows)
