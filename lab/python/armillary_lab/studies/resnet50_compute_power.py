"""Exposed communication of ResNet-50 at 0.5 to 4 times the compute power (ISPASS 2020, Fig.
18)."""

from __future__ import annotations

from collections.abc import Sequence

from ..study import Study, StudyRow, drawn, printed
from .ispass import SETUP, Torus, exposed

TORUS = Torus(2, 4, 4)
"""The network of Figs. 14 to 16; Fig. 18 names none."""

POWERS = (0.5, 1.0, 2.0, 4.0)

WHY = {
    "published": "no number printed: twice the compute power leaves half the time to hide the "
    "same reductions",
    "array": "no number printed: 32 samples compute 17 times as long as the published cycles of "
    "one, so all hides",
}
BELOW = "enough compute to hide every reduction but the first layer's, which comes last"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """A row for each compute power, source of compute times, and backend."""
    return [
        StudyRow(
            f"{power:g}x compute, {kind}",
            backend,
            printed(1.0, "section V-F", "<") if power == 0.5 else drawn("Fig. 18"),
            exposed(kind, TORUS, backend, power),
            "%",
            BELOW if power == 0.5 else WHY[kind],
        )
        for kind in ("published", "array")
        for power in POWERS
        for backend in backends
    ]


STUDY = Study(
    SETUP + " The torus is 2x4x4, that of Figs. 14 to 16: Fig. 18 names none.",
    rows,
)
