"""Networks that other programs describe, as platform files.

Here: readers of NCCL topologies, of `nvidia-smi topo -m` and of InfraGraph, one file for each
format, and the platform file that is written. Not here: platform files themselves (`platform`)."""

from .assumed import Assumed
from .imported import FORMATS, Imported, import_file

__all__ = ["FORMATS", "Assumed", "Imported", "import_file"]
