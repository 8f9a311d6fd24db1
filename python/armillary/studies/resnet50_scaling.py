"""Exposed communication of ResNet-50 from 8 to 128 NPUs (ISPASS 2020, Fig. 17)."""

from __future__ import annotations

from collections.abc import Sequence

from ..study import Study, StudyRow, drawn, printed
from .ispass import SETUP, Torus, exposed

PRINTED = {Torus(2, 2, 2): 4.1, Torus(2, 8, 8): 25.2}
"""Percent; section V-F names the ends of the figure only."""

SIZES = (Torus(2, 2, 2), Torus(2, 4, 2), Torus(2, 4, 4), Torus(2, 8, 4), Torus(2, 8, 8))

HIDDEN = (
    "32 samples compute 17 times as long as the published cycles of one, so every reduction hides"
)

WHY = {
    (
        "published",
        8,
    ): "links alone hide all but the first layer's reduction; what else flits expose the paper "
    "doesn't say",
    (
        "published",
        128,
    ): "rings of eight set the time, which bandwidth and latency of the links describe "
    "without flits",
    ("array", 8): HIDDEN,
    ("array", 128): HIDDEN,
}


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """A row for each size, source of compute times, and backend."""
    return [
        StudyRow(
            f"{torus} ({torus.npus} NPUs), {kind}",
            backend,
            printed(PRINTED[torus], "section V-F") if torus in PRINTED else drawn("Fig. 17"),
            exposed(kind, torus, backend),
            "%",
            WHY.get((kind, torus.npus), "no number printed: the share grows with the torus"),
        )
        for kind in ("published", "array")
        for torus in SIZES
        for backend in backends
    ]


STUDY = Study(
    "ResNet-50: exposed communication, 8 to 128 NPUs",
    "Rashidi et al., ASTRA-SIM, ISPASS 2020, Fig. 17 and section V-F",
    SETUP,
    rows,
)
