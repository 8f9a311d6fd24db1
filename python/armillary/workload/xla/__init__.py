"""Modules of XLA (HLO) as workloads: the program that a compiler made of a training step."""

from .covered import ModuleCoverage
from .importing import ImportedModule, Options, import_hlo, is_buffers, is_module
from .module import DamagedError
from .named import NamedModule, NamedOp, from_text, kind_of, split
from .profile import PLANES, is_profile

__all__ = [
    "PLANES",
    "DamagedError",
    "ImportedModule",
    "ModuleCoverage",
    "NamedModule",
    "NamedOp",
    "Options",
    "from_text",
    "import_hlo",
    "is_buffers",
    "is_module",
    "is_profile",
    "kind_of",
    "split",
]
