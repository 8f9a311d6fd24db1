"""`armillary check`: everything wrong with the input, without simulating."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, TypeVar

import typer

from .. import __version__, api
from ..errors import InputError, Problem
from ..platform import Platform
from ..workload import Workload, is_model
from ..workload.fit import too_large
from . import models, output
from .options import (
    BackendName,
    Groups,
    Json,
    Npus,
    Passes,
    PlatformName,
    Settings,
    settings,
)

SCHEMA = "armillary.check/1"

Input = TypeVar("Input", Platform, Workload)

WorkloadName = Annotated[
    str | None,
    typer.Argument(
        metavar="WORKLOAD",
        help="Traces or a text workload; leave it out to check a platform alone.",
    ),
]


def check(
    platform: PlatformName,
    workload: WorkloadName = None,
    backend: BackendName = None,
    groups: Groups = None,
    json: Json = None,
    npus: Npus = None,
    set_: Settings = None,
    passes: Passes = 1,
    *,
    options: models.Options,
) -> None:
    """List all problems of the input, without simulating.

    WORKLOAD may be a model with its options, as for run."""
    with output.guard():
        output.claim({"--json": json}, workload, platform, groups)
        problems: list[Problem] = []
        if passes != 1 and workload is None:
            problems.append(
                Problem("", f"--passes {passes}", "there is no workload", "a text workload as well")
            )
        target = _attempt(lambda: Platform.load(platform, settings(set_, npus)), problems)
        source = (
            _attempt(lambda: models.source(workload, options, target, groups, passes), problems)
            if workload
            else None
        )
        if target and source and workload and is_model(workload):
            made, given = source, settings(set_, npus)
            target = (
                target
                if "npus" in given
                else _attempt(lambda: api.sized(platform, made, given), problems)
            )
        if target and source:
            problems += api.check(source, target, backend=backend) + too_large(
                source.summary, target
            )
        elif target:
            problems += target.problems()
        head = {
            "schema": SCHEMA,
            "version": __version__,
            "workload": workload,
            "platform": platform,
        }
        output.write_json(
            json,
            json_text.dumps(
                {**head, "problems": [asdict(problem) for problem in problems]}, indent=2
            ),
        )
        output.show_problems(problems, limit=None)
        if problems:
            raise typer.Exit(output.WRONG)
        if json != "-":
            typer.echo("no problem found")


def _attempt(read: Callable[[], Input], problems: list[Problem]) -> Input | None:
    """The value; for a bad file nothing, with its problems added, so that all files are
    reported."""
    try:
        return read()
    except InputError as error:
        problems += error.problems
        return None
