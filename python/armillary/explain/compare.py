"""`compare`: what moved between runs, by operation on the critical path, ranked, with causes.

Model: both critical paths sum to their step times, so the changes of their operations sum to the
difference. Not here: which is faster where steps do different amounts of work (`throughput.py`),
how it looks (`compare_page.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import run_warnings
from ..errors import InputError, Problem
from ..report import flits, packets, path_layers
from ..schema import Report
from ..units import counted
from . import compare_page, dlrm_parts, step_interval, throughput
from .causes import LISTED, ComparedRun, Move, OperationWork, run, split
from .compare_page import Pair
from .explanation import COMPARISON, Comparison

_REASONS = 3
_HALF_PS = 5e-4
_NONE = OperationWork(0, 0.0, 0.0, 0.0)
_LEFT_OUT = ("name", "source", "summary", "programs", "groups")
"""Keys of a configuration that say nothing by themselves."""


def compare(reports: Sequence[Report], names: Sequence[str] | None = None) -> Comparison:
    """Compares the first report with each of the others; `names` are what they are called.

    Raises `InputError` for fewer than two reports and for one without detail.
    """
    called = list(names or [chr(65 + at % 26) for at in range(len(reports))])
    if len(reports) < 2 or len(called) != len(reports):
        message = (
            f"{counted(len(reports), 'report')}, {counted(len(called), 'name')}: nothing to compare"
        )
        raise InputError([Problem("", "compare", message, "two or more reports, a name for each")])
    runs = [run(report, name) for report, name in zip(reports, called, strict=True)]
    pairs = [
        _pair(runs[0], other, called[0], name)
        for other, name in zip(runs[1:], called[1:], strict=True)
    ]
    data: dict[str, Any] = {
        "schema": COMPARISON,
        "version": reports[0]["version"],
        "base": called[0],
        "pairs": [pair.data for pair in pairs],
        "warnings": warnings_of(reports, called),
    }
    return Comparison(compare_page.page(pairs, data["warnings"]), data)


def warnings_of(reports: Sequence[Report], called: Sequence[str]) -> list[str]:
    """Warnings of the runs, and what they assumed. Those that not all of them have begin with
    whose they are."""
    by_name = list(zip(called, reports, strict=True))
    found = []
    for warning in dict.fromkeys(each for report in reports for each in run_warnings.of(report)):
        names = [name for name, report in by_name if warning in run_warnings.of(report)]
        found.append(warning if len(names) == len(called) else f"{', '.join(names)}: {warning}")
    return found


def _pair(a: ComparedRun, b: ComparedRun, first: str, second: str) -> Pair:
    moves = sorted(moved(a, b), key=lambda move: (-abs(move.delta_ns), move.name, move.kind))
    before, after = a.report["step_time_ns"], b.report["step_time_ns"]
    left = after - before - sum(move.delta_ns for move in moves)
    reasons = sorted(
        ((m, cause, ns) for m in moves for cause, ns in m.causes.items()),
        key=lambda found: -abs(found[2]),
    )
    one, two = throughput.of(a.report), throughput.of(b.report)
    data = {
        "name": second,
        "within_interval": step_interval.indistinct(a.report, b.report),
        "headline": throughput.headline(one, two, (first, second)),
        "unit": throughput.unit(one, two),
        "a": one.as_dict(),
        "b": two.as_dict(),
        "a_step_ns": before,
        "b_step_ns": after,
        "delta_ns": after - before,
        "reasons": [_reason(b, *reason) for reason in reasons[:_REASONS]],
        "causes": by_cause(moves),
        "operations": [move.as_dict() for move in moves],
        "remainder_ns": left,
        "layers": [
            {"layer": each.name, "a_ns": each.a_ns, "b_ns": each.b_ns, "delta_ns": each.delta_ns}
            for each in path_layers.changes(a.report, b.report)
            if each.delta_ns
        ],
        "parts": _parts(a.report, b.report),
        "totals": _totals(a, b),
        "packets": _both(packets, a.report, b.report),
        "flits": _both(flits, a.report, b.report),
        "only_a": _only(a, b),
        "only_b": _only(b, a),
        "config": _differences(a.report["config"], b.report["config"]),
    }
    return Pair(a, b, (first, second), moves, data)


def _reason(b: ComparedRun, move: Move, cause: str, ns: float) -> dict[str, Any]:
    """One operation's change by one cause; of waits also what the other run waits for."""
    row = b.rows.get((move.name, move.kind)) if cause == "contention" else None
    behind = [part["name"] for part in row["behind"]] if row else []
    return {"name": move.name, "kind": move.kind, "cause": cause, "ns": ns, "behind": behind}


def moved(a: ComparedRun, b: ComparedRun) -> Iterator[Move]:
    """Every operation whose time on the critical path differs."""
    for key in dict.fromkeys([*a.path, *b.path]):
        before, after = (found.path[key]["ns"] if key in found.path else 0.0 for found in (a, b))
        if before != after or split(a, b, key):
            yield Move(key[0], key[1], before, after, split(a, b, key))


def by_cause(moves: Sequence[Move]) -> dict[str, float]:
    """The difference by cause, ns, largest first."""
    sums: dict[str, float] = {}
    for move in moves:
        for cause, ns in move.causes.items():
            sums[cause] = sums.get(cause, 0.0) + ns
    kept = ((cause, ns) for cause, ns in sums.items() if abs(ns) > _HALF_PS)
    return dict(sorted(kept, key=lambda found: -abs(found[1])))


def _parts(a: Report, b: Report) -> dict[str, Any] | None:
    """Parts of a recommendation model's step in both runs, and their rooflines; `None` where one
    is of another model."""
    if not (dlrm_parts.is_dlrm(a) and dlrm_parts.is_dlrm(b)):
        return None
    one, two = dlrm_parts.parts(a), dlrm_parts.parts(b)
    samples = max(dlrm_parts.roofline(each)["samples"] or 0 for each in (a, b))
    return {
        "rows": [{"part": name, "a_ns": one[name], "b_ns": two[name]} for name in one],
        "a_roofline": dlrm_parts.roofline(a, samples),
        "b_roofline": dlrm_parts.roofline(b, samples),
    }


def _totals(a: ComparedRun, b: ComparedRun) -> list[dict[str, Any]]:
    """Operations over all ranks, on the critical path or not, whose time differs."""
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys([*a.work, *b.work]):
        one, two = (found.work.get(key, _NONE) for found in (a, b))
        before, after = one.count * one.ns, two.count * two.ns
        if before != after:
            rows.append(
                {
                    "name": key[0],
                    "kind": key[1],
                    "a_ns": before,
                    "b_ns": after,
                    "a_count": one.count,
                    "b_count": two.count,
                }
            )
    return sorted(rows, key=lambda row: -abs(row["b_ns"] - row["a_ns"]))


def _both(section: Any, a: Report, b: Report) -> dict[str, Any]:  # noqa: ANN401 - a module
    """Counts of packets or flits of both runs, for each field of the report. A run without them has
    null; nothing where neither run has them."""
    one, two = ({} if each is None else section.totals(each) for each in map(section.of, (a, b)))
    return {
        field: {"a": one.get(field), "b": two.get(field)}
        for field in section.TOTALS
        if field in one or field in two
    }


def _only(a: ComparedRun, b: ComparedRun) -> list[dict[str, str]]:
    """Operations of one run that the other does not have; none where its list of operations may be
    cut off."""
    if len(b.report["operations"]) >= LISTED:
        return []
    return [{"name": name, "kind": kind} for name, kind in a.work if (name, kind) not in b.work]


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Keys of the configurations with different values."""
    one, two = dict(_flat(a)), dict(_flat(b))
    keys = [key for key in dict.fromkeys([*one, *two]) if one.get(key) != two.get(key)]
    return [
        {"key": key, "a": one.get(key), "b": two.get(key)}
        for key in keys
        if key.rpartition(".")[2] not in _LEFT_OUT
    ]


def _flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if at in ("platform_file", "workload.summary"):
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{at}[{index}]")
    else:
        yield at, value
