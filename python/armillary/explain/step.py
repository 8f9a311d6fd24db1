"""Why a step takes its time: its critical path with shares, what waits on it, its parts, and lower
bounds."""

from __future__ import annotations

from typing import Any

from ..estimate import bounds
from ..estimate.report_detail import detail
from ..report import path_layers
from ..report.page import Part, Section, Table
from ..report.plain_names import Named
from ..report.quantity import number, share, time
from ..schema import CriticalPath, Report
from ..step_parts import PARTS
from ..units import counted
from . import charts, step_interval
from .rows import LAUNCH

_ROWS = 10
_CAUSES = {
    "dependency": "what it depends on ended",
    "resource": "what held its resource ended",
    "last member": "the last member of the collective came",
    "message": "its message was sent",
    "launch": "its host launched it",
    "start": "the run began",
}


def sections(report: Report) -> list[Section]:
    """The explanation of the step."""
    path = detail(report)["critical_path"]
    return [
        Section("Critical path", _critical(report, path)),
        Section("Where each rank's time goes", [_parts(report)]),
        Section("Lower bounds", _bounds(report)),
        *_uncertainty(report),
    ]


def _uncertainty(report: Report) -> list[Section]:
    """How far off the step may be, where that is from, and the part that decides it."""
    found, said = step_interval.interval(report), step_interval.sentence(report)
    most = step_interval.dominant(report) if found else None
    if found is None or said is None or most is None:
        return []
    part, of_step = most
    return [
        Section(
            "Uncertainty",
            [
                f"{said[0].upper()}{said[1:]}.",
                f"From {found.origin}.",
                f"Most of it comes from {part}, {share(of_step)} of the step.",
            ],
        )
    ]


def data(report: Report) -> dict[str, Any]:
    """The same as numbers."""
    path = detail(report)["critical_path"]
    return {
        "step_time_ns": report["step_time_ns"],
        "critical_path": {key: found for key, found in path.items() if key != "segments"},
        "parts": [
            {"ranks": each["ranks"], **{part.field: each[part.field] for part in PARTS}}  # type: ignore[literal-required]
            for each in report["classes"]
        ],
        "bounds": [{"what": what, "ns": ns} for what, ns in bounds.step(report)],
        "loads": [{"what": what, "ns": ns} for what, ns in bounds.loads(report)],
        "interval": step_interval.data(report),
    }


def _critical(report: Report, path: CriticalPath) -> list[Part]:
    if not path["count"]:
        return ["Nothing takes any time."]
    step = report["step_time_ns"] or 1.0
    kinds = ", ".join(f"{part['name']} {share(part['ns'] / step)}" for part in path["by_kind"][:5])
    waits = (
        " and waits for launches" if any(part["name"] == LAUNCH for part in path["by_kind"]) else ""
    )
    parts: list[Part] = [
        f"The critical path is a chain of {counted(path['count'], 'operation')}{waits}. "
        f"Each one waits for the one before it: {kinds}.",
        *_waits(path, step),
    ]
    kinds_of = [(part["name"], part["ns"]) for part in path["by_kind"]]
    chart = charts.sum_of("path", "The critical path, by kind of operation", kinds_of, "step")
    return [*parts, chart, _operations(path, step), path_layers.table(report)]


def _waits(path: CriticalPath, step: float) -> list[str]:
    by_cause = {part["name"]: part for part in path["by_cause"]}
    parts = [
        f"{time(part['ns'])} of it, {share(part['ns'] / step)}, are waits for hosts to launch "
        f"{counted(part['count'], 'operation')}."
        for part in path["by_kind"]
        if part["name"] == LAUNCH
    ]
    for cause, words in (
        ("last member", "began to count when the last member of the collective came"),
        ("message", "began to count when the message was sent"),
        ("resource", "waited for the NPU, a communication stream or a path to memory"),
    ):
        if part := by_cause.get(cause):
            parts.append(
                f"{share(part['ns'] / step)} of it, {number(part['count'])} operations, {words}."
            )
    return [" ".join(parts)] if parts else []


def _operations(path: CriticalPath, step: float) -> Table:
    rows: list[tuple[str, ...]] = []
    for found in path["by_operation"][:_ROWS]:
        mean = found["ns"] / found["count"] if found["count"] else 0.0
        rows.append(
            (
                Named(found["name"]),
                found["kind"],
                number(found["count"]),
                time(mean),
                time(found["ns"]),
                share(found["ns"] / step),
                _CAUSES.get(found["cause"], ""),
            )
        )
    columns = ["Operation", "Kind", "Count", "Mean", "Time", "Share", "Began when"]
    if len({row[-1] for row in rows}) < 2:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table("Biggest operations on it", columns, rows, labels=2)


def _parts(report: Report) -> Table:
    used = [part for part in PARTS if any(each[part.field] for each in report["classes"])]  # type: ignore[literal-required]
    names = [part.heading for part in used]
    rows = [
        (
            each["label"],
            each["ranks"],
            number(each["count"]),
            *(time(float(each[part.field])) for part in used),  # type: ignore[literal-required]
        )
        for each in report["classes"][:_ROWS]
    ]
    left = len(report["classes"]) - len(rows)
    note = f"{counted(left, 'more class')} of ranks." if left > 0 else ""
    return Table("Parts of the step time", ("What", "Ranks", "NPUs", *names), rows, note, labels=2)


def _bounds(report: Report) -> list[Part]:
    found, loads, step = bounds.step(report), bounds.loads(report), report["step_time_ns"]
    if not found and not loads:
        return ["None: nothing computes and nothing is sent."]
    parts: list[Part] = []
    if found:
        what, ns = found[0]
        parts.append(
            f"This work takes at least {time(ns)} on this platform, whatever its schedule and "
            f"algorithms ({what}); the step takes {step / ns:.2f} times as long."
        )
        parts += (
            ["The run is faster: its network model lets messages share links."]
            if step < ns * (1 - 1e-9)
            else []
        )
    if len(loads) > 1:
        name, ns = loads[0]
        parts.append(
            f"The bytes that this run sent over {name} keep its links busy for {time(ns)}. That "
            "bounds this order of dimensions and these algorithms only: others move bytes to "
            "other dimensions (scheduler.dimension_order)."
        )
    if found:
        parts += [charts.side_by_side("bounds", "Lower bounds and the step", found, ("step", step))]
        parts += [_times("Lower bounds", found, step)]
    return (
        [*parts, _times("Links of each dimension, busy with what this run sent", loads, step)]
        if loads
        else parts
    )


def _times(caption: str, found: list[tuple[str, float]], step: float) -> Table:
    rows = [(what, time(ns), share(ns / (step or 1.0))) for what, ns in found]
    return Table(caption, ("What", "Time", "Share of the step"), rows)
