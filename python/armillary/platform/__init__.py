"""Platforms: what the workload runs on."""

from .platform import Platform
from .presets import presets

__all__ = ["Platform", "presets"]
