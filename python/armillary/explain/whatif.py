"""Changes that would help most: the same run again with one thing changed. The number of runs is
bounded, and so is their time.

Where a change alters the batch, steps are compared for the same number of samples. Not here: what
can be changed (`changes.py`, `workload_changes.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ..errors import ArmillaryError
from ..estimate.report_detail import detail
from ..repeat import Again, Unrepeatable
from ..report.page import Part, Section, Table
from ..report.quantity import time
from ..schema import Collective, Report
from ..units import counted
from . import charts, workload_changes
from .changes import Change, applying, impossible
from .rows import pattern

MOST = 40
"""Runs at most."""
_SLACK = 1 + 1e-6
_OTHER_BATCHES = (
    "Steps of another number of samples are compared by the time of a sample. A larger global "
    "batch also changes how the model learns."
)
_FELT = 5e-5
"""Relative change from which an effect is not 0.00 %."""
_SHOWN = 20
"""Changes drawn; the table has all."""


@dataclass(frozen=True)
class Effect:
    """Effect of a change on the step, and on the operation that was asked for, ns.

    `samples` of the step are `work` times those of the run."""

    change: Change
    step_ns: float
    operation_ns: float | None
    samples: int | None = None
    work: float = 1.0

    @property
    def same_ns(self) -> float:
        """Time for the samples of a step of the run, ns."""
        return self.step_ns / self.work

    def as_dict(self, now: float) -> dict[str, Any]:
        """The effect as data for JSON; `elasticity` is the relative gain for the relative change of
        a derivative."""
        gain = now - self.same_ns
        share = gain / now if now else 0.0
        return {
            "change": self.change.what,
            "settings": dict(self.change.settings),
            "options": dict(self.change.options),
            "command": self.change.command,
            "fits": self.change.fits,
            "derivative": self.change.derivative,
            "step_ns": self.step_ns,
            "samples": self.samples,
            "same_samples_ns": self.same_ns,
            "operation_ns": self.operation_ns,
            "gain_ns": gain,
            "elasticity": share / 0.1 if self.change.derivative else None,
        }


@dataclass(frozen=True)
class WhatIf:
    """Effects, the largest gain first, and why there are no more."""

    effects: Sequence[Effect]
    left_out: Sequence[str]
    stop: KeyboardInterrupt | None = None
    """The Ctrl-C that ended the runs early."""


def effects(
    report: Report,
    again: Again | Unrepeatable,
    row: Collective | None = None,
    seconds: float = 20.0,
    progress: Callable[[float, float], None] | None = None,
) -> WhatIf:
    """Runs again for every change that applies, for about `seconds`; `again` is text where it can't
    be, and why. Changes of workload and platform take turns, the most promising first.

    With `row` only changes that affect it are tried, and its own time is kept, too.
    """
    if isinstance(again, Unrepeatable):
        return WhatIf([], [again.sentence])
    options, most = workload_changes.applying(report) if row is None else ([], [])
    wanted = workload_changes.ordered(options, applying(report, row))
    most += impossible(report)
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
    the run warns of that. A Ctrl-C ends the runs; what is known by then stays."""
    found, reasons, begin = [], list(left_out), monotonic()
    stop: KeyboardInterrupt | None = None
    for done, change in enumerate(wanted):
        if done and monotonic() - begin > seconds:
            reasons.append(
                f"{len(wanted) - done} changes: the others took {monotonic() - begin:.0f} s"
            )
            break
        try:
            if progress:
                progress(done / len(wanted), 0.0)
            other = again(change.settings, row is not None, change.options)
        except ArmillaryError as error:
            reasons.append(f"{change.label}: {error.problems[0].message}")
            continue
        except KeyboardInterrupt as found_stop:
            reasons.append(f"{counted(len(wanted) - done, 'change')}: the run was interrupted")
            stop = found_stop
            break
        warning = None if change.fits == "near" else _unfounded(report, other)
        if warning:
            reasons.append(f"{change.label}: {warning}")
        else:
            found.append(_effect(change, report, other, row))
    return WhatIf(sorted(found, key=lambda effect: _place(effect, row)), reasons, stop)


def _place(effect: Effect, row: Collective | None) -> tuple[bool, float]:
    """Rank of an effect: what may not fit comes last."""
    return effect.change.fits == "near", _key(effect, row)


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
        else effect.same_ns
    )


def _effect(change: Change, report: Report, other: Report, row: Collective | None) -> Effect:
    step = other["step_time_ns"]
    if row is None:
        now, then = _samples(report), _samples(other)
        return Effect(change, step, None, then, then / now if now and then else 1.0)
    same = [each for each in detail(other)["collectives"] if same_operation(each, row)]
    return Effect(change, step, same[0]["mean_ns"] if same else None)


def _samples(report: Report) -> int | None:
    """Samples of a step, where the workload says so."""
    batch: int | None = (report["config"]["workload"].get("summary") or {}).get("batch")
    return batch or None


def same_operation(a: Collective, b: Collective) -> bool:
    """Whether two rows, of two runs, are of the same operation."""
    return all(a[key] == b[key] for key in ("name", "kind", "bytes", "ranks"))


def section(report: Report, found: WhatIf, row: Collective | None) -> Section:
    """Section that shows the simulated changes."""
    now = row["mean_ns"] if row is not None else report["step_time_ns"]
    felt = [effect for effect in found.effects if _is_felt(effect, report, row)]
    rows = [_row(effect, report, row, _mixed(found)) for effect in felt]
    parts: list[Part] = []
    better = [
        effect
        for effect in found.effects
        if effect.change.fits != "near" and _key(effect, row) < now * (1 - 1e-6)
    ]
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
    if found.effects:
        parts.append(
            f"Tried: {counted(len(found.effects), 'change')}, each in a run of its own; at most "
            f"{MOST} are tried."
        )
    unfelt = [each.change.label for each in found.effects if each not in felt]
    parts += [f"No effect: {'; '.join(unfelt)}."] if unfelt else []
    parts += [f"Left out: {reason}." for reason in found.left_out]
    if rows:
        tried = [
            (each.change.command or each.change.what, now - _key(each, row), each.change.kind)
            for each in felt[:_SHOWN]
        ]
        parts.append(charts.gains(tried, now, "Operation" if row is not None else "Step"))
        parts += [_OTHER_BATCHES] * _mixed(found)
        parts.append(Table("One change at a time, simulated again", _columns(found, row), rows))
    return Section("What would help", parts)


def _is_felt(effect: Effect, report: Report, row: Collective | None) -> bool:
    """Whether an effect on the step, or on the operation, is not 0.00 %."""
    pairs = [(effect.same_ns, report["step_time_ns"])]
    if row is not None and effect.operation_ns is not None:
        pairs.append((effect.operation_ns, row["mean_ns"]))
    return any(abs(new - old) >= _FELT * old for new, old in pairs)


def _mixed(found: WhatIf) -> bool:
    """Whether some changes alter the number of samples of a step."""
    return any(effect.work != 1.0 for effect in found.effects)


def _columns(found: WhatIf, row: Collective | None) -> tuple[str, ...]:
    if row is not None:
        return ("Change", "This operation", "Its effect", "Step", "Effect")
    return ("Change", "Step", *["A sample"] * _mixed(found), "Effect")


def said(effect: Effect, now: float, digits: int = 1) -> str:
    """The new time of the step instead of the one `now`; of a sample, where the batch differs."""
    percent = _percent(effect.same_ns, now, digits)
    if effect.work == 1.0 or not effect.samples:
        return f"{time(effect.step_ns)} instead of {time(now)} ({percent})"
    each, before = effect.step_ns / effect.samples, now * effect.work / effect.samples
    return f"{time(each)} a sample instead of {time(before)} ({percent})"


def _said(effect: Effect, row: Collective | None, now: float) -> str:
    if row is None:
        return f"{effect.change.label}: {said(effect, now, 2)}"
    new = _key(effect, row)
    return f"{effect.change.label}: {time(new)} instead of {time(now)} ({_percent(new, now)})"


def _row(effect: Effect, report: Report, row: Collective | None, mixed: bool) -> tuple[str, ...]:
    percent = _percent(effect.same_ns, report["step_time_ns"])
    if row is None:
        each = [time(effect.step_ns / effect.samples) if effect.samples else "-"] * mixed
        return (effect.change.label, time(effect.step_ns), *each, percent)
    own = (
        ("-", "")
        if effect.operation_ns is None
        else (time(effect.operation_ns), _percent(effect.operation_ns, row["mean_ns"]))
    )
    return (effect.change.label, *own, time(effect.step_ns), percent)


def _percent(new: float, old: float, digits: int = 2) -> str:
    return f"{(new / old - 1) * 100:+.{digits}f} %" if old else ""
