"""Times of single kernels: matrix products, attention, experts, streams.

The formulas are in `crates/kernels`, their parameters in `systems/parts/kernels`. The page is
docs/models/kernels.md."""

from __future__ import annotations

from .shapes import KINDS, Allreduce, Attention, Experts, Gemm, Mla, Shape, Stream
from .times import Time, one, origin, seconds

__all__ = [
    "KINDS",
    "Allreduce",
    "Attention",
    "Experts",
    "Gemm",
    "Mla",
    "Shape",
    "Stream",
    "Time",
    "one",
    "origin",
    "seconds",
]
