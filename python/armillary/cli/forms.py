"""The forms a workload is written in, and what each needs.

Not here: how each is written (`crates/trace`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import files
from ..errors import InputError, Problem
from . import output

if TYPE_CHECKING:
    from ..platform import Platform
    from ..workload import Workload

FORMS = {
    "compact": "a directory: workload.json, one file a program",
    "chakra": "a directory: one Chakra trace a rank, as ASTRA-sim reads them",
    "text": "a file as ASTRA-sim 1.0 reads it, with the times on -p P",
}

_NODE = 110
"""Bytes a node takes in a Chakra file, about."""
_LARGE = 10**9

Form = Annotated[str, typer.Option("--format", metavar="|".join(FORMS), help="What is written.")]


def check(form: str, platform: str | None, out: str | None) -> None:
    """Refuses what is no form, and a text that can't be written or has no platform whose times it is to hold."""
    if form not in FORMS:
        raise InputError([Problem("", f"--format {form}", "is no form of a workload", ", ".join(FORMS))])
    if form == "text" and platform is None:
        message = "a text workload holds times, which only a platform can tell"
        raise InputError([Problem("", "--format text", message, "-p P with it")])
    if form == "text" and out is not None:
        files.require_writable(out)


def write(made: Workload, out: str, form: str, platform: Platform | None) -> int:
    """Writes to `out`, says so, and how often a text is to run: that number, else 1."""
    passes = 1
    if form == "text" and platform is not None:
        passes = _write_text(made, out, platform)
    else:
        _require_free(Path(out))
        if form == "chakra" and made.operations * _NODE > _LARGE:
            output.log(
                f"writing {made.ranks:,} traces, about {made.operations * _NODE / 1e9:,.1f} GB; compact is small"
            )
        made.write(out, "chakra" if form == "chakra" else "compact")
    output.log(f"workload written to {out}")
    if passes > 1:
        output.log(f"it runs {passes} times, which the file does not say: armillary run {out} --passes {passes}")
    return passes


def _write_text(made: Workload, out: str, platform: Platform) -> int:
    text = made.as_text(platform)
    files.write_text(out, text.text)
    for warning in text.warnings:
        output.log(f"warning: {warning}")
    return text.passes


def _require_free(folder: Path) -> None:
    """Refuses a directory that holds something else."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not (folder / "workload.json").is_file():
        raise InputError([Problem(str(folder), "", "is not empty and holds no workload", "a new or empty directory")])
