"""Recorded loads: requests that others recorded, and results of benchmarks of serving.

    load = read_load("azure.csv", limit=1000, rate=4.0)

Here: the formats, one file for each. Not here: drawn loads (`load.py`)."""

from __future__ import annotations

from .formats import FORMATS, is_load, read_load

__all__ = ["FORMATS", "is_load", "read_load"]
