"""`armillary convert`: a workload in another format."""

from __future__ import annotations

import json as json_text
from functools import partial
from typing import Annotated

import typer

from .. import __version__
from ..errors import InputError, Problem
from ..units import counted
from . import forms, models, output
from .forms import Form
from .options import Groups, Json, Npus, Passes, Settings

SCHEMA = "armillary.convert/1"

WorkloadName = Annotated[
    str,
    typer.Argument(metavar="WORKLOAD", help="A workload: anything that `armillary run` accepts."),
]
Out = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        help="Write the workload here; - for standard output (--format text).",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="P",
        help="Platform of a text workload: its NPUs, or the times to write into it.",
    ),
]


def convert(
    workload: WorkloadName,
    out: Out,
    format_: Form = "compact",
    platform: Target = None,
    groups: Groups = None,
    passes: Passes = 1,
    npus: Npus = None,
    set_: Settings = None,
    json: Json = None,
    *,
    options: models.Options,
) -> None:
    """Write a workload, or a model, in another format."""

    with output.guard():
        made = {"--output": out}
        texts, folders = (made, {}) if format_ == "text" else ({}, made)
        output.claim({"--json": json, **texts}, workload, groups, platform, folders=folders)
        forms.check(format_, platform, out)
        _check(workload, platform, npus, set_)
        read = partial(models.source, workload, options, groups=groups, passes=passes)
        source, target = (
            models.on(platform, set_, npus, workload, options, read) if platform else (read(), None)
        )
        runs = forms.write(source, out, format_, target)
        counts = {
            "ranks": source.ranks,
            "programs": source.programs,
            "operations": source.operations,
            "passes": runs,
        }
        if "-" not in (json, out):
            kinds = (
                ("rank", source.ranks),
                ("program", source.programs),
                ("operation", source.operations),
            )
            typer.echo(", ".join(counted(count, what) for what, count in kinds))
        head = {
            "schema": SCHEMA,
            "version": __version__,
            "workload": workload,
            "output": out,
            "format": format_,
        }
        output.write_json(json, json_text.dumps({**head, **counts}, indent=2))


def _check(workload: str, platform: str | None, npus: int | None, set_: list[str] | None) -> None:
    """Refuses options that need a platform if none is given."""
    from ..workload.workload import is_text

    if platform is not None:
        return
    problems = []
    if is_text(workload):
        problems.append(
            Problem(
                workload,
                "",
                "a text workload does not say how many NPUs it runs on",
                "-p P as well",
            )
        )
    if npus is not None or set_:
        flag = "--set" if npus is None else "--npus"
        problems.append(Problem("", flag, "changes a platform, but none is given", "-p P as well"))
    if problems:
        raise InputError(problems)
