"""Explains what takes the time of a run, and why two runs differ.

Here: explanations (`explain`) and comparisons (`compare`), made of reports with their detail alone,
and what would help most (`whatif`), which simulates again. Not here: how they look (`report`),
simulating (`api`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _late

if TYPE_CHECKING:
    from .backend_comparison import LADDER, Ladder, rungs
    from .compare import compare, warnings_of
    from .compared_workloads import compare_workloads
    from .contents import contents, is_snapshot
    from .explanation import Comparison, Explanation, ExplanationInterrupted, Listing
    from .measured_log import against
    from .measured_memory import against_snapshots
    from .verdict import Verdict
    from .why import explain

__all__ = [
    "LADDER",
    "Comparison",
    "Explanation",
    "ExplanationInterrupted",
    "Ladder",
    "Listing",
    "Verdict",
    "against",
    "against_snapshots",
    "compare",
    "compare_workloads",
    "contents",
    "explain",
    "is_snapshot",
    "rungs",
    "warnings_of",
]

_HOMES = {
    **dict.fromkeys(("LADDER", "Ladder", "rungs"), "backend_comparison"),
    **dict.fromkeys(
        ("Comparison", "Explanation", "ExplanationInterrupted", "Listing"), "explanation"
    ),
    **dict.fromkeys(("compare", "warnings_of"), "compare"),
    "Verdict": "verdict",
    "compare_workloads": "compared_workloads",
    **dict.fromkeys(("contents", "is_snapshot"), "contents"),
    "against": "measured_log",
    "against_snapshots": "measured_memory",
    "explain": "why",
}

__getattr__ = _late.attributes(__name__, _HOMES)
