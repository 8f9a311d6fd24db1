"""Intervals around predictions, from residuals of measurements that no fit has seen.

Here: `residuals.py` (what is known of a prediction that was compared with a measurement),
`interval.py` (from residuals to an interval), `tables.py` (the residuals that ship with the
package, and how to write them). Not here: predictions, and what each fit left out
(`validation`). Model and source: docs/models/uncertainty.md."""

from .interval import LEVEL, Coverage, Factors, Interval, Intervals, calibrated, indistinct
from .residuals import Residual
from .tables import DIGITS, of, write

__all__ = [
    "DIGITS",
    "LEVEL",
    "Coverage",
    "Factors",
    "Interval",
    "Intervals",
    "Residual",
    "calibrated",
    "indistinct",
    "of",
    "write",
]
