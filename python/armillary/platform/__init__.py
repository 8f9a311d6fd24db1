"""Platforms: what the workload runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _late
from .platform import AnyPlatform, Platform
from .presets import presets

if TYPE_CHECKING:
    from .astra_sim import from_astra_sim
    from .gemm_table import GemmTable, read_gemm_table

__all__ = [
    "AnyPlatform",
    "GemmTable",
    "Platform",
    "from_astra_sim",
    "presets",
    "read_gemm_table",
]

_HOMES = {
    "from_astra_sim": "astra_sim",
    **dict.fromkeys(("GemmTable", "read_gemm_table"), "gemm_table"),
}

__getattr__ = _late.attributes(__name__, _HOMES)
