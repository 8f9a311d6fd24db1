"""Workloads: what the ranks do."""

from .traces import Workload, load

__all__ = ["Workload", "load"]
