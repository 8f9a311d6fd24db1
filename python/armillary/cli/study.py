"""`armillary study`: the papers' numbers beside ours."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__
from . import output
from .options import Backend, Json

if TYPE_CHECKING:
    from ..studies import Study

SCHEMA = "armillary.study/1"

Name = Annotated[str | None, typer.Argument(metavar="STUDY", help="Which to run; without it they are listed.")]
Only = Annotated[
    Backend | None, typer.Option("--backend", help="The network to run on; without it every one the study knows.")
]


def study(name: Name = None, backend: Only = None, json: Json = None) -> None:
    """List the studies, or rerun one: paper, ours, ratio, and why they differ."""
    from .. import studies

    with output.guard():
        output.require_writable(json)
        if name is None:
            _list(studies.studies(), json)
            return
        found = studies.study(name)
        rows = found.rows([str(backend)] if backend else studies.BACKENDS)
        head = {"schema": SCHEMA, "version": __version__, "study": found.name, "title": found.title}
        body = {"source": found.source, "setup": found.setup, "rows": [row.as_dict() for row in rows]}
        output.write_json(json, json_text.dumps({**head, **body}, indent=2))
        if json != "-":
            from ..report import study as report

            report.show({**head, **body}, output.console())


def _list(found: list[Study], json: str | None) -> None:
    rows = [{"name": each.name, "title": each.title, "source": each.source} for each in found]
    output.write_json(json, json_text.dumps({"schema": SCHEMA, "version": __version__, "studies": rows}, indent=2))
    if json != "-":
        from ..report import study as report

        report.show_list(rows, output.console())
