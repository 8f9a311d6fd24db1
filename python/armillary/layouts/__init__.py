"""The best layout of a model on a platform: a space of layouts, searched (`search`)."""

from .search import search

__all__ = ["search"]
