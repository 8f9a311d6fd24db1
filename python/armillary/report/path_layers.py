"""Layers of two critical paths as a person reads them: in the order of the model, and alike ones as
one row.

Not here: what a layer is (the workload's generator names them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..schema import Detail, Report
from .parts import Table
from .quantity import number, share, time

_ALIKE = 0.01
"""Layers whose times differ by less, relatively, are shown as one."""


@dataclass(frozen=True)
class Span:
    """Layers `name`, such as `layer 0-31`: how many, and their times in both runs together, ns."""

    name: str
    count: int
    a_ns: float
    b_ns: float

    @property
    def delta_ns(self) -> float:
        """The change of all of them."""
        return self.b_ns - self.a_ns


def changes(a: Report, b: Report) -> list[Span]:
    """Every layer of either critical path, in the order of the model."""
    before, after = (
        {p["name"]: p["ns"] for p in _detail(r)["critical_path"]["by_layer"]} for r in (a, b)
    )
    names = sorted(dict.fromkeys([*before, *after]), key=_order(a, b))
    return [Span(name, 1, before.get(name, 0.0), after.get(name, 0.0)) for name in names]


def _detail(report: Report) -> Detail:
    """The detail of a report that has one."""
    found = report["detail"]
    if found is None:
        raise ValueError("a report without detail has no layers")
    return found


def _order(*reports: Report) -> Callable[[str], tuple[bool, int, str, int]]:
    """Where a layer stands in the programs; by name and number where it is in none."""
    listed = [row["layer"] for report in reports for row in _detail(report)["layers"]]
    at = {name: place for place, name in enumerate(dict.fromkeys(listed))}

    def key(name: str) -> tuple[bool, int, str, int]:
        text, number = _parts(name)
        return (name not in at, at.get(name, 0), text, number)

    return key


def merged(layers: Sequence[Span]) -> list[Span]:
    """The same with neighbours that are alike in both runs, and numbered one after another, as
    one."""
    return [_joined(run) for run in _runs(layers)]


def _runs(layers: Sequence[Span]) -> Iterator[list[Span]]:
    run: list[Span] = []
    for layer in layers:
        if run and not _goes_on(run, layer):
            yield run
            run = []
        run.append(layer)
    if run:
        yield run


def _goes_on(run: Sequence[Span], layer: Span) -> bool:
    (text, number), (last, before) = _parts(layer.name), _parts(run[-1].name)
    first = run[0]
    close = all(
        abs(one - two) <= _ALIKE * max(one, two)
        for one, two in ((first.a_ns, layer.a_ns), (first.b_ns, layer.b_ns))
    )
    return text == last and number == before + 1 and number > 0 and close


def table(report: Report) -> Table:
    """The layers of a report's critical path, alike ones as one."""
    step = report["step_time_ns"] or 1.0
    spans = merged(changes(report, report))
    rows = [
        (
            span.name,
            number(span.count),
            time(span.b_ns),
            share(span.b_ns / step),
            time(span.b_ns / span.count),
        )
        for span in spans
    ]
    return Table("By layer", ("Layer", "Number", "Time", "Share", "Each"), rows)


def _joined(run: Sequence[Span]) -> Span:
    text, first = _parts(run[0].name)
    if first < 0:
        return run[0]
    last = f" to {_parts(run[-1].name)[1]}" if len(run) > 1 else ""
    name = f"{text.rstrip('._ ')} {first}{last}".strip()
    return Span(name, len(run), sum(layer.a_ns for layer in run), sum(layer.b_ns for layer in run))


def _parts(name: str) -> tuple[str, int]:
    """`layer` and 12 of `layer12`; -1 where there is no number."""
    found = re.fullmatch(r"(.*?)(\d{1,9})", name)
    return (found[1], int(found[2])) if found else (name, -1)
