"""Synthetic traffic on the network of a platform: latency by load, and where it saturates.

Here: `traffic` (`curves.py`), patterns as users name them (`patterns.py`) and the search for
saturation (`saturation.py`). Not here: one load point and its statistics, which are in the core."""

from __future__ import annotations

from .curves import Curve, Point, Traffic, TrafficInterrupted, traffic
from .loads import loads_of
from .patterns import Pattern

__all__ = ["Curve", "Pattern", "Point", "Traffic", "TrafficInterrupted", "loads_of", "traffic"]
