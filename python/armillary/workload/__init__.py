"""Workloads: what the ranks do."""

from ..model.files import Model, load_model, models
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

__all__ = [
    "Memory",
    "Model",
    "Program",
    "RankClass",
    "Summary",
    "Volume",
    "Workload",
    "build",
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
