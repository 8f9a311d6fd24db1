"""`armillary compare`: what moved between results, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import api
from . import output
from .options import Json

Results = Annotated[
    list[str],
    typer.Argument(metavar="A B [C...]", help="What `armillary run --json` wrote; the others beside the first."),
]


def compare(results: Results, json: Json = None) -> None:
    """Say what moved between results, by operation, and why."""
    with output.guard():
        output.claim({"--json": json}, *results)
        found = api.compare(*results)
        if json != "-":
            from ..report import words

            words.show(found.page, output.console())
        output.write_json(json, found.to_json())
