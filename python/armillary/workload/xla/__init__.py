"""Modules of XLA (HLO) as workloads: the program that a compiler made of a training step."""

from .covered import ModuleCoverage
from .importing import ImportedModule, Options, import_hlo, is_buffers, is_module

__all__ = [
    "ImportedModule",
    "ModuleCoverage",
    "Options",
    "import_hlo",
    "is_buffers",
    "is_module",
]
