"""Platforms: what the workload runs on."""

from .gemm_table import GemmTable, read_gemm_table
from .platform import Platform
from .presets import presets

__all__ = ["GemmTable", "Platform", "presets", "read_gemm_table"]
