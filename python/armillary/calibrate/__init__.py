"""Parameters of a communication library from measurements of one's own machine.

Not here: the model (`crates/sim/src/library`), the tables and the plot (`report/calibration.py`).
"""

from __future__ import annotations

from .case import Case
from .corrections import Correction
from .fit import Fit, Parameter, Residual, calibrate, fit
from .logs import Log, Table, read

__all__ = ["Case", "Correction", "Fit", "Log", "Parameter", "Residual", "Table", "calibrate", "fit", "read"]
