"""Task graphs of other programs to workloads: FlexFlow's."""

from .flexflow import import_graph, is_graph

__all__ = ["import_graph", "is_graph"]
