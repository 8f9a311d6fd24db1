"""One workload on several network models: step times, where they differ, and why.

Model: each run is compared with the first one, by operation on the critical path (`compare.py`)
and by cause (`backend_differences.py`). What the run itself recorded is named as well: packets,
waits for links, losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..report import packets
from ..report.chart import COLOURS, Chart
from ..report.page import Page, Part, Section, Table
from ..report.plain_names import Named
from ..report.quantity import time
from ..report.scale import Scale
from ..schema import Report
from .backend_differences import CAUSES, Run, split
from .compare import compare
from .explanation import Explanation

LADDER = "armillary.ladder/1"
_SHOWN = 3
"""Operations that are named for each model."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One model."""

    backend: str
    step_ns: float
    exposed_ns: float
    """Communication that hides behind nothing, of the slowest class of ranks."""
    seconds: float
    """Time of the simulation itself."""
    difference: float
    """Difference from the step time of the first model, as a share of the latter."""
    where: list[dict[str, Any]]
    """Operations whose times on the critical path differ most."""
    causes: dict[str, float]
    """The difference of the step time by cause, ns; empty unless they were looked for."""
    why: list[str]
    """Records of the run that the first run does not have."""

    def as_dict(self) -> dict[str, Any]:
        """The same as data."""
        return {field: getattr(self, field) for field in self.__slots__}


def rungs(
    reports: Sequence[Report], seconds: Sequence[float], runs: Sequence[Run] = ()
) -> list[Rung]:
    """The models of `reports` (with detail, of one workload and platform). `seconds`: the time that
    each simulation took. `runs`: the same models without their causes; none where these were not
    looked for."""
    names = [report["config"]["backend"] for report in reports]
    causes = [split(run, runs[0], runs) for run in runs] or [{} for _ in reports]
    first = reports[0]
    found = [_rung(first, seconds[0], first, [], {})]
    if len(reports) > 1:
        pairs = compare(reports, names).data["pairs"]
        for at, pair in enumerate(pairs, start=1):
            moved = [row for row in pair["operations"] if row["delta_ns"]]
            found.append(_rung(reports[at], seconds[at], first, moved[:_SHOWN], causes[at]))
    return found


def _rung(
    report: Report,
    seconds: float,
    first: Report,
    moved: Sequence[dict[str, Any]],
    causes: dict[str, float],
) -> Rung:
    step, base = report["step_time_ns"], first["step_time_ns"]
    keep = ("name", "kind", "a_ns", "b_ns", "delta_ns")
    return Rung(
        backend=report["config"]["backend"],
        step_ns=step,
        exposed_ns=max(each["exposed_comm_ns"] for each in report["classes"]),
        seconds=seconds,
        difference=step / base - 1 if base else 0.0,
        where=[{key: row[key] for key in keep} for row in moved],
        causes=causes,
        why=list(_reasons(report, first)),
    )


def _reasons(report: Report, first: Report) -> Iterator[str]:
    """Records of this run that differ from those of the first one."""
    if report is first:
        return
    found = packets.of(report)
    if found is not None:
        yield (
            f"{found['data']:,} packets with headers, {found['acknowledgements']:,} "
            "acknowledgements"
        )
        losses = [
            f"{found[key]:,} {word}"  # type: ignore[literal-required]
            for key, word in (
                ("drops", "packets dropped"),
                ("retransmits", "sent again"),
                ("timeouts", "timeouts"),
            )
            if found[key]  # type: ignore[literal-required]
        ]
        yield ", ".join(losses) if losses else "no packet is lost"
    queues = [link for link in report["links"] if link["queue_mean_ns"]]
    if queues:
        worst = max(queues, key=lambda link: link["queue_mean_ns"])
        what = "messages" if found is None else "packets"
        yield f"{what} wait {time(worst['queue_mean_ns'])} on average for {worst['name']}"
    if report["config"]["backend"] == "flow" and not queues:
        yield "transfers on a link share its bandwidth"


def page(rungs: Sequence[Rung], title: str, warnings: Sequence[str] = ()) -> Page:
    """The table of step times, and for each model where and why it differs."""
    first = rungs[0]
    rows = [
        [
            each.backend,
            time(each.step_ns),
            "" if each is first else f"{each.difference:+.2%}",
            _mostly(each),
            time(each.exposed_ns),
            f"{each.seconds:.2f} s",
        ]
        for each in rungs
    ]
    columns = [
        "Network",
        "Step",
        f"To {first.backend}",
        "Mostly by",
        "Exposed communication",
        "Run took",
    ]
    if not any(each.causes for each in rungs):
        for row in (columns, *rows):
            row.pop(3)
    table = Table("Every model on the same workload", columns, rows)
    sections = [Section("Step times", [_chart(rungs), table])]
    for at, each in enumerate(rungs[1:]):
        parts: list[Part] = [f"{line[:1].upper()}{line[1:]}." for line in each.why]
        if each.causes:
            by = [
                (cause, signed(ns), f"{ns / first.step_ns:+.2%}", CAUSES[cause])
                for cause, ns in each.causes.items()
            ]
            of = ("Cause", "Change", "Share of the step", "Meaning")
            parts.append(Table(f"Why the step differs from that of {first.backend}", of, by))
        moved = [
            (
                Named(row["name"]),
                row["kind"],
                time(row["a_ns"]),
                time(row["b_ns"]),
                signed(row["delta_ns"]),
            )
            for row in each.where
        ]
        if moved:
            heads = ("Operation", "Kind", first.backend, each.backend, "Change")
            parts.append(Table("Largest changes on the critical path", heads, moved, labels=2))
        else:
            parts.append("No operation on the critical path changes its time.")
        name = f"{each.backend} and {first.backend}"
        sections.append(Section(name, parts, anchor=f"rung-{at + 1}"))
    longest = max(each.step_ns for each in rungs)
    return Page(title, sections, verdict=_verdict(rungs), warnings=warnings, unit=Scale.of(longest))


def _verdict(rungs: Sequence[Rung]) -> str:
    """The shortest and the longest step."""
    steps = sorted(rungs, key=lambda each: each.step_ns)
    least, most = steps[0], steps[-1]
    if len(steps) == 1:
        return f"{least.backend} gives a step of {time(least.step_ns)}."
    if most.step_ns > least.step_ns > 0:
        return (
            f"{least.backend} has the shortest step, {time(least.step_ns)}; {most.backend} the "
            f"longest, {time(most.step_ns)} ({most.step_ns / least.step_ns - 1:+.2%})."
        )
    return "All networks give the same step time."


def _chart(rungs: Sequence[Rung]) -> Chart:
    """A bar for each network: exposed communication of the rank that has most, and the rest."""
    scale = Scale.of(max(each.step_ns for each in rungs))
    rows = [
        {"network": each.backend, "part": part, "time": ns / scale.ns}
        for each in rungs
        for part, ns in (
            ("exposed communication", each.exposed_ns),
            ("rest of the step", each.step_ns - each.exposed_ns),
        )
    ]
    colours = {
        "domain": ["rest of the step", "exposed communication"],
        "range": [COLOURS["compute"], COLOURS["communication"]],
    }
    part = {"field": "part", "type": "nominal", "title": None, "scale": colours}
    spec = {
        "mark": "bar",
        "encoding": {
            "y": {"field": "network", "type": "nominal", "sort": None, "title": None},
            "x": {"field": "time", "type": "quantitative", "title": scale.axis("step")},
            "color": part,
            "order": {"field": "part", "sort": "descending"},
        },
        "height": {"step": 34},
    }
    return Chart("step-times", "Step time by network", rows, spec)


def _mostly(rung: Rung) -> str:
    """The cause that makes most of the difference."""
    if not rung.causes:
        return ""
    cause = max(rung.causes, key=lambda name: abs(rung.causes[name]))
    return f"{cause} {signed(rung.causes[cause])}"


def signed(ns: float) -> str:
    """A change of a time."""
    return ("+" if ns >= 0 else "-") + time(abs(ns))


@dataclass(frozen=True)
class Ladder(Explanation):
    """Step times of one workload on several network models. Schema `armillary.ladder/1`,
    docs/guides/compare.md."""
