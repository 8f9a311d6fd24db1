"""Intervals around predictions, from residuals of measurements that no fit has seen.

Here: `residuals.py` (what is known of a prediction that was compared with a measurement),
`interval.py` (from residuals to an interval), `coverage.py` (how many measurements lie within, and
how sure that is), `tables.py` (the residuals that ship with the
package, and how to write them). Not here: predictions, and what each fit left out
(`armillary_lab.fit`). Model and source: docs/models/uncertainty.md."""

from .coverage import GOAL, Coverage, counted
from .interval import LEVEL, Factors, Interval, Intervals, alike, calibrated, coverage, indistinct
from .residuals import Residual
from .tables import DIGITS, of, write

__all__ = [
    "DIGITS",
    "GOAL",
    "LEVEL",
    "Coverage",
    "Factors",
    "Interval",
    "Intervals",
    "Residual",
    "alike",
    "calibrated",
    "counted",
    "coverage",
    "indistinct",
    "of",
    "write",
]
