"""Platforms: what the workload runs on."""

from .astra_sim import from_astra_sim
from .gemm_table import GemmTable, read_gemm_table
from .platform import AnyPlatform, Platform
from .presets import presets

__all__ = [
    "AnyPlatform",
    "GemmTable",
    "Platform",
    "from_astra_sim",
    "presets",
    "read_gemm_table",
]
