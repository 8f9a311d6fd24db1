"""The verdict on a run in one sentence: what bounds its step, what would help most, and by how
much.

Model: the critical path says what the step takes as long as (without a log, what the mean NPU's
time goes to); the same run with one thing changed at a time says what would help. How many changes
are tried depends on the report alone, so that the same run has the same verdict. Not here: what can
be changed (`changes.py`, `workload_changes.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..estimate.report_detail import detail
from ..platform.platform import fit_limits
from ..repeat import Again, Unrepeatable
from ..report.plain_names import words
from ..report.quantity import share, size
from ..schema import PathOperation, Report
from ..step_parts import PARTS
from .rows import unsaid

if TYPE_CHECKING:
    from . import changes, whatif

_BOUND = 0.5
"""Share from which something bounds the step, and does not only take most of it."""
_WAITING = 0.1
"""Share of the step by which the mean NPU computes less than the critical path, from which that is
said."""
_WORTH = 1e-3
"""Smallest relative gain that counts."""
_MUCH = 1e-2
"""Relative gain from which an option of the workload comes before changes of the platform."""
_RUNS = ((2_000_000, 6), (20_000_000, 4))
"""Operations and messages to be simulated, and how many changes are tried of runs with no more."""
_FEWEST = 2
_SUBJECTS = {part.bound.name: part.bound.subject for part in PARTS}
_KINDS = {
    kind: part.bound.name for part in PARTS if part.doing is not None for kind in part.doing.kinds
}
"""Limits of a step, for each kind of segment of the critical path; all other kinds are
communication."""


@dataclass(frozen=True)
class Verdict:
    """One sentence for a person, and what it says as data."""

    sentence: str
    facts: Mapping[str, Any]
    """`bound` (compute, communication, memory, hosts, waiting), its `share` of the step, the
    largest `operation` and `operation_share`, `fits` as in the report, and `helps`: the best change
    as in `armillary.explanation/1`, or null."""


def verdict(
    report: Report,
    again: Again | Unrepeatable | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Verdict:
    """The verdict on a report. `again` repeats its run with some keys of the platform set, a few
    times.

    Without `again`, or where the run can't be repeated, and for a report without detail,
    nothing is said of what would help."""
    if (
        again is None
        or isinstance(again, Unrepeatable)
        or not _has_detail(report)
        or unsaid(report)
    ):
        return of(report, None)
    from . import whatif

    found = whatif.run(report, again, _wanted(report), progress=progress)
    if found.stop is not None:
        raise found.stop
    return of(report, found)


def _wanted(report: Report) -> list[changes.Change]:
    """The changes to try: up to half of them of the workload, the others of the platform."""
    from . import changes, workload_changes

    most = _runs(report)
    options = workload_changes.likeliest(report, most // 2)
    return [*options, *changes.likeliest(report, most - len(options))]


def of(report: Report, found: whatif.WhatIf | None) -> Verdict:
    """The verdict, with what was tried already."""
    parts = _shares(report)
    bound = max(parts, key=lambda part: parts[part], default="")
    if not bound or not report["step_time_ns"]:
        return Verdict("Nothing takes any time.", {"bound": None, "helps": None})
    operation = _largest(report, bound)
    best = _best(report, found)
    said = [
        _lacks_memory(report),
        _bounds(report, bound, parts[bound], operation),
        *_helps(report, found, best),
    ]
    now = report["step_time_ns"]
    facts = {
        "bound": bound,
        "share": parts[bound],
        "operation": operation["name"] if operation else None,
        "operation_share": operation["ns"] / now if operation else None,
        "fits": report.get("fits"),
        "helps": best.as_dict(now) if best else None,
    }
    sentence = "; ".join(part for part in said if part)
    return Verdict(f"{sentence[:1].upper()}{sentence[1:]}.", facts)


def _has_detail(report: Report) -> bool:
    return report["detail"] is not None


def _runs(report: Report) -> int:
    """How many changes are tried: fewer of runs that take long."""
    from . import workload_changes

    amount = workload_changes.simulated(report)
    return next((runs for most, runs in _RUNS if amount <= most), _FEWEST)


def _shares(report: Report) -> dict[str, float]:
    """The shares of the step by what bounds it: on the critical path, else of the mean NPU."""
    step = report["step_time_ns"] or 1.0
    sums: dict[str, float] = {}
    if _has_detail(report):
        for kind in detail(report)["critical_path"]["by_kind"]:
            name = _KINDS.get(kind["name"], "communication")
            sums[name] = sums.get(name, 0.0) + kind["ns"] / step
        return sums
    for part in PARTS:
        name = part.bound.name
        sums[name] = sums.get(name, 0.0) + _mean(report, part.field) / step
    return {name: part for name, part in sums.items() if part > 0}


def _mean(report: Report, field: str) -> float:
    """Mean of a part of the step over all NPUs, in ns."""
    rows: list[tuple[float, int]] = [(each[field], each["count"]) for each in report["classes"]]  # type: ignore[literal-required]
    return sum(ns * count for ns, count in rows) / max(sum(count for _, count in rows), 1)


def _largest(report: Report, bound: str) -> PathOperation | None:
    """The operations of the largest part that take most of the critical path."""
    if not _has_detail(report):
        return None
    found = detail(report)["critical_path"]["by_operation"]
    return next(
        (each for each in found if _KINDS.get(each["kind"], "communication") == bound), None
    )


def _bounds(report: Report, bound: str, part: float, operation: PathOperation | None) -> str:
    step = report["step_time_ns"]
    where = "its critical path" if _has_detail(report) else "the mean NPU's time"
    verb = "bounds the step" if part >= _BOUND else "takes most of the step"
    most = (
        f", most in {words(operation['name'])}, {share(operation['ns'] / step)}"
        if operation
        else ""
    )
    said = f"{_SUBJECTS[bound]} {verb} ({share(part)} of {where}{most})"
    computing = _mean(report, "compute_ns") / step
    if _has_detail(report) and bound == "compute" and part - computing > _WAITING:
        said += (
            f", while the mean NPU computes {share(computing)} of the time and waits the "
            f"rest{_bubble(report)}"
        )
    return said


def _bubble(report: Report) -> str:
    """Note on the pipeline bubble, from the generator of the workload."""
    summary = report["config"]["workload"].get("summary") or {}
    return f" (pipeline bubble {share(summary['bubble'])})" if summary.get("bubble") else ""


def _lacks_memory(report: Report) -> str:
    """A sentence about an NPU that has less memory than is needed, or hardly as much; empty where
    all fit or nothing is known."""
    needed, fits = report.get("memory_bytes"), report.get("fits")
    capacity = report["config"]["platform"]["npu"].get("memory_capacity_bytes")
    if not needed or not capacity or fits not in ("near", "no"):
        return ""
    said = f"an NPU would need {size(needed)} and has {size(capacity)}"
    if fits == "no":
        return f"it does not fit: {said}"
    least, most = (size(each) for each in fit_limits(needed))
    return (
        f"it may not fit, or be slow: {said}, which is closer than memory is known ({least} to "
        f"{most})"
    )


def _best(report: Report, found: whatif.WhatIf | None) -> whatif.Effect | None:
    """The first advice: what makes a run fit; else the best option of the workload, if that is
    worth it; else what would help most, if anything does."""
    effects = found.effects if found else ()
    if mends := [each for each in effects if each.change.mends]:
        return mends[0]
    options, platform = _options(effects), _of_platform(effects)
    return (
        _first(report, options, _MUCH)
        or _first(report, platform, _WORTH)
        or _first(report, options, _WORTH)
    )


def _options(effects: Sequence[whatif.Effect]) -> list[whatif.Effect]:
    """Effects of the workload's options that surely fit."""
    return [each for each in effects if each.change.options and each.change.fits != "near"]


def _of_platform(effects: Sequence[whatif.Effect]) -> list[whatif.Effect]:
    return [each for each in effects if not each.change.options]


def _first(report: Report, effects: Sequence[whatif.Effect], least: float) -> whatif.Effect | None:
    """The best of some effects, if it gains enough."""
    return next((each for each in effects if _gain(report, each) >= least), None)


def _gain(report: Report, effect: whatif.Effect) -> float:
    return 1 - effect.same_ns / report["step_time_ns"]


def _helps(report: Report, found: whatif.WhatIf | None, best: whatif.Effect | None) -> list[str]:
    """The first advice, and the best of other sorts."""
    if found is None or not found.effects:
        return []
    if best is None:
        return [f"none of {len(found.effects)} changes tried would help"]
    platform = _platform_helps(report, found)
    if not best.change.options:
        return platform
    said = [_option_helps(report, found, best)]
    if best.work != 1.0:
        same = [each for each in _options(found.effects) if each.work == 1.0]
        other = _first(report, same, _MUCH)
        said += [f"with the same batch, {_short(report, other)}"] if other else []
    return [*said, *(f"of the platform, {each}" for each in platform[:1])]


def _option_helps(report: Report, found: whatif.WhatIf, best: whatif.Effect) -> str:
    label, said = best.change.named, _said(report, best)
    if best.change.mends:
        return f"with {label} it would fit: {said}"
    most = all(_gain(report, each) <= _gain(report, best) for each in found.effects)
    return f"{label} would help most{'' if most else ' of its options'}: {said}"


def _platform_helps(report: Report, found: whatif.WhatIf) -> list[str]:
    """Most helpful change of the platform. If a setting, which costs nothing, is the best of its
    kind and is another change, it is added."""
    effects = _of_platform(found.effects)
    best = _first(report, effects, _WORTH)
    if best is None:
        return []
    said = [f"{best.change.what} would help most: {_said(report, best)}"]
    settings = [each for each in effects if not each.change.derivative]
    choice = _first(report, settings, _WORTH) if best.change.derivative else None
    return [*said, f"of other settings, {_short(report, choice)}"] if choice else said


def _short(report: Report, effect: whatif.Effect) -> str:
    return f"{effect.change.label}: {_said(report, effect)}"


def _said(report: Report, effect: whatif.Effect) -> str:
    from . import whatif

    return whatif.said(effect, report["step_time_ns"])
