"""The page of a sweep: best points, what matters, parallel coordinates, a heat map, the Pareto front, what failed.

Not here: charts (`charts.py`), HTML (`report/page.py`). A page is made of the table and the objectives alone; one of
10,000 points is no larger than one of 1,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import _core
from ..report.page import Fact, Page, Section, Table
from ..report.quantity import counted, number
from . import charts
from .view import View

_BEST = 20
_FAILURES = 20
_LONG = 300


def page(view: View, refused: int = 0, heat: tuple[str, str] | None = None) -> Page:
    """The page; `heat` are the two parameters of the heat map, the most influential ones when not given.

    Raises `InputError` where these are no parameters that vary, or an objective is no column.
    """
    failed = view.table.height - view.table["error"].null_count()
    return Page(
        title=view.name,
        lead=f"A sweep of {counted(view.table.height, 'point')} over {counted(len(view.columns), 'parameter')}.",
        facts=list(_facts(view, failed, refused)),
        warnings=[f"{counted(failed, 'point')} failed; the last section says why"] if failed else [],
        sections=list(_sections(view, failed, heat)),
        footer=f"Armillary {_core.version()}. Every point: table.parquet beside this page.",
    )


def _facts(view: View, failed: int, refused: int) -> Iterator[Fact]:
    if view.ran.height:
        best, objective = view.ranking[0], view.objective
        median = objective.values[view.ranking[len(view.ranking) // 2]]
        label = objective.label.partition(" (")[0]
        yield Fact(f"Best {label}", objective.text(objective.values[best]), f"point {view.ran['index'][best]}")
        yield Fact(f"Median {label}", objective.text(median))
    yield Fact("Points", number(view.table.height), f"{number(failed)} failed" if failed else "none failed")
    if refused:
        yield Fact("Refused", number(refused), "combinations, by constraints")


def _sections(view: View, failed: int, heat: tuple[str, str] | None) -> Iterator[Section]:
    if not view.ran.height:
        yield Section("Points", ["No point ran."])
    else:
        yield Section("Best points", [_best(view)])
        if view.axes:
            yield Section("Parameters", [charts.influence(view), charts.parallel(view)])
        if len(view.axes) > 1 or heat is not None:
            yield Section("Heat map", [charts.heat_map(view, heat)])
        if (other := view.against) is not None:
            yield Section("Pareto front", [charts.pareto(view, other)])
    if failed:
        yield Section("Failed points", [_failures(view)])


def _best(view: View) -> Table:
    rows = view.ranking[:_BEST]
    extra = [name for name in ("exposed_comm_ns", "mfu", "samples_per_s") if view.ran[name].null_count() == 0]
    named = dict.fromkeys([*(name for name, _ in view.objectives), *extra])
    shown = {name: _texts(view, name, rows) for name in named}
    parameters = {view.short[name]: [_plain(view.ran[name][row]) for row in rows] for name in view.columns}
    columns = {"point": [str(view.ran["index"][row]) for row in rows], **parameters, **shown}
    heads = [name.removesuffix("_ns").replace("_", " ") if name in shown else name for name in columns]
    note = f"The best {len(rows)} of {view.ran.height:,} points that ran." if view.ran.height > len(rows) else ""
    return Table("Best first", heads, list(zip(*columns.values(), strict=True)), note)


def _texts(view: View, name: str, rows: Sequence[int]) -> list[str]:
    measure = view.measure(name, False)
    return [measure.text(measure.values[row]) for row in rows]


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _failures(view: View) -> Table:
    """Errors, the most frequent first, each with the first point that has it."""
    found: dict[str, list[dict[str, Any]]] = {}
    frame = view.table.filter(view.table["error"].is_not_null())
    for row in frame.select("index", *view.columns, "error").iter_rows(named=True):
        found.setdefault(row["error"], []).append(row)
    often = sorted(found.items(), key=lambda each: (-len(each[1]), each[1][0]["index"]))
    rows = [(_cut(error), number(len(points)), _first(view, points[0])) for error, points in often[:_FAILURES]]
    left = len(often) - len(rows)
    note = f"{left} more errors: column error of the table." if left > 0 else ""
    return Table("Errors", ["error", "points", "first of them"], rows, note)


def _first(view: View, row: dict[str, Any]) -> str:
    said = ", ".join(f"{view.short[name]}={_plain(row[name])}" for name in view.columns)
    return _cut(f"{row['index']}: {said}")


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."
