"""`armillary sweep`: many points of one study, on all cores, kept as they end."""

from __future__ import annotations

import contextlib
import json as json_text
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from . import output
from .options import Json

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..errors import Problem
    from ..sweep import Progress, Status, Sweep

SCHEMA = "armillary.sweep/1"
PAGE = "report.html"
_SHOWN = 5
_EVERY_S = 10.0

StudyFile = Annotated[
    str, typer.Argument(metavar="STUDY.yml", help="What is simulated and what varies: docs/sweep.md.")
]
Out = Annotated[
    str | None, typer.Option("--output", "-o", metavar="DIR", help="Where table.parquet and the journal go.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", "-j", metavar="N", min=1, help="Workers; as many as cores when not given.")
]
Kind = Annotated[str, typer.Option("--executor", metavar="processes|ray", help="Where the workers are.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where a run of the same study into DIR ended.")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="With --resume: run points that failed again.")]
Check = Annotated[
    bool, typer.Option("--check", help="List everything wrong with the study and its points; run nothing.")
]
Csv = Annotated[
    str | None, typer.Option("--csv", metavar="FILE", help="Write the table as CSV too; - for standard output.")
]


def sweep(
    study: StudyFile,
    out: Out = None,
    workers: Workers = None,
    executor: Kind = "processes",
    resume: Resume = False,
    retry_failed: Retry = False,
    check: Check = False,
    csv: Csv = None,
    json: Json = None,
) -> None:
    """Run many points of one study: grids, lists, random and Optuna searches."""
    with output.guard():
        output.claim({"--json": json, "--csv": csv}, study)
        if check:
            _check(study, json, workers)
        found = _run(study, _folder(out), workers, executor, (resume, retry_failed))
        page = _page(found)
        if csv is not None:
            output.write_csv(csv, found.table.write_csv())
        if "-" not in (json, csv):
            _show(found, page)
        output.write_json(json, json_text.dumps(_summary(found, page), indent=2))
        if found.failed:
            output.log(f"{found.failed:,} of {found.table.height:,} points failed: column error of the table says why")
            raise typer.Exit(output.FOUND)


def _folder(out: str | None) -> str:
    """The directory asked for. Raises `InputError` without one."""
    from ..errors import InputError, Problem

    if out is None:
        raise InputError([Problem("", "--output", "is missing", "a directory, such as -o results")])
    return out


def _check(study: str, json: str | None, workers: int | None) -> None:
    """Lists every problem and ends."""
    from ..sweep import check

    with _live() as progress:
        problems: list[Problem] = check(study, progress, workers=workers)
    head = {"schema": "armillary.check/1", "version": __version__, "study": study}
    output.write_json(json, json_text.dumps({**head, "problems": [asdict(each) for each in problems]}, indent=2))
    output.show_problems(problems, limit=None)
    if problems:
        raise typer.Exit(output.WRONG)
    if json != "-":
        typer.echo("no problem found")
    raise typer.Exit


def _run(study: str, out: str, workers: int | None, executor: str, again: tuple[bool, bool]) -> Sweep:
    """The sweep; Ctrl-C keeps what is finished. `again`: go on, and run failed points again."""
    from ..sweep import sweep

    last: list[Status] = []
    try:
        with _live(last) as progress:
            resume, retry = again
            kinds = {"workers": workers, "executor": executor, "resume": resume, "retry_failed": retry}
            return sweep(study, out, **kinds, progress=progress)  # type: ignore[arg-type]
    except KeyboardInterrupt as stop:
        kept = f"; {last[-1].done:,} of {last[-1].total:,} points are kept, --resume goes on" if last else ""
        output.interrupted(stop, kept)


def _page(found: Sweep) -> str:
    """Writes the report page into the results: its path."""
    path = os.fspath(Path(found.folder or ".") / PAGE)
    found.html(path)
    return path


def _summary(found: Sweep, page: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": __version__,
        "study": found.name,
        "points": found.table.height,
        "failed": found.failed,
        "refused": found.refused,
        "table": os.fspath(found.folder / "table.parquet") if found.folder else None,
        "report": page,
    }


def _show(found: Sweep, page: str) -> None:
    """What was run, and the fastest points."""
    from rich.table import Table

    frame = found.table
    console = output.console()
    refused = f", {found.refused:,} combinations refused by constraints" if found.refused else ""
    console.print(f"{found.name}: {frame.height:,} points, {found.failed:,} failed{refused}")
    best = frame.filter(frame["step_time_ns"].is_not_null()).sort("step_time_ns", "index").head(_SHOWN)
    parameters = frame.columns[1 : frame.columns.index("step_time_ns")]
    times = ("step_time_ns", "exposed_comm_ns")
    last = [name.rpartition(".")[2] for name in parameters]
    short = [each if last.count(each) == 1 else name for each, name in zip(last, parameters, strict=True)]
    shown = Table(box=None, pad_edge=False, title="fastest", title_justify="left")
    for name in ("index", *short, *(time.replace("_ns", "_ms") for time in times)):
        shown.add_column(name, justify="right", overflow="fold")
    for index, *row in best.select("index", *parameters, *times).iter_rows():
        values = [str(cell) for cell in row[: len(parameters)]]
        shown.add_row(str(index), *values, *(f"{cell / 1e6:,.3f}" for cell in row[len(parameters) :]))
    console.print(shown)
    console.print(f"table: {Path(found.folder or '.') / 'table.parquet'}", soft_wrap=True)
    console.print(f"report: {page}", soft_wrap=True)


@contextlib.contextmanager
def _live(last: list[Status] | None = None) -> Iterator[Progress]:
    """A live table on stderr with an estimate; where stderr is not a terminal, a line every ten seconds."""
    kept: list[Status] = [] if last is None else last
    if not sys.stderr.isatty():
        yield _lines(kept)
        return
    from rich.console import Console
    from rich.live import Live

    began = monotonic()

    def drawn() -> RenderableType:
        return _progress(kept[-1], monotonic() - began) if kept else ""

    # Drawn by Live's own clock: the time goes on while a long point runs.
    with Live(get_renderable=drawn, console=Console(stderr=True), refresh_per_second=4, transient=True):
        yield lambda status: kept.__setitem__(slice(None), [status])


def _lines(kept: list[Status]) -> Progress:
    """Writes how far it is now and then, for logs; nothing where it is soon over."""
    began = said = monotonic()

    def update(status: Status) -> None:
        nonlocal said
        kept[:] = [status]
        if monotonic() - said > _EVERY_S and status.done < status.total:
            said = monotonic()
            rate, left = _pace(status, said - began)
            failed = f", {status.failed:,} failed" if status.failed else ""
            output.log(f"{status.done:,} of {status.total:,} points{failed}, {rate:,.1f}/s, {left} left")

    return update


def _pace(status: Status, seconds: float) -> tuple[float, str]:
    """Points a second and the time left."""
    rate = (status.done - status.resumed) / seconds if seconds else 0.0
    return rate, _clock((status.total - status.done) / rate) if rate else "?"


def _progress(status: Status, seconds: float) -> Table:
    """Done, failed, rate, time taken and left, best so far."""
    from rich.table import Table

    from ..report.quantity import time

    rate, left = _pace(status, seconds)
    best = "-" if status.best_ns is None else time(status.best_ns)
    share = 100 * status.done / max(status.total, 1)
    table = Table(box=None, pad_edge=False)
    for name in ("points", "done", "failed", "points/s", "elapsed", "left", "best step"):
        table.add_column(name, justify="right")
    done = f"{status.done:,} ({share:.0f} %)"
    table.add_row(f"{status.total:,}", done, f"{status.failed:,}", f"{rate:,.1f}", _clock(seconds), left, best)
    return table


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
