"""`explain`: why a step, or an operation of it, takes its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import run_warnings
from ..estimate.report_detail import detail
from ..repeat import Again, Unrepeatable
from ..report.page import Page, Section, Table
from ..report.quantity import number, share, size, time
from ..report.scale import Scale
from ..schema import Collective, Operation, Report
from ..units import counted
from . import collective, step, verdict, whatif
from .explanation import EXPLANATION, Explanation, ExplanationInterrupted
from .rows import find, operations, pattern, require_choices, unknown

_MOST = 5
"""Rows explained in full when a name has several matches."""


def explain(
    report: Report,
    node: str | None = None,
    *,
    again: Again | Unrepeatable | None = None,
    seconds: float = 20.0,
    progress: Callable[[float, float], None] | None = None,
) -> Explanation:
    """Explains the step, or the operations that `node` means: an id, `rank:id`, a name, a kind, a
    pattern of names.

    `report` has its detail. `again` simulates again, for what would help; text says why that can't
    be; None leaves it out. It takes about `seconds`. Raises `InputError` for a report without
    detail and a node that is not there, `ExplanationInterrupted` for a Ctrl-C while it simulates
    again."""
    detail(report)
    require_choices(report)
    if node is None:
        return _step(report, again, seconds, progress)
    rows = find(report, node)
    if not rows:
        return _other(report, node)
    return _rows(report, node, rows, again, seconds, progress)


def _step(
    report: Report,
    again: Again | Unrepeatable | None,
    seconds: float,
    progress: Callable[[float, float], None] | None,
) -> Explanation:
    sections, data = step.sections(report), step.data(report)
    data = {
        "schema": EXPLANATION,
        "version": report["version"],
        "node": None,
        "step": data,
        "operations": [],
    }
    title = f"The step takes {time(report['step_time_ns'])}"
    return _with_changes(report, title, sections, data, None, again, seconds, progress)


def _rows(
    report: Report,
    node: str,
    rows: list[Collective],
    again: Again | Unrepeatable | None,
    seconds: float,
    progress: Callable[[float, float], None] | None,
) -> Explanation:
    each = enumerate(rows[:_MOST], 1)
    sections = [
        section for at, row in each for section in collective.sections(report, row, f"-{at}")
    ]
    if len(rows) > _MOST:
        names = ", ".join(
            f"{row['name']} ({row['kind']}, {size(row['bytes'])})" for row in rows[_MOST:]
        )
        sections.append(Section("Other matches", [names]))
    data = {
        "schema": EXPLANATION,
        "version": report["version"],
        "node": node,
        "step": None,
        "operations": [collective.data(report, row) for row in rows],
    }
    first = rows[0] if len(rows) == 1 else None
    title = (
        f"{node} takes {time(rows[0]['mean_ns'])}"
        if first
        else f"{node}: {counted(len(rows), 'operation')}"
    )
    return _with_changes(report, title, sections, data, first, again, seconds, progress)


def _with_changes(
    report: Report,
    title: str,
    sections: list[Section],
    data: dict[str, Any],
    row: Collective | None,
    again: Again | Unrepeatable | None,
    seconds: float,
    progress: Callable[[float, float], None] | None,
) -> Explanation:
    """The explanation with what would help."""
    data["what_if"], data["left_out"], found = [], [], None
    if again is not None:
        found = whatif.effects(report, again, row, seconds, progress)
        sections = [*sections, whatif.section(report, found, row)]
        data["what_if"] = [effect.as_dict(report["step_time_ns"]) for effect in found.effects]
        data["left_out"] = list(found.left_out)
    said = verdict.of(report, found) if data["node"] is None else None
    data["verdict"] = {"sentence": said.sentence, **said.facts} if said else None
    data["warnings"] = run_warnings.of(report)
    if found is not None and found.stop is not None:
        tried = counted(len(found.effects), "change")
        data["warnings"].append(f"interrupted: {tried} simulated again")
    page = Page(
        title,
        sections,
        _lead(report),
        warnings=data["warnings"],
        verdict=said.sentence if said else "",
        unit=Scale.of(report["step_time_ns"] if row is None else row["mean_ns"]),
    )
    explanation = Explanation(page, data)
    if found is not None and found.stop is not None:
        raise ExplanationInterrupted(explanation, found.stop) from found.stop
    return explanation


def _lead(report: Report) -> str:
    config = report["config"]
    summary = config["workload"].get("summary")
    what = config["workload"]["traces"] or (
        summary["model"] if summary else "a workload made in Python"
    )
    return (
        f"{what} on {config['platform']['name']}, {counted(report['ranks'], 'rank')}, "
        f"{config['backend']} network"
    )


def _other(report: Report, node: str) -> Explanation:
    """An operation that is not a collective: how often it runs, and its part of the critical
    path."""
    path, wanted = detail(report)["critical_path"], set(operations(report, node))
    found = [each for each in report["operations"] if pattern(each["name"]) in wanted]
    on_path = [each for each in path["by_operation"] if each["name"] in wanted]
    if not found and not on_path:
        raise unknown(report, node)
    spent = sum(each["ns"] for each in on_path)
    of_step = share(spent / (report["step_time_ns"] or 1.0))
    said = (
        f"It takes {time(spent)} of the critical path, {of_step} of the step."
        if on_path
        else "It is not on the critical path: without it the step would not be shorter."
    )
    data = {
        "schema": EXPLANATION,
        "version": report["version"],
        "node": node,
        "step": None,
        "operations": [{**each, "critical_ns": spent} for each in found],
        "what_if": [],
        "left_out": [],
        "warnings": run_warnings.of(report),
    }
    sections = [Section("Over all ranks", [said, _operations(found)] if found else [said])]
    return Explanation(
        Page(
            f"{node}: {counted(len(found), 'operation')}",
            sections,
            _lead(report),
            warnings=run_warnings.of(report),
        ),
        data,
    )


def _operations(found: list[Operation]) -> Table:
    rows = [
        (
            each["name"],
            each["kind"],
            number(each["count"]),
            time(each["total_ns"] / max(each["count"], 1)),
            time(each["max_ns"]),
            time(each["total_ns"]),
        )
        for each in found[:20]
    ]
    return Table(
        "Operations", ("Name", "Kind", "Count", "Mean", "Longest", "All ranks"), rows, labels=2
    )
