"""`armillary study`: the papers' numbers next to ours."""

from __future__ import annotations

import contextlib
import json as json_text
from typing import TYPE_CHECKING, Annotated

import typer

from armillary import __version__, backends
from armillary.cli import output
from armillary.cli.options import Json, ReportName
from armillary.errors import InputError, Problem
from armillary.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..studies import Entry, Study, StudyRow

SCHEMA = "armillary.study/1"


def _beginning(incomplete: str) -> list[str]:
    """Studies with this beginning, for a shell to complete."""
    from ..studies import STUDIES

    return [entry.name for entry in STUDIES if entry.name.startswith(incomplete)]


Name = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY",
        help="The study to run (default: list all studies).",
        autocompletion=_beginning,
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAMES",
        help="Network backends, separated by commas (default: all that the study uses).",
    ),
]
Figures = Annotated[
    str | None,
    typer.Option(
        "--figures",
        metavar="DIR",
        help="Write every figure into this directory as SVG, PNG and CSV.",
    ),
]

Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on from the finished runs of the same study, which was interrupted."
    ),
]


def study(
    name: Name = None,
    backend: Only = None,
    html: ReportName = None,
    figures: Figures = None,
    json: Json = None,
    resume: Resume = False,
) -> None:
    """List the studies, or repeat one and compare it with its paper."""
    from .. import studies

    with output.guard():
        output.claim({"--report": html, "--json": json})
        if name is None:
            _list(studies.STUDIES, json)
            return
        found = studies.study(name)
        names = [backends.known(name.strip()) for name in backend.split(",")] if backend else []
        rows = _rows(found, names or backends.MESSAGES, resume)
        head = {
            "schema": SCHEMA,
            "version": __version__,
            "study": found.name,
            "code": found.code,
            "title": found.title,
        }
        body = {
            "source": found.source,
            "setup": found.setup,
            "rows": [row.as_dict() for row in rows],
        }
        output.write_json(json, json_text.dumps({**head, **body}, indent=2))
        if "-" not in (json, html):
            from armillary.report import words

            from ..pages import study_page

            words.show(study_page.page({**head, **body}), output.console())
        _draw(found, rows, {**head, **body}, html, figures)


def _rows(found: Study, names: Sequence[str], resume: bool) -> list[StudyRow]:
    """The rows of a study. Finished runs are kept until its end; `resume` goes on from them."""
    from armillary.files import cache_directory
    from armillary.kept_runs import KeptRuns, keeping

    kept = None
    with contextlib.suppress(OSError):
        kept = KeptRuns(cache_directory() / "studies" / f"{found.name}.runs", resume)
    try:
        with output.clock(f"study {found.name}"), keeping(kept):
            return found.rows(names)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("armillary_train", "torch"):
            raise
        needed = package.replace("_", "-")
        said = f"the study needs the package {needed}, which is not installed"
        ways = "pip install ./train in a clone, or pip install armillary-train"
        raise InputError([Problem("", f"armillary study {found.name}", said, ways)]) from None
    except KeyboardInterrupt as stop:
        if kept is None or not kept.known:
            raise
        count = counted(len(kept.known), "finished run")
        output.interrupted(stop, f"; {count} kept; --resume continues")


def _draw(
    found: Study,
    rows: Sequence[StudyRow],
    study: Mapping[str, object],
    html: str | None,
    figures: str | None,
) -> None:
    """Writes the page and the figures that were asked for."""
    if html is None and figures is None:
        return
    from armillary.report.page import write_figures

    from ..pages import study_page

    charts = found.charts(rows) if found.charts else study_page.charts(study)
    if html is not None:
        output.write_page(html, study_page.page(study, charts).html())
    if figures is not None:
        output.log(f"{counted(len(write_figures(figures, charts)), 'file')} written to {figures}")


def _list(found: Sequence[Entry], json: str | None) -> None:
    rows = [
        {"name": each.name, "code": each.code, "title": each.title, "source": each.source}
        for each in found
    ]
    output.write_json(
        json, json_text.dumps({"schema": SCHEMA, "version": __version__, "studies": rows}, indent=2)
    )
    if json != "-":
        from armillary.report import words

        from ..pages import study_page

        words.show_table(study_page.listed(rows), output.console())
