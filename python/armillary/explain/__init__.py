"""Explains what takes the time of a run, and why two runs differ.

Here: explanations (`explain`) and comparisons (`compare`), made of reports with their detail alone,
and what would help most (`whatif`), which simulates again. Not here: how they look (`report`),
simulating (`api`)."""

from __future__ import annotations

from .backend_comparison import LADDER, Ladder, rungs
from .backend_comparison import page as ladder_page
from .compare import compare, warnings_of
from .explanation import Comparison, Explanation, ExplanationInterrupted
from .verdict import Verdict
from .why import explain

__all__ = [
    "LADDER",
    "Comparison",
    "Explanation",
    "ExplanationInterrupted",
    "Ladder",
    "Verdict",
    "compare",
    "explain",
    "ladder_page",
    "rungs",
    "warnings_of",
]
