"""Sharding plans: which way each embedding table is cut, and on which rank each part is.

Here: costs (`costs.py`), the lower bound (`bound.py`), heuristics (`partition.py`), the search
(`search.py`), the choice by simulation (`choice.py`), `plan` (`run.py`). Not here: plans as data
and as files, and what a plan costs in the simulator (`model/sharding*.py`)."""

from __future__ import annotations

from .run import plan

__all__ = ["plan"]
