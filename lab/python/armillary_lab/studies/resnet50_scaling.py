"""Exposed communication of ResNet-50 from 8 to 128 NPUs (ISPASS 2020, Fig. 17)."""

from __future__ import annotations

from collections.abc import Sequence

from ..study import Study, StudyRow, drawn, printed, unreferenced
from .ispass import SETUP, Torus, exposed

PRINTED = {Torus(2, 2, 2): 4.1, Torus(2, 8, 8): 25.2}
"""Percent; section V-F names the ends of the figure only."""

SIZES = (Torus(2, 2, 2), Torus(2, 4, 2), Torus(2, 4, 4), Torus(2, 8, 4), Torus(2, 8, 8))

CHOICES: dict[str, dict[str, object]] = {
    "1 chunk": {"scheduler.chunks": 1},
    "16 chunks": {"scheduler.chunks": 16},
    "64 chunks": {"scheduler.chunks": 64},
    "16 chunks of a ring at once": {"scheduler.active_chunks": 64},
    "T = 1, P = 1": {"scheduler.dispatch_below": 1, "scheduler.dispatch_chunks": 1},
    "T = 1, P = 1, 64 chunks": {
        "scheduler.dispatch_below": 1,
        "scheduler.dispatch_chunks": 1,
        "scheduler.chunks": 64,
    },
    "LIFO in every queue": {"scheduler.dispatch_below": "unlimited"},
}
"""Changes by the rows of sensitivity in the largest torus."""

HIDDEN = (
    "32 samples compute 17 times as long as the published cycles of one, so every reduction hides"
)

UNPRINTED = "what the paper does not print, or prints without its meaning"

WHY = {
    (
        "published",
        8,
    ): "links alone hide all but the first layer's reduction; what else flits expose the paper "
    "doesn't say",
    (
        "published",
        128,
    ): "the paper prints neither the chunks nor how the queues of the phases are ordered: with "
    "other choices ours is anything in the rows below, so a close number proves little",
    ("array", 8): HIDDEN,
    ("array", 128): HIDDEN,
}


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """A row for each size, source of compute times, and backend."""
    found = [
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
    largest = SIZES[-1]
    return found + [
        StudyRow(
            f"{largest}, published, {name}",
            backends[0],
            unreferenced(),
            exposed("published", largest, backends[0], settings=settings),
            "%",
            UNPRINTED,
        )
        for name, settings in CHOICES.items()
    ]


STUDY = Study(
    SETUP,
    rows,
)
