"""The breakdown on a terminal: step time, where it goes, how the network is used, which operations
weigh most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress, groupby
from typing import cast

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..schema import Class, Report
from ..step_parts import PARTS, PartDeclaration
from ..units import counted
from ..workload.summary import spans
from . import bars, run_tables, words
from .parts import Brief
from .quantity import bandwidth, number, share, size, time
from .terminal import emit, natural_width

_CLASSES = 12
_OPERATIONS = 10
_LINKS = 5
_LONGEST_RANKS = 40
"""Characters of a list of ranks; --json has it whole."""
_SHORT_RANKS = 20
"""The same next to a bar."""
_WIDE = 100
"""From this many columns on, operations have room for one more number."""


def show(report: Report, title: str, console: Console, facts: Sequence[str] = ()) -> None:
    """Prints the breakdown to fit the console's width, in plain text when it is not a terminal.

    `facts` are lines about the step as a whole, below the headline.
    """
    emit(console, _parts(report, title, console, facts))


def _parts(
    report: Report, title: str, console: Console, facts: Sequence[str]
) -> Iterator[RenderableType]:
    yield from _headline(report, title)
    yield from map(Text, facts)
    for index, warning in enumerate(report["warnings"]):
        if not index:
            yield ""
        yield Text("warning: ", "bold yellow").append(warning, "default")
    yield from _ranks(report, console)
    yield from _network(report, console)
    yield from _phases(report)
    yield from _operations(report, console)
    yield from _links(report, console)
    yield from _packets(report)
    for index, assumed in enumerate(report["assumptions"]):
        if not index:
            yield ""
        yield Text("assumed: ", "bold").append(assumed, "default")
    yield ""
    yield _footer(report)


def _headline(report: Report, title: str) -> Iterator[RenderableType]:
    yield (
        Text("Step time  ", "bold")
        .append(time(report["step_time_ns"]), "bold green")
        .append(f"   {title}", "default")
    )
    ranks, classes = report["ranks"], report["symmetry"]["classes"]
    alike = (
        f" in {number(classes)} classes that behave alike"
        if classes < ranks
        else ", each simulated by itself"
    )
    reason = f": {report['symmetry']['reason']}" if report["symmetry"]["reason"] else ""
    yield Text(f"{counted(ranks, 'rank')}{', all alike' if classes == 1 else alike}{reason}")


def _ranks(report: Report, console: Console) -> Iterator[RenderableType]:
    classes, step = report["classes"], report["step_time_ns"] or 1.0
    # Memory and waits for launches are shown where there are any; everything else always.
    used = [part.always or any(_time(item, part) for item in classes) for part in PARTS]
    yield from _heading("Where the time goes", bars.legend(console.options.ascii_only, used))
    parts = list(compress(PARTS, used))
    rows = _alike(classes, parts, step)
    shown = rows[:_CLASSES]
    table = _by_class(shown, parts, step, narrow=False)
    if natural_width(table) + 2 > console.width:
        table = _by_class(shown, parts, step, narrow=True)
    yield _indented(table)
    names = [_clip(name.partition(" (")[0], _SHORT_RANKS) for name, _ in shown]
    labels = max(map(len, names), default=0)
    for name, (_, same) in zip(names, shown, strict=True):
        bar = bars.stacked(
            _shares(same[0], step), console.width - labels - 4, console.options.ascii_only
        )
        yield Text(f"  {name:<{labels}}  ").append_text(bar)
    if left := sum(len(same) for _, same in rows[_CLASSES:]):
        yield Text(f"  and {number(left)} more classes of ranks: --json has them all", "dim")


def _alike(
    classes: Sequence[Class], parts: Sequence[PartDeclaration], step: float
) -> list[tuple[str, list[Class]]]:
    """Classes next to one another that print the same as one, by name."""
    rows = []
    for _, run in groupby(
        classes, lambda item: [_cell(_time(item, part), step, narrow=False) for part in parts]
    ):
        same = list(run)
        ranks = _joined([item["ranks"] for item in same])
        labels = [item["label"] for item in same]
        rows.append((f"{spans(labels)} ({ranks})" if all(labels) else ranks, same))
    return rows


def _joined(ranks: Sequence[str]) -> str:
    """Lists of ranks as one: `0-7` and `8` are `0-8`."""
    found: list[str] = []
    for part in ranks:
        before = re.fullmatch(r"(\d+)(?:-(\d+))?", found[-1]) if found else None
        after = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if before and after and int(before[2] or before[1]) + 1 == int(after[1]):
            found[-1] = f"{before[1]}-{after[2] or after[1]}"
        else:
            found.append(part)
    return ",".join(found)


def _by_class(
    rows: Sequence[tuple[str, list[Class]]],
    parts: Sequence[PartDeclaration],
    step: float,
    narrow: bool,
) -> Table:
    """Each row of classes, their parts as times and shares, or as shares alone."""
    table = _table(
        ("Ranks", "left"), ("NPUs", "right"), *((part.heading, "right") for part in parts)
    )
    for name, same in rows:
        cells = (_cell(_time(same[0], part), step, narrow) for part in parts)
        table.add_row(
            _clip(name, _LONGEST_RANKS), number(sum(item["count"] for item in same)), *cells
        )
    return table


def _network(report: Report, console: Console) -> Iterator[RenderableType]:
    if not report["dimensions"]:
        return
    yield from _heading("Network")
    heads = (
        ("", "right"),
        ("Dimension", "left"),
        ("Per NPU", "right"),
        ("Sent", "right"),
        ("Busy", "right"),
        ("Utilisation", "bar"),
    )
    table = _table(*heads)
    for i, item in enumerate(report["dimensions"], 1):
        bar = bars.filled(
            item["utilisation"], max(8, console.width - 68), console.options.ascii_only
        )
        use = bar.append(f" {share(item['utilisation']):>6}", "default")
        table.add_row(
            str(i),
            item["name"],
            bandwidth(item["npu_gb_per_s"]),
            size(item["bytes"]),
            time(item["busy_ns"]),
            use,
        )
    yield _indented(table)
    yield from _bounds(report)


def _bounds(report: Report) -> Iterator[RenderableType]:
    """How long the bytes take at least: as they lie on the dimensions, and with all dimensions
    busy."""
    step, bounds = report["step_time_ns"] or 1.0, report["bounds"]
    if not bounds["dimension_ns"]:
        return
    lines = [
        ("as sent", bounds["dimension_ns"]),
        ("if spread evenly", bounds["network_ns"]),
    ]
    for what, least in lines[: len(report["dimensions"])]:
        yield Text(f"  At least {time(least)} ({share(least / step)} of the step) {what}", "dim")


def _phases(report: Report) -> Iterator[RenderableType]:
    if report["phases"]:
        yield from _heading("Phases of collectives", Text("mean of each", "dim"))
        yield _indented(words.grid(run_tables.phases(report)))


def _operations(report: Report, console: Console) -> Iterator[RenderableType]:
    if report["operations"]:
        yield from _heading("Top operations", Text("time that each costs over all ranks", "dim"))
        heads = ["Operation", "Kind", "Count", "Cost", "Mean", "Longest", "Bytes"]
        if console.width < _WIDE:
            heads.remove("Longest")
        table = replace(run_tables.operations(report), brief=Brief(heads, _OPERATIONS))
        yield _indented(words.grid(table))


def _links(report: Report, console: Console) -> Iterator[RenderableType]:
    for table in run_tables.links(report):
        note = Text("links used alike share a row; values are for each", "dim")
        yield from _heading(table.caption, note)
        grid = words.grid(replace(table, brief=Brief(rows=_LINKS)))
        if natural_width(grid) + 2 > console.width:
            rows = [[_short(row[0]), *row[1:]] for row in table.rows]
            heads = ["Link", "Alike", "Busy", "Carried", "Mean wait"]
            grid = words.grid(replace(table, rows=rows, brief=Brief(heads, _LINKS)))
        yield _indented(grid)


def _short(link: str) -> str:
    """`npu0 -> npu4 (dim 2)`, where there is no room for `(dimension 2)`."""
    return link.replace(" (dimension ", " (dim ")


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2))


def _packets(report: Report) -> Iterator[RenderableType]:
    if report.get("packets"):
        from . import packets

        yield from _heading("Packets")
        yield from (Text(f"  {line}") for line in packets.lines(report))
    if report.get("flits"):
        from . import flits

        yield from _heading("Flits")
        yield from (Text(f"  {line}") for line in flits.lines(report))


def _footer(report: Report) -> Text:
    counts = report["counts"]
    work = f"{number(counts['operations'])} operations, {number(counts['transfers'])} transfers"
    return Text(f"{work}; digest {report['digest']}", "dim")


def _heading(title: str, note: Text | None = None) -> Iterator[RenderableType]:
    yield ""
    line = Text(title, "bold")
    yield line.append("   ").append_text(note) if note else line


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in columns:
        table.add_column(
            name, justify="right" if justify == "right" else "left", no_wrap=justify != "left"
        )
    return table


def _cell(ns: float, step: float, narrow: bool) -> str:
    return share(ns / step) if narrow else f"{time(ns, 3)} {share(ns / step):>6}"


def _shares(item: Class, step: float) -> list[float]:
    return [_time(item, part) / step for part in PARTS]


def _time(item: Class, part: PartDeclaration) -> float:
    return cast(dict[str, float], item)[part.field]


def _clip(ranks: str, longest: int) -> str:
    """A list of ranks, cut after a whole rank where it is long."""
    head = ranks[: longest - 3]
    return ranks if len(ranks) <= longest else f"{head.rpartition(',')[0] or head},..."
