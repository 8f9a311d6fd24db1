"""Synthetic traffic on the network of a platform: latency by load, and where it saturates.

Here: `traffic` (`run.py`), curves and their points (`curves.py`), patterns as users name them
(`patterns.py`) and the search for saturation (`saturation.py`). Not here: one load point and its
statistics, which are in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _late
from .run import traffic

if TYPE_CHECKING:
    from .curves import Curve, Point, Traffic, TrafficInterrupted
    from .flow_sizes import FlowSizes
    from .loads import loads_of
    from .patterns import Pattern

__all__ = [
    "Curve",
    "FlowSizes",
    "Pattern",
    "Point",
    "Traffic",
    "TrafficInterrupted",
    "loads_of",
    "traffic",
]

_CURVES = dict.fromkeys(("Curve", "Point", "Traffic", "TrafficInterrupted"), "curves")

__getattr__ = _late.attributes(
    __name__, {**_CURVES, "FlowSizes": "flow_sizes", "Pattern": "patterns", "loads_of": "loads"}
)
