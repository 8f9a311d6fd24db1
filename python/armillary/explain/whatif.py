"""What would help most: the same run again with one thing changed. The number of runs is bounded,
and so is their time.

Not here: what can be changed (`changes.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ..errors import ArmillaryError
from ..repeat import Again, Unrepeatable
from ..report.page import Part, Section, Table
from ..report.quantity import time
from ..schema import Collective, Report
from . import charts
from .changes import Change, applying, impossible
from .rows import detail, pattern

MOST = 40
"""Runs at most."""
_SLACK = 1 + 1e-6
_SHOWN = 20
"""Changes drawn; the table has all."""


@dataclass(frozen=True)
class Effect:
    """What a change would do to the step, and to the operation that was asked for, ns."""

    change: Change
    step_ns: float
    operation_ns: float | None

    def as_dict(self, now: float) -> dict[str, Any]:
        """For JSON; `elasticity` is the relative gain for the relative change of a derivative."""
        gain = now - self.step_ns
        share = gain / now if now else 0.0
        return {
            "change": self.change.what,
            "settings": dict(self.change.settings),
            "derivative": self.change.derivative,
            "step_ns": self.step_ns,
            "operation_ns": self.operation_ns,
            "gain_ns": gain,
            "elasticity": share / 0.1 if self.change.derivative else None,
        }


@dataclass(frozen=True)
class WhatIf:
    """Effects, the largest gain first, and why there are no more."""

    effects: Sequence[Effect]
    left_out: Sequence[str]


def effects(
    report: Report,
    again: Again | Unrepeatable,
    row: Collective | None = None,
    seconds: float = 20.0,
    progress: Callable[[float, float], None] | None = None,
) -> WhatIf:
    """Runs again for every change that applies, for about `seconds`; `again` is text where it can't
    be, and why.

    With `row` only changes that affect it are tried, and its own time is kept, too.
    """
    if isinstance(again, Unrepeatable):
        return WhatIf([], [again.sentence])
    wanted, most = list(applying(report, row)), [*impossible(report)]
    if len(wanted) > MOST:
        most.append(f"{len(wanted) - MOST} more changes: at most {MOST} are tried")
    return run(report, again, wanted[:MOST], row, seconds, progress, most)


def run(
    report: Report,
    again: Again,
    wanted: Sequence[Change],
    row: Collective | None = None,
    seconds: float = math.inf,
    progress: Callable[[float, float], None] | None = None,
    left_out: Sequence[str] = (),
) -> WhatIf:
    """Runs again for each change that is `wanted`, for about `seconds`. What can't run is left out,
    with the reason.

    Changes are also left out if they only look better because the network model ignores their cost:
    the run warns of that."""
    found, reasons, begin = [], list(left_out), monotonic()
    for done, change in enumerate(wanted):
        if done and monotonic() - begin > seconds:
            reasons.append(
                f"{len(wanted) - done} changes: the others took {monotonic() - begin:.0f} s"
            )
            break
        if progress:
            progress(done / len(wanted), 0.0)
        try:
            other = again(change.settings, row is not None)
        except ArmillaryError as error:
            reasons.append(f"{change.what}: {error.problems[0].message}")
            continue
        if warning := _unfounded(report, other):
            reasons.append(f"{change.what}: {warning}")
        else:
            found.append(_effect(change, other, row))
    return WhatIf(sorted(found, key=lambda effect: _key(effect, row)), reasons)


def _unfounded(report: Report, other: Report) -> str | None:
    """The warning of a changed run that this run has not, or of a link that carries more than it
    can, and more here."""
    known = {pattern(warning) for warning in report["warnings"]}
    for before, after in zip(report["dimensions"], other["dimensions"], strict=True):
        if after["utilisation"] > max(1.0, before["utilisation"]) * _SLACK:
            return (
                f"{after['name']} would have to carry {after['utilisation']:.2f} times what its "
                "links can"
            )
    return next((warning for warning in other["warnings"] if pattern(warning) not in known), None)


def _key(effect: Effect, row: Collective | None) -> float:
    return (
        effect.operation_ns
        if row is not None and effect.operation_ns is not None
        else effect.step_ns
    )


def _effect(change: Change, report: Report, row: Collective | None) -> Effect:
    if row is None:
        return Effect(change, report["step_time_ns"], None)
    same = [other for other in detail(report)["collectives"] if same_operation(other, row)]
    return Effect(change, report["step_time_ns"], same[0]["mean_ns"] if same else None)


def same_operation(a: Collective, b: Collective) -> bool:
    """Whether two rows, of two runs, are of the same operation."""
    return all(a[key] == b[key] for key in ("name", "kind", "bytes", "ranks"))


def section(report: Report, found: WhatIf, row: Collective | None) -> Section:
    """What is said about it."""
    now = row["mean_ns"] if row is not None else report["step_time_ns"]
    rows = [_row(effect, report, row) for effect in found.effects]
    parts: list[Part] = []
    better = [effect for effect in found.effects if _key(effect, row) < now * (1 - 1e-6)]
    best, slope = (
        next(iter(better), None),
        next((effect for effect in better if effect.change.derivative), None),
    )
    if slope is not None:
        parts.append(f"The most effective change by 10 %: {_said(slope, row, now)}.")
    if best is not None and best is not slope:
        parts.append(f"The most effective change of all: {_said(best, row, now)}.")
    if found.effects and best is None:
        parts.append("None of these changes makes it faster.")
    parts += [f"Left out: {reason}." for reason in found.left_out]
    if rows:
        tried = [
            (each.change.what, now - _key(each, row), each.change.derivative)
            for each in found.effects[:_SHOWN]
        ]
        parts.append(charts.gains(tried, now, "Operation" if row is not None else "Step"))
        columns = ("Change", *(("This operation", "") if row is not None else ()), "Step", "")
        parts.append(Table("One change at a time, simulated again", columns, rows))
    return Section("What would help", parts)


def _said(effect: Effect, row: Collective | None, now: float) -> str:
    new = _key(effect, row)
    return f"{effect.change.what}: {time(new)} instead of {time(now)} ({_percent(new, now)})"


def _row(effect: Effect, report: Report, row: Collective | None) -> tuple[str, ...]:
    step = (time(effect.step_ns), _percent(effect.step_ns, report["step_time_ns"]))
    if row is None:
        return (effect.change.what, *step)
    own = (
        ("-", "")
        if effect.operation_ns is None
        else (time(effect.operation_ns), _percent(effect.operation_ns, row["mean_ns"]))
    )
    return (effect.change.what, *own, *step)


def _percent(new: float, old: float) -> str:
    return f"{(new / old - 1) * 100:+.2f} %" if old else ""
