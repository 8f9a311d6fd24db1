"""Networks that other programs describe, as platform files.

Here: readers of NCCL topologies, `nvidia-smi topo -m`, InfraGraph, Slurm's `topology.conf` and
`ibnetdiscover`, one file for each format, and the platform file that is written. Not here: platform
files themselves (`platform`)."""

from .assumed import Assumed
from .imported import FORMATS, Imported, import_file

__all__ = ["FORMATS", "Assumed", "Imported", "import_file"]
