"""Recorded runs to programs: PyTorch execution traces and Kineto traces."""

from .coverage import Coverage, Omission
from .imported import Imported
from .run import import_traces

__all__ = ["Coverage", "Imported", "Omission", "import_traces"]
