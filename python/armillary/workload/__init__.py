"""Workloads: what the ranks do."""

from .families import build
from .models import Model, load_model, models
from .program import Program
from .summary import Memory, RankClass, Summary, Volume
from .workload import Workload, load

__all__ = [
    "Memory",
    "Model",
    "Program",
    "RankClass",
    "Summary",
    "Volume",
    "Workload",
    "build",
    "load",
    "load_model",
    "models",
]
