"""The parts of a recommendation model's step, and its roofline, from a report.

Here: what each part costs.

Not here: which operations are a part of Eq. 1 of Neo (`estimate/roofline.py`), what a step consists
of (`workload/dlrm_flow.py`; `armillary_train/profile_ranges.py` gives recorded steps the same
names, so that both kinds of reports can be read), rooflines without a run (`plan/roofline.py`).

A part's cost is the time of a rank that is charged to it, mean over the ranks, so that costs and
idle time add up to the step. The parts of Eq. 1 are the times of the operations themselves, next to
others or not, mean over the ranks. Times of exchanges contain what ranks wait for each other."""

from __future__ import annotations

import re
from typing import Any

from ..estimate.roofline import StepParts, part, reported
from ..schema import Operation, Report, Roofline

_PARTS = (
    ("data", r"data"),
    ("inputs", r"inputs\..*"),
    ("lookup", r"embedding\.(forward|collect|spread)"),
    ("bottom MLP", r"bottom\..*"),
    ("interaction", r"interaction\..*|cross\..*"),
    ("top MLP", r"top\..*"),
    ("loss", r"loss\..*"),
    ("update", r"embedding\.weight_gradient(\.optimizer)?"),
    ("optimizer", r"optimizer|.*\.optimizer"),
    ("exchanges", r"exchange\..*"),
    ("scores", r"scores"),
    ("trainer", r"trainer|host"),
)
"""Parts of a step in their order, and the names of their operations."""
OTHER, IDLE = "other", "idle"


def of(report: Report) -> Roofline | None:
    """The roofline of a report; `None` for other models."""
    return roofline(report) if is_dlrm(report) else None


def is_dlrm(report: Report) -> bool:
    """Whether a report is of a recommendation model, generated or recorded."""
    names = {row["name"] for row in report["operations"]}
    return {"embedding.forward", "embedding.weight_gradient"} <= names


def parts(report: Report) -> dict[str, float]:
    """Part -> its cost in a step, ns; with idle time they add up to the step."""
    passes, found = _passes(report), dict.fromkeys((name for name, _ in _PARTS), 0.0)
    found[OTHER] = 0.0
    for row in report["operations"]:
        found[_part(row)] += row["cost_ns"] / report["ranks"] / passes
    step = report["step_time_ns"] / passes
    found[IDLE] = max(0.0, step - sum(found.values()))
    return found


def roofline(report: Report, samples: int = 0) -> Roofline:
    """Eq. 1 from a report's operations, ns; `samples` of a step, where the report does not say."""
    step = StepParts(**_times(report))
    measured = report["step_time_ns"] / _passes(report)
    return reported(step, samples or _samples(report) or None, measured)


def _samples(report: Report) -> int:
    summary: Any = report["config"]["workload"].get("summary") or {}
    return int(summary.get("batch") or 0)


def _passes(report: Report) -> int:
    """Iterations of a report. Lookups that are not fused are several in each."""
    each = {"lookup", "interaction_forward"}
    rows = (r for r in report["operations"] if part(r["name"], computed=_is_local(r)) in each)
    counts = [row["count"] for row in rows]
    return max(1, round(min(counts, default=1) / report["ranks"]))


def _part(row: Operation) -> str:
    if not _is_local(row):
        return "exchanges"
    if row["name"].endswith(".optimizer"):
        return "optimizer"
    return next((n for n, p in _PARTS if re.fullmatch(p, row["name"])), OTHER)


def _is_local(row: Operation) -> bool:
    return row["kind"] in ("compute", "host")


def _times(report: Report) -> dict[str, float]:
    """Mean times of a rank in a step for the parts of Eq. 1, ns."""
    found: dict[str, float] = {}
    for row in report["operations"]:
        name = part(row["name"], computed=_is_local(row))
        if name is not None:
            found[name] = found.get(name, 0.0) + row["total_ns"]
    steps = report["ranks"] * _passes(report)
    return {name: total / steps for name, total in found.items()}
