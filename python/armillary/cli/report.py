"""`armillary report`: the page of a run from its JSON, of a sweep from its results."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, documents
from ..errors import InputError, Problem
from ..units import counted
from . import output
from .options import Json, NoWhatIf

if TYPE_CHECKING:
    from ..report.page import Page

SCHEMA = "armillary.page/1"

ResultName = Annotated[
    str,
    typer.Argument(
        metavar="RESULT", help="A result of `armillary run --json` or `armillary sweep -o`."
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the page here; - for standard output. [RESULT.html]",
    ),
]
Heat = Annotated[
    str | None,
    typer.Option("--heat", metavar="X,Y", help="For a sweep: the two parameters of its heat map."),
]
Include = Annotated[
    bool,
    typer.Option(
        "--include-infeasible",
        help="For a sweep: also rank and draw points that do not fit in memory.",
    ),
]
Near = Annotated[
    bool,
    typer.Option(
        "--near", help="For a sweep: also rank and draw points that may not fit in memory."
    ),
]
Figures = Annotated[
    str | None,
    typer.Option(
        "--figures", metavar="DIR", help="Write each chart as SVG, PNG and CSV into this directory."
    ),
]


def report(
    result: ResultName,
    out: Out = None,
    figures: Figures = None,
    heat: Heat = None,
    include_infeasible: Include = False,
    near: Near = False,
    no_what_if: NoWhatIf = False,
    json: Json = None,
) -> None:
    """Make the HTML page of a result or a sweep.

    With --figures also its charts as files."""
    with output.guard():
        swept = documents.is_folder(result) or Path(result).suffix == ".parquet"
        target = out or (
            str(_folder(result) / "report.html")
            if swept
            else str(Path(result).with_suffix(".html"))
        )
        output.claim({"--output": target, "--json": json}, result, folders={"--figures": figures})
        page = (
            _of_sweep(result, heat, include_infeasible, near)
            if swept
            else _of_run(result, heat, not no_what_if)
        )
        output.write_page(target, page.html())
        names: list[str] = []
        if figures is not None:
            from ..report.page import write_figures

            names = write_figures(figures, page.figures())
            output.log(f"{counted(len(names), 'file')} written to {figures}")
        made = {"result": result, "page": target, "title": page.title, "verdict": page.verdict}
        head = {"schema": SCHEMA, "version": __version__}
        output.write_json(
            json,
            json_text.dumps(
                {**head, **made, "figures": names, "warnings": list(page.warnings)}, indent=2
            ),
        )


def _folder(result: str) -> Path:
    return Path(result) if documents.is_folder(result) else Path(result).parent


def _of_run(result: str, heat: str | None, what_if: bool) -> Page:
    from .. import api
    from ..explain import step_interval
    from ..explain.verdict import verdict
    from ..report import reading, run_page

    if heat is not None:
        raise InputError(
            [
                Problem(
                    "", "--heat", f"is for sweeps, and {result} is a file", "the results of a sweep"
                )
            ]
        )
    found = reading.read(result)
    with output.progress("what would help", clock=False) as update:
        said = verdict(found, api.rerun(found) if what_if and found["detail"] else None, update)
    return run_page.page(found, said.sentence, step_interval.sentence(found) or "")


def _of_sweep(result: str, heat: str | None, include_infeasible: bool, near: bool) -> Page:
    from ..sweep import load

    pair = tuple(heat.split(",")) if heat is not None else None
    if pair is not None and (len(pair) != 2 or pair[0] == pair[1]):
        raise InputError(
            [Problem("", "--heat", f"{heat!r} is not a pair of parameters", "X,Y: --heat tp,outer")]
        )
    return load(result).page(pair, include_infeasible=include_infeasible, near=near)
