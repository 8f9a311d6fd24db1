"""Times of single kernels: matrix products, attention, experts and their
exchanges, streams.

The formulas are in `crates/kernels`, their parameters in `systems/parts/kernels`. Tables of
measured kernels (`tables/`) become a file of a platform (`imported.py`, `measured_file.py`), and
times between them are interpolated (`interpolated.py`). The page is docs/models/kernels.md."""

from __future__ import annotations

from .shapes import (
    KINDS,
    Allreduce,
    Attention,
    Combine,
    Dispatch,
    Experts,
    Gemm,
    Mla,
    Shape,
    Stream,
)
from .times import Basis, Time, measured_kernels, one, origin, seconds

__all__ = [
    "KINDS",
    "Allreduce",
    "Attention",
    "Basis",
    "Combine",
    "Dispatch",
    "Experts",
    "Gemm",
    "Mla",
    "Shape",
    "Stream",
    "Time",
    "measured_kernels",
    "one",
    "origin",
    "seconds",
]
