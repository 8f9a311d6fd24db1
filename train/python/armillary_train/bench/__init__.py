"""Micro-benchmarks of the machine that they run on, as PARAM has them."""

from __future__ import annotations

from .request import Request
from .run import bench

__all__ = ["Request", "bench"]
