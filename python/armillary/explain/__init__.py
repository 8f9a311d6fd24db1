"""Explains what takes the time of a run, and why two runs differ.

Here: explanations (`explain`) and comparisons (`compare`), made of reports with their detail alone,
and what would help most (`whatif`), which simulates again. Not here: how they look (`report`),
simulating (`api`)."""

from __future__ import annotations

from .compare import compare
from .explanation import Comparison, Explanation
from .verdict import Verdict
from .why import explain

__all__ = ["Comparison", "Explanation", "Verdict", "compare", "explain"]
