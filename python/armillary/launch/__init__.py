"""Launch flags and configurations of training frameworks, read and written.

    launched = read("run.sh")                       # a job that runs today, in our words
    text = export("llama-3-70b", {"tp": 8}, "megatron")   # flags that give a layout

Here: the formats, one file for each framework. Not here: what the options mean
(`workload/parallelism.py`)."""

from __future__ import annotations

from .formats import EXPORTS, READERS, export, read
from .launched import Launched

__all__ = ["EXPORTS", "READERS", "Launched", "export", "read"]
