"""How far off a step may be: the interval of a report, from steps of sources that no fit has seen.

Here: the labels of a report, and the words. Not here: intervals (`armillary.uncertainty`), where
their residuals come from (`armillary_lab.fit.steps_of_unseen_sources`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..report.quantity import time
from ..schema import Report
from ..step_parts import PARTS

if TYPE_CHECKING:
    from ..uncertainty import Interval

TUNED = "a tuned recipe that spreads tokens evenly; a first run takes longer (--imbalance)"
"""Assumption about the steps of models with experts (docs/models/moe.md)."""


def interval(report: Report) -> Interval | None:
    """The interval of a language model's step. `None` for other workloads: no fit left their steps
    out."""
    config: Any = report["config"]
    summary = config["workload"].get("summary")
    if not summary:
        return None
    from ..uncertainty import steps

    model = config["workload"].get("model") or {}
    options = model.get("options") or {}
    return steps.interval(
        str(config["platform"]["npu"].get("name")),
        str(options.get("precision", "bf16")),
        str(summary.get("family")),
        report["ranks"],
        stated=bool(options.get("framework")),
        uneven=_uneven(report),
        adapters=bool(options.get("lora_rank")),
    )


def data(report: Report) -> dict[str, Any] | None:
    """The interval as numbers."""
    found = interval(report)
    if found is None:
        return None
    most = dominant(report)
    low, high = found.of(report["step_time_ns"])
    return {
        "low_ns": low,
        "high_ns": high,
        "level": found.level,
        "origin": found.origin,
        "extrapolated": list(found.outside),
        "assumed": [TUNED] if _experts(report) and not _uneven(report) else [],
        "dominant": most[0] if most else None,
    }


def sentence(report: Report) -> str | None:
    """The interval as a line: times, the level, and what was extrapolated."""
    found = interval(report)
    if found is None:
        return None
    low, high = found.of(report["step_time_ns"])
    like = "like this one" if not _unseen(found) else "on hardware that no fit has seen"
    known = f"{100 * found.level:.0f} % of measured steps {like} would be within"
    beyond = f"; extrapolated: {', '.join(found.outside)}" if found.outside else ""
    recipe = f"; assumed: {TUNED}" if _experts(report) and not _uneven(report) else ""
    return f"{known} {time(low)} to {time(high)}{beyond}{recipe}"


def _experts(report: Report) -> bool:
    return (report["config"]["workload"].get("summary") or {}).get("family") == "moe"


def _uneven(report: Report) -> bool:
    """Whether the workload states that some experts get more tokens than others."""
    model: Any = report["config"]["workload"].get("model") or {}
    options = model.get("options") or {}
    return _experts(report) and float(options.get("imbalance") or 1.0) > 1.0


def _unseen(found: Interval) -> bool:
    """Whether no measured step has this hardware."""
    return any(each.startswith("gpu ") for each in found.outside)


def dominant(report: Report) -> tuple[str, float] | None:
    """The part of the step that moves the interval most, and its share of the step: the largest,
    because parts are off by similar factors."""
    step = report["step_time_ns"]
    ranks = sum(each["count"] for each in report["classes"])
    if not step or not ranks:
        return None
    means = {
        part.label: sum(each[part.field] * each["count"] for each in report["classes"]) / ranks  # type: ignore[literal-required]
        for part in PARTS
    }
    name = max(means, key=lambda label: means[label])
    return name, means[name] / step


def indistinct(a: Report, b: Report) -> bool:
    """Whether b's step lies within the interval of a's, or a's within b's."""
    first, second = interval(a), interval(b)
    before, after = a["step_time_ns"], b["step_time_ns"]
    if first is None or second is None or not before or not after:
        return False
    from ..uncertainty import indistinct as overlap

    return overlap(after / before, first.factors, second.factors)
