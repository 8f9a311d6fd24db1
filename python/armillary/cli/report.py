"""`armillary report`: the page of a run from its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import output

ResultName = Annotated[str, typer.Argument(metavar="RESULT", help="What `armillary run --json` wrote.")]
Out = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="The page; - for standard output. [RESULT.html]")
]
Figures = Annotated[
    str | None,
    typer.Option("--figures", metavar="DIR", help="Write each chart as SVG, PNG and CSV into this directory."),
]


def report(result: ResultName, out: Out = None, figures: Figures = None) -> None:
    """Make the page of a run from its JSON; write its charts as files."""
    with output.guard():
        from ..report import reading, run_page

        target = out or str(Path(result).with_suffix(".html"))
        output.require_writable(target)
        page = run_page.page(reading.read(result))
        output.write_page(target, page.html())
        if figures is not None:
            from ..report.page import write_figures

            names = write_figures(figures, page.figures())
            output.log(f"{len(names)} files written to {figures}")
