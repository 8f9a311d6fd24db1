"""Workloads: what the ranks do.

The generators are loaded with the first model: a workload of a file needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _late

if TYPE_CHECKING:
    from ..model.files import Model, load_model, models
    from .captured import captured
    from .cnn import cnn
    from .dlrm import dlrm
    from .families import build, needed_memory
    from .layerwise import layerwise
    from .moe import moe
    from .program import Program
    from .source import is_model, load
    from .summary import Memory, RankClass, Summary, Volume
    from .transformer import footprints, transformer
    from .workload import Workload

_HOMES = {
    **{family: family for family in ("cnn", "dlrm", "layerwise", "moe", "transformer")},
    **dict.fromkeys(("Memory", "RankClass", "Summary", "Volume"), "summary"),
    **dict.fromkeys(("Model", "load_model", "models"), ".model.files"),
    **dict.fromkeys(("build", "needed_memory"), "families"),
    **dict.fromkeys(("is_model", "load"), "source"),
    "captured": "captured",
    "Program": "program",
    "Workload": "workload",
    "footprints": "transformer",
}

__all__ = [
    "Memory",
    "Model",
    "Program",
    "RankClass",
    "Summary",
    "Volume",
    "Workload",
    "build",
    "captured",
    "cnn",
    "dlrm",
    "footprints",
    "is_model",
    "layerwise",
    "load",
    "load_model",
    "models",
    "moe",
    "needed_memory",
    "transformer",
]

__getattr__ = _late.attributes(__name__, _HOMES)
