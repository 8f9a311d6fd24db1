"""The best layout of a model on a platform: a space of layouts, searched (`search`)."""

from .measured_file import MeasuredStep
from .search import search

__all__ = ["MeasuredStep", "search"]
