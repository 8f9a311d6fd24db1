"""Micro-benchmarks of the machine that they run on, as PARAM has them."""

from __future__ import annotations

from .run import Request, bench

__all__ = ["Request", "bench"]
