"""Workloads: what the ranks do."""

from .program import Program
from .summary import Memory, RankClass, Summary, Volume
from .workload import Workload, load

__all__ = ["Memory", "Program", "RankClass", "Summary", "Volume", "Workload", "load"]
