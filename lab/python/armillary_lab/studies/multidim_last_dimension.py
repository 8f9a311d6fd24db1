"""Bytes through the last dimension, and the NICs they need, by number of dimensions
(multi-dimensional topologies, Fig. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from armillary.units import GB

from ..study import Study, StudyRow, claimed, drawn
from .multidim import MODELS, SETUP, SHAPES, step

BYTES = "no number printed: bytes an NPU sends through its NIC in a step"
NICS = "no number printed: the number that gives its last dimension the 4D network's time"
MARGIN = 0.1
"""Less is not seen in a figure of bars."""
FALLS = "the figure falls with each added dimension: each one inside divides what reaches the last"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """For each workload the traffic of each network, NICs for the 4D network's time, and whether it
    falls."""
    del backends
    table = []
    for name in MODELS:
        sent = {shape: float(step(name, shape).loads[:, -1].sum()) for shape in SHAPES}
        table += [
            StudyRow(
                f"{name}, {shape}, last dimension",
                "model",
                drawn("Fig. 3"),
                sent[shape] / GB,
                "GB",
                BYTES,
            )
            for shape in SHAPES
        ]
        table += [
            StudyRow(
                f"{name}, {shape}, NICs an NPU",
                "model",
                drawn("Fig. 3"),
                sent[shape] / sent["4D"],
                "",
                NICS,
            )
            for shape in SHAPES
        ]
        table += [
            StudyRow(
                f"{name}, {more} over {fewer}",
                "model",
                claimed(1.0, "section I and Fig. 3", "<", MARGIN),
                sent[more] / sent[fewer],
                "x",
                FALLS,
            )
            for fewer, more in pairwise(SHAPES)
        ]
    return table


STUDY = Study(
    SETUP,
    rows,
)
