"""The page of what stragglers cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..report.chart import Chart
from ..report.page import Fact, Page, Section, Table
from ..report.quantity import share, time
from ..units import NS_PER_S, counted

if TYPE_CHECKING:
    from .stragglers import Part, Stragglers

_MOST = 20
"""Ranks and steps of a table."""
_RULE = (
    "Alone: the slowdown if the operations of this row last as recorded and all others as long as "
    "their kind does on average. Saved: the part of the lost time that equal operations of this "
    "row would save. Where several rows are slow at once, none saves what they save together."
)


def page(found: Stragglers) -> Page:
    """The page of what stragglers cost."""
    return Page(
        title="Stragglers",
        verdict=_verdict(found),
        lead=(
            f"{counted(len(found.steps), 'step')} of {counted(found.dp, 'data-parallel rank')} in "
            f"{counted(found.stages, 'stage')}, {found.operations:,} operations. Without "
            "stragglers, an operation takes the mean time of its kind (communication: the median)."
        ),
        facts=[
            Fact("Slowdown by stragglers", f"{found.slowdown:.3f}"),
            Fact("Recorded step", _time(found.recorded_s), "mean"),
            Fact("Replayed step", _time(found.replayed_s), "without waits for launches and data"),
            Fact("Without stragglers", _time(found.ideal_s)),
            Fact("Slowdown by launches", f"{found.launch_slowdown:.3f}", "and loading of data"),
        ],
        warnings=found.warnings,
        sections=[
            Section("Causes", [_parts("Kinds of operations", found.kinds), _RULE]),
            Section(
                "Places",
                [
                    _parts("Stages", found.stages_by_slowdown),
                    _parts("Data-parallel ranks", found.dp_ranks),
                    *([_parts("Ranks", found.ranks)] if found.ranks else []),
                ],
            ),
            Section("Steps", [_chart(found), _steps(found)]),
        ],
    )


def _verdict(found: Stragglers) -> str:
    kind, stage = found.kinds[0], found.stages_by_slowdown[0]
    said = f"Stragglers make the steps {found.slowdown - 1:.1%} slower."
    if found.slowdown <= 1:
        return "Stragglers do not make the steps slower."
    said += f" The worst kind of operation is {kind.name}, which saves {share(kind.share)} if equal"
    if found.stages > 1:
        said += f"; the worst stage is {stage.name.removeprefix('stage ')} ({share(stage.share)})"
    if found.ranks and found.dp > 1:
        rank = found.ranks[0]
        said += f"; the worst rank is {rank.name} ({share(rank.share)})"
    return f"{said}."


def _time(seconds: float) -> str:
    return time(seconds * NS_PER_S)


def _parts(title: str, parts: Sequence[Part]) -> Table:
    rows = [[part.name, f"{part.slowdown:.4f}", f"{part.share:.1%}"] for part in parts[:_MOST]]
    left = len(parts) - _MOST
    note = f"The {_MOST} slowest of {len(parts):,}." if left > 0 else ""
    return Table(title, ("Name", "Alone", "Saved"), rows, note, labels=1)


def _steps(found: Stragglers) -> Table:
    rows = [
        [str(step.number), _time(step.recorded_s), f"{step.slowdown:.4f}"]
        for step in found.steps[:_MOST]
    ]
    note = f"The {_MOST} slowest of {len(found.steps):,}." if len(found.steps) > _MOST else ""
    return Table("Slowest steps", ("Step", "Recorded", "Slowdown"), rows, note, labels=1)


def _chart(found: Stragglers) -> Chart:
    records: list[dict[str, Any]] = [
        {"step": step.number, "slowdown": round(step.slowdown, 6)}
        for step in sorted(found.steps, key=lambda each: each.number)
    ]
    up = {"field": "slowdown", "type": "quantitative", "scale": {"zero": False}}
    across = {"field": "step", "type": "quantitative", "scale": {"zero": False}}
    tooltip = [{"field": "step"}, {"field": "slowdown", "format": ".4f"}]
    encoding = {"x": across, "y": up, "tooltip": tooltip}
    spec = {"height": 240, "mark": {"type": "line", "point": True}, "encoding": encoding}
    return Chart("slowdown", "Slowdown of each step", records, spec, "")
