"""Bandwidth that equal shares leave unused, and what it would buy (multi-dimensional
topologies, Fig. 10)."""

from __future__ import annotations

from collections.abc import Sequence

from ..study import Study, StudyRow, printed
from .multidim import SETUP, SHAPES, case

UTILISATION = {"2D": 57.53, "3D": 39.02, "4D": 66.74}
"""Percent; section III-C."""
BOUND = {"2D": 1.39, "3D": 1.83, "4D": 1.29}

WHERE = "section III-C"

USED = (
    "MP's alone is 56.7, 37.8 and 66.2 %, from sizes alone; the rest is DP, which has one "
    "dimension to itself"
)
FASTER = (
    "if all bandwidth were used: depends on compute over communication, and attention's "
    "operations are counted here"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Utilisation and the bound it sets, for each network, by the model."""
    del backends
    found = {shape: case("Transformer-1T", shape, 300) for shape in SHAPES}
    used = {shape: each.utilisation("EqualBW") for shape, each in found.items()}
    first = [
        StudyRow(
            f"utilisation, {shape}",
            "model",
            printed(UTILISATION[shape], WHERE),
            100 * used[shape],
            "%",
            USED,
        )
        for shape in SHAPES
    ]
    bound = {}
    for shape, each in found.items():
        communication = each.model.communication(each.shares["EqualBW"])
        time = each.time("EqualBW")
        bound[shape] = time / (time - communication * (1 - used[shape]))
    return first + [
        StudyRow(
            f"speed-up bound, {shape}",
            "model",
            printed(BOUND[shape], WHERE),
            bound[shape],
            "x",
            FASTER,
        )
        for shape in SHAPES
    ]


STUDY = Study(
    SETUP,
    rows,
)
