"""`armillary migrate`: files in words of today."""

from __future__ import annotations

import json as json_
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__
from ..errors import InputError, Problem
from ..units import counted
from . import output
from .options import Json

if TYPE_CHECKING:
    from ..migrate import Migrated

Names = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="YAML files: platforms, sweeps, designs and others."),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the new file here; - for standard output."
    ),
]
InPlace = Annotated[
    bool,
    typer.Option("--in-place", help="Replace the files, and keep each as it was in FILE.orig."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Only say whether there are old words: exit code 1.")
]


def migrate(
    names: Names,
    out: Out = None,
    in_place: InPlace = False,
    check: Check = False,
    json: Json = None,
) -> None:
    """Replace old words in files by those of today.

    Comments, order and layout stay. Without --in-place or --output it prints the difference, and
    writes nothing."""
    with output.guard():
        _require_one_way(names, out, in_place, check)
        output.claim({"--output": out, "--json": json}, *names)
        from ..migrate import run

        found = _all(names)
        changed = [each for each in found if each.changes]
        if in_place:
            run.require_free(changed)
            for each in changed:
                run.write(each)
        if out is not None:
            output.write_text(out, found[0].after)
        output.write_json(json, _json(found))
        if not (out is not None or in_place or check or json == "-"):
            for each in changed:
                typer.echo(each.diff, nl=False)
        _say(found, in_place)
    if check and any(each.changes or each.left for each in found):
        raise typer.Exit(output.FOUND)


def _all(names: Sequence[str]) -> list[Migrated]:
    """Every file; all problems of all files at once."""
    from ..migrate import migrate as migrated

    found, problems = [], []
    for name in names:
        try:
            found.append(migrated(name))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _require_one_way(names: Sequence[str], out: str | None, in_place: bool, check: bool) -> None:
    ways = {"--output": out is not None, "--in-place": in_place, "--check": check}
    given = [option for option, is_given in ways.items() if is_given]
    problems = []
    if len(given) > 1:
        problems.append(Problem("", " ".join(given), "exclude each other", "one of them"))
    if out is not None and len(names) > 1:
        problems.append(
            Problem("", "--output", f"for {len(names)} files", "one file, or --in-place")
        )
    real = [os.path.realpath(name) for name in names]
    problems += [
        Problem(name, "", "is named twice", "each file once")
        for index, name in enumerate(names)
        if real[index] in real[:index]
    ]
    if problems:
        raise InputError(problems)


def _say(found: Sequence[Migrated], written: bool) -> None:
    """Lists kinds and old words of the files on standard error."""
    for each in found:
        words = counted(len(each.changes), "old word") if each.changes else "no old word"
        done = "; replaced" if written and each.changes else ""
        output.log(f"{each.file}: {each.kind}, {words}{done}")
        for left in each.left:
            output.log(f"warning: {each.file}: {left.place} is left as it is: {left.why}")


def _json(found: Sequence[Migrated]) -> str:
    from ..migrate.run import SCHEMA

    warnings = [
        f"{each.file}: {left.place} is left as it is: {left.why}"
        for each in found
        for left in each.left
    ]
    made = {
        "schema": SCHEMA,
        "version": __version__,
        "files": [each.as_dict() for each in found],
        "warnings": warnings,
    }
    return json_.dumps(made, indent=2)
