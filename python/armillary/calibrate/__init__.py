"""Parameters of a communication library from measurements of one's own machine.

Not here: the model (`crates/sim/src/library`), the tables and the plot (`report/calibration.py`).
"""

from __future__ import annotations

from .fit import Fit, Parameter, Residual, calibrate
from .logs import Log, Table, read

__all__ = ["Fit", "Log", "Parameter", "Residual", "Table", "calibrate", "read"]
