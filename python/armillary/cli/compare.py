"""`armillary compare`: what moved between results, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import api
from . import output
from .options import Json, ReportName

Results = Annotated[
    list[str],
    typer.Argument(
        metavar="A B [C...]",
        help="Results of `armillary run --json`; the first one is compared with the others.",
    ),
]


def compare(results: Results, json: Json = None, report: ReportName = None) -> None:
    """Compare results: what changed between them, and why."""
    with output.guard():
        output.claim({"--json": json, "--report": report}, *results)
        found = api.compare(*results)
        if "-" not in (json, report):
            from ..report import words

            words.show(found.page, output.console())
        output.write_json(json, found.to_json())
        if report is not None:
            output.write_page(report, found.html())
