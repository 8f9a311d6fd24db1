"""The page of a sweep: best points, what matters, parallel coordinates, a heat map, the Pareto
front, what failed.

Not here: charts (`charts.py`), HTML (`report/page.py`). A page is made of the table and the
objectives alone; one of 10,000 points is no larger than one of 1,000."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from ..report.page import Brief, Fact, Page, Section, Table
from ..report.quantity import number
from ..units import counted
from . import charts, parallel, slower_points
from .failures import Failure, failures, total
from .frame import Frame
from .out_of_memory import PointsOutOfMemory, near, points_out_of_memory
from .point_warnings import said as said_warnings
from .view import View, said

_BEST = 100
_ON_TERMINAL = 5
_LEFT_OUT = 50
_FAILURES = 20
_LONG = 300
_TITLE = 48
"""Letters of a list of parameters in a title."""
INCLUDE, NEAR = "--include-infeasible", "--near"
"""Options that bring back points that don't fit, and points that may not."""


def page(view: View, refused: int = 0, heat: tuple[str, str] | None = None) -> Page:
    """The page; `heat` are the two parameters of the heat map, the most influential ones when not
    given.

    Raises `InputError` where these are not parameters that vary, or an objective is not a column.
    """
    found = failures(view.table)
    failed = total(found, impossible=False)
    out = points_out_of_memory(view)
    warnings = [f"{counted(failed, 'point')} failed, for the reasons below"] if failed else []
    return Page(
        title=title(view),
        verdict=verdict(view, out),
        lead=f"Sweep {view.name}: {counted(view.table.height, 'point')} over "
        f"{counted(len(view.columns), 'parameter')}.",
        facts=list(_facts(view, failed, refused)),
        warnings=[*left_out(view, out, "here"), *warnings, *said_warnings(view.table)],
        sections=list(_sections(view, found, heat)),
        footer=f"Armillary {_core.version()}. All points are in table.parquet next to this page.",
    )


def title(view: View) -> str:
    """Subject of the comparison, and the parameters: `gpt3-175b on dgx-h100-16n: step time by tp
    and pp`."""
    names = [view.short[name] for name in view.columns]
    over = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
    over = over if len(over) <= _TITLE else counted(len(names), "parameter")
    what = _word(view.objectives[0][0])
    said = f"{what} by {over}" if over else what
    return f"{view.subject}: {said}" if view.subject else f"{said[0].upper()}{said[1:]}"


def _word(name: str) -> str:
    """A column of results in words, without its unit."""
    return HEADS.get(name) or re.sub(r"_(ns|bytes|per_npu)$", "", name).replace("_", " ")


def verdict(view: View, out: PointsOutOfMemory | None) -> str:
    """The best point, how much better it is than the median, and how many points don't fit."""
    if not view.ran.height:
        return _none(view, out)
    objective, row = view.objective, view.ranking[0]
    value, middle = objective.values[row], objective.values[view.ranking[len(view.ranking) // 2]]
    what, text = objective.label.partition(" (")[0], objective.text(value)
    found = (
        f"The best {what} is {text}: point {view.ran['index'][row]}, "
        f"{_settings(view, view.ran.row(row))}"
    )
    better = max(value, middle) / min(value, middle) if min(value, middle) > 0 else 1.0
    if better > 1.0005:
        among = "of all points" if all(view.counted) else "of the points that fit"
        found += f"; {better:,.3g} times as good as the median {among}"
    counts = "included here" if view.include_infeasible else "left out"
    many = (
        f" {number(out.count)} of {number(out.of)} points don't fit in memory and are {counts}."
        if out
        else ""
    )
    alike = f" {view.said_alike}" if view.said_alike else ""
    return f"{found}.{many}{alike}"


def _none(view: View, out: PointsOutOfMemory | None) -> str:
    """Why no point is ranked."""
    if close := near(view):
        return f"No point surely fits in memory. {close}"
    return next(out.sentences()) if out else "No point ran."


def left_out(view: View, out: PointsOutOfMemory | None, where: str) -> Iterator[str]:
    """Sentences about points that may not fit, and about those that don't."""
    if close := near(view):
        kept = view.include_infeasible or view.near
        yield f"{close} {_kept(kept, where, NEAR)}"
    if out:
        yield f"{out} {_kept(view.include_infeasible, where, INCLUDE)}"


def _kept(kept: bool, where: str, option: str) -> str:
    return (
        f"They count {where}, marked."
        if kept
        else f"They are left out {where}; {option} keeps them."
    )


def _settings(view: View, row: dict[str, Any]) -> str:
    """Settings of one point that vary in the sweep."""
    varying = [name for name in view.columns if view.measured.varies(name)]
    return (
        ", ".join(f"{view.short[name]} {_plain(row[name])}" for name in varying) or "the only one"
    )


def _facts(view: View, failed: int, refused: int) -> Iterator[Fact]:
    if view.ran.height:
        best, objective = view.ranking[0], view.objective
        median = objective.values[view.ranking[len(view.ranking) // 2]]
        label = objective.label.partition(" (")[0]
        yield Fact(
            f"Best {label}",
            objective.text(objective.values[best]),
            f"point {view.ran['index'][best]}",
            True,
        )
        yield Fact(f"Median {label}", objective.text(median))
    yield Fact(
        "Points", number(view.table.height), f"{number(failed)} failed" if failed else "none failed"
    )
    if view.measured.height > view.unknown:
        fitting = view.fitting.height - view.unknown
        out = view.out_of_memory.height
        close, unknown = view.close.height, view.unknown
        some = {"do not": out, "may not": close, "unknown": unknown}
        note = ", ".join(f"{number(count)} {word}" for word, count in some.items() if count)
        yield Fact("Fit in memory", number(fitting), note or "all that ran")
    if refused:
        yield Fact("Refused", number(refused), "combinations, by constraints")


def _sections(
    view: View, failed: Sequence[Failure], heat: tuple[str, str] | None
) -> Iterator[Section]:
    if not view.ran.height:
        yield Section(
            "Points", ["No point fits in memory." if view.measured.height else "No point ran."]
        )
    else:
        yield Section("Best points", [_best(view)])
        if view.ran.height > 1:
            yield Section(
                "Why others are slower", [*slower_points.charts(view), slower_points.table(view)]
            )
        if view.axes:
            yield Section("Parameters", [charts.influence(view)])
            yield Section("Parallel coordinates", [parallel.parallel(view)])
        if len(view.axes) > 1 or heat is not None:
            yield Section("Heat map", [charts.heat_map(view, heat)])
        if (other := view.against) is not None:
            yield Section("Pareto front", [charts.pareto(view, other)])
    if view.close.height and not (view.include_infeasible or view.near):
        caption = "Points that need about as much memory as there is"
        close = _outside(view, view.close, caption)
        yield Section("Points that may not fit", [close], only="page")
    if view.out_of_memory.height and not view.include_infeasible:
        caption = "Points that need too much memory"
        out = _outside(view, view.out_of_memory, caption)
        yield Section("Points that do not fit", [out], only="page")
    titles = {False: "Failed points", True: "Combinations that can't exist"}
    for impossible, title in titles.items():
        if some := [each for each in failed if each.impossible == impossible]:
            yield Section(title, [_failures(view, some)], only="page")


def _best(view: View) -> Table:
    rows = view.ranking[:_BEST]
    note = (
        f"The best {len(rows)} of {view.ran.height:,} points."
        if view.ran.height > len(rows)
        else ""
    )
    return _points("Best first", view, view.ran.take(rows), note)


def _outside(view: View, out: Frame, caption: str) -> Table:
    """Points that are left out, the best first."""
    name, more = view.objectives[0]
    frame = out.ordered(name, more).take(range(min(out.height, _LEFT_OUT)))
    note = "Ordered by the objective, as if memory were sufficient."
    note += f" The first {frame.height} of {out.height:,}." if out.height > frame.height else ""
    return _points(caption, view, frame, note)


def _points(caption: str, view: View, frame: Frame, note: str) -> Table:
    """Points with their parameters, objectives and memory."""
    named = [
        *(name for name, _ in view.objectives),
        "memory_bytes",
        "memory_capacity_bytes",
        *_EXTRA,
    ]
    shown = [
        name for name in dict.fromkeys(named) if name in frame.columns and frame.is_whole(name)
    ]
    columns: dict[str, list[str]] = {"point": [number(index) for index in frame["index"]]}
    columns |= {view.short[name]: [_plain(value) for value in frame[name]] for name in view.columns}
    columns |= {_word(name): _texts(frame, name) for name in shown}
    if view.is_marked:
        columns["fits"] = [answer or "yes" for answer in frame["fits"]]
    brief = Brief([name for name in columns if name not in map(_word, _LESS)], _ON_TERMINAL)
    return Table(
        caption, list(columns), list(zip(*columns.values(), strict=True)), note, brief=brief
    )


_EXTRA = ("exposed_comm_ns", "mfu", "samples_per_s")
_LESS = ("memory_capacity_bytes", *_EXTRA)
"""Columns that a terminal leaves out."""
HEADS = {
    "exposed_comm_ns": "exposed comm., slowest ranks",
    "mean_compute_ns": "compute",
    "mean_exposed_comm_ns": "exposed comm",
    "mean_idle_ns": "idle",
    "memory_bytes": "memory",
    "memory_capacity_bytes": "capacity",
    "mfu": "MFU",
    "samples_per_s": "throughput",
    "tflops_per_npu": "compute rate of an NPU",
}
"""Names of columns that differ from the column's own name without its unit."""


def _texts(frame: Frame, name: str) -> list[str]:
    return [said(name, float(value)) for value in frame[name]]


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _failures(view: View, found: Sequence[Failure]) -> Table:
    """Reasons, the most frequent first, each with the first point that has it."""
    rows = [
        (_cut(each.text), number(each.count), _first(view, each.first))
        for each in found[:_FAILURES]
    ]
    left = len(found) - len(rows)
    note = f"{left} more reasons: see column error of the table." if left > 0 else ""
    return Table("Errors", ["error", "points", "first of them"], rows, note)


def _first(view: View, row: Mapping[str, Any]) -> str:
    values = ", ".join(f"{view.short[name]}={_plain(row[name])}" for name in view.columns)
    return _cut(f"{row['index']}: {values}")


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."
