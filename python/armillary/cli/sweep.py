"""`armillary sweep`: many points of one study, on all cores, kept as they end."""

from __future__ import annotations

import contextlib
import json as json_text
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from . import output
from .options import Json, Settings, typed_settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..errors import Problem
    from ..report.page import Page
    from ..sweep import Progress, Status, Sweep
    from ..sweep.view import View

SCHEMA = "armillary.sweep/1"
PAGE = "report.html"
_REASONS = 10
_EVERY_S = 10.0

StudyFile = Annotated[
    str,
    typer.Argument(
        metavar="STUDY.yml",
        help="The study: what is simulated and what varies (docs/guides/sweep.md).",
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Write table.parquet, the journal and the page into this directory.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", "-j", metavar="N", min=1, help="Number of workers (default: number of cores)."
    ),
]
Kind = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="processes|ray",
        help="Where workers run: processes of this machine, or a Ray cluster.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an earlier run of the same study in DIR.")
]
Retry = Annotated[
    bool, typer.Option("--retry-failed", help="With --resume: run points that failed again.")
]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="List everything wrong with the study and its points; run nothing."
    ),
]
Include = Annotated[
    bool,
    typer.Option(
        "--include-infeasible",
        help="Also rank and draw points that do not fit in memory, and mark them.",
    ),
]
Near = Annotated[
    bool,
    typer.Option(
        "--near",
        help="Also rank and draw points that may not fit in memory (fits: near), and mark them.",
    ),
]
Csv = Annotated[
    str | None,
    typer.Option(
        "--csv", metavar="FILE", help="Write the table as CSV too; - for standard output."
    ),
]


def sweep(
    study: StudyFile,
    out: Out = None,
    workers: Workers = None,
    executor: Kind = "processes",
    resume: Resume = False,
    retry_failed: Retry = False,
    check: Check = False,
    include_infeasible: Include = False,
    near: Near = False,
    csv: Csv = None,
    json: Json = None,
    set_: Settings = None,
) -> None:
    """Simulate many points of a study: grid, list, random or Optuna."""
    with output.guard("armillary sweep --check"):
        output.claim({"--json": json, "--csv": csv}, study, folders={"--output": out})
        changed = typed_settings(set_)
        if check:
            _check(study, json, workers, changed)
        found = _run(study, _folder(out), workers, executor, (resume, retry_failed), changed)
        view = found.view(include_infeasible, near)
        shown = found.page(include_infeasible=include_infeasible, near=near)
        page = _page(found, shown)
        if csv is not None:
            output.write_csv(csv, found.frame.to_csv())
        if "-" not in (json, csv):
            _show(found, shown, page)
        output.write_json(json, json_text.dumps(_summary(found, page, view), indent=2))
        _say_failures(found)
        if found.failed:
            raise typer.Exit(output.FOUND)


def _say_failures(found: Sweep) -> None:
    """Why points did not run, grouped: combinations that can't exist, and faults."""
    from ..sweep.failures import failures, total

    every, of = failures(found.frame), f"of {found.frame.height:,} points"
    heads = {True: f"{of} can't exist, which is not a fault", False: f"{of} failed"}
    for impossible, head in heads.items():
        some = [each for each in every if each.impossible == impossible]
        if some:
            output.log(f"{total(some, impossible):,} {head}:")
        for each in some[:_REASONS]:
            output.log(f"  {each.count:>6,}  {each.text} (first: point {each.first['index']})")
        if len(some) > _REASONS:
            output.log(f"  {len(some) - _REASONS} more reasons: see column error of the table")


def _folder(out: str | None) -> str:
    """The directory asked for. Raises `InputError` without one."""
    from ..errors import InputError, Problem

    if out is None:
        raise InputError([Problem("", "--output", "is missing", "a directory, such as -o results")])
    return out


def _check(
    study: str, json: str | None, workers: int | None, changed: Mapping[str, object]
) -> None:
    """Lists every problem and ends."""
    from ..sweep import check

    with _live() as progress:
        problems: list[Problem] = check(study, progress, workers=workers, settings=changed)
    head = {"schema": "armillary.check/1", "version": __version__, "study": study}
    output.write_json(
        json, json_text.dumps({**head, "problems": [asdict(each) for each in problems]}, indent=2)
    )
    output.show_problems(problems, limit=None)
    if problems:
        raise typer.Exit(output.WRONG)
    if json != "-":
        typer.echo("no problem found")
    raise typer.Exit


def _run(
    study: str,
    out: str,
    workers: int | None,
    executor: str,
    again: tuple[bool, bool],
    changed: Mapping[str, object],
) -> Sweep:
    """The sweep; Ctrl-C keeps what is finished. `again`: go on, and run failed points again;
    `changed`: values of the platform."""
    from ..sweep import sweep

    last: list[Status] = []
    try:
        with _live(last) as progress:
            resume, retry = again
            kinds = {
                "workers": workers,
                "executor": executor,
                "resume": resume,
                "retry_failed": retry,
                "settings": changed,
            }
            return sweep(study, out, **kinds, progress=progress)  # type: ignore[arg-type]
    except KeyboardInterrupt as stop:
        kept = (
            f"; {last[-1].done:,} of {last[-1].total:,} points are kept; --resume continues"
            if last
            else ""
        )
        output.interrupted(stop, kept)


def _page(found: Sweep, shown: Page) -> str | None:
    """Writes the report page into the results: its path, or nothing where that can't be. The table
    is there already."""
    from ..errors import InputError

    path = os.fspath(Path(found.folder or ".") / PAGE)
    try:
        shown.write(path)
    except InputError as error:
        output.log(f"warning: there is no report: {error}")
        return None
    return path


def _summary(found: Sweep, page: str | None, view: View) -> dict[str, Any]:
    from ..sweep.out_of_memory import near_best
    from ..sweep.slower_points import losers

    indices = view.ran["index"]
    return {
        "schema": SCHEMA,
        "version": __version__,
        "study": found.name,
        "points": found.frame.height,
        "failed": found.failed,
        "impossible": found.impossible,
        "infeasible": found.infeasible,
        "near": found.near,
        "refused": found.refused,
        "best": next((indices[row] for row in view.ranking), None),
        "near_best": near_best(view),
        "losers": losers(view),
        "warnings": [asdict(each) for each in found.warnings],
        "alike": [indices[row] for row in view.alike],
        "table": os.fspath(found.folder / "table.parquet") if found.folder else None,
        "report": page,
    }


def _show(found: Sweep, shown: Page, page: str | None) -> None:
    """Prints the number of runs, what a terminal shows of the page, and the files."""
    from ..report import words

    console = output.console()
    console.print(f"{found.name}: {found.said()}")
    words.show(shown, console)
    console.print(f"table: {Path(found.folder or '.') / 'table.parquet'}", soft_wrap=True)
    if page is not None:
        console.print(f"report: {page}", soft_wrap=True)


@contextlib.contextmanager
def _live(last: list[Status] | None = None) -> Iterator[Progress]:
    """A live table on stderr with an estimate; where stderr is not a terminal, a line every ten
    seconds."""
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
    with Live(
        get_renderable=drawn, console=Console(stderr=True), refresh_per_second=4, transient=True
    ):
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
            output.log(
                f"{status.done:,} of {status.total:,} points{failed}, {rate:,.1f}/s, {left} left"
            )

    return update


def _pace(status: Status, seconds: float) -> tuple[float, str]:
    """Points a second and the time left."""
    rate = (status.done - status.resumed) / seconds if seconds else 0.0
    return rate, _clock((status.total - status.done) / rate) if rate else "?"


def _progress(status: Status, seconds: float) -> RenderableType:
    """Done, failed, rate, time taken and left, best so far."""
    from ..report import words
    from ..report.page import Table
    from ..report.quantity import time

    rate, left = _pace(status, seconds)
    cells = {
        "points": f"{status.total:,}",
        "done": f"{status.done:,} ({100 * status.done / max(status.total, 1):.0f} %)",
        "failed": f"{status.failed:,}",
        "points/s": f"{rate:,.1f}",
        "elapsed": _clock(seconds),
        "left": left,
        "best step": "-" if status.best_ns is None else time(status.best_ns),
    }
    return words.grid(Table("Progress", list(cells), [list(cells.values())], labels=0))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
