"""The formats of workloads, and what each needs.

Not here: how each is written (`crates/trace`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import files
from ..errors import InputError, Problem
from ..units import GB
from . import output

if TYPE_CHECKING:
    from ..platform import Platform
    from ..workload import Workload

FORMS = {
    "compact": "a directory: workload.json and one file for each program",
    "chakra": "a directory: one Chakra trace for each rank, as ASTRA-sim reads them",
    "text": "a file as ASTRA-sim 1.0 reads it, with the times on -p P",
}

_NODE = 110
"""Approximate bytes of a node in a Chakra file."""
_LARGE = 10**9

Form = Annotated[str, typer.Option("--format", metavar="|".join(FORMS), help="Format to write.")]


def check(form: str, platform: str | None, out: str | None) -> None:
    """Refuses unknown formats, texts that can't be written, and a text without the platform that
    gives its times."""
    if form not in FORMS:
        raise InputError([Problem("", f"--format {form}", "unknown format", ", ".join(FORMS))])
    if form == "text" and platform is None:
        message = "a text workload holds times, which depend on the platform"
        raise InputError([Problem("", "--format text", message, "-p P as well")])
    if out == "-" and form != "text":
        message = "a workload is a directory and can't go to standard output"
        raise InputError([Problem("", "--output -", message, "a directory, or --format text")])
    if out == "-":
        return
    if form == "text" and out is not None:
        files.require_writable(out)
    elif out is not None:
        _replaces(Path(out), form)


def write(made: Workload, out: str, form: str, platform: Platform | None) -> int:
    """Writes to `out`, and logs it. Returns how often a text is to run, else 1."""
    passes, replaced = 1, form == "text" and Path(out).is_file()
    if form == "text" and platform is not None:
        passes = _write_text(made, out, platform)
    else:
        replaced = _replaces(Path(out), form)
        if form == "chakra" and made.operations * _NODE > _LARGE:
            output.log(
                f"writing {made.ranks:,} traces, about {made.operations * _NODE / GB:,.1f} GB; "
                "the format compact takes far less"
            )
        made.write(out, "chakra" if form == "chakra" else "compact")
    if out != "-":
        output.log(f"workload {'replaced in' if replaced else 'written to'} {out}")
    if passes > 1:
        output.log(
            f"the file does not say that it runs {passes} times: armillary run {out} --passes "
            f"{passes}"
        )
    return passes


def write_plan(model: str, chosen: Mapping[str, object], path: str | None) -> None:
    """Writes the sharding plan of a recommendation model to `path`, if one is given. Raises
    `InputError` for other models."""
    if path is None:
        return
    from ..model import load_model
    from ..model.sharding_plan_file import as_file
    from ..workload import is_model
    from ..workload.dlrm import sharding_plan

    family = load_model(model).family if is_model(model) else "workload"
    if family != "dlrm":
        said = f"{model} is a {family} and has no embedding tables"
        raise InputError([Problem("", "--write-plan", said, "a dlrm model")])
    output.write_text(path, as_file(sharding_plan(model, **chosen), path), "sharding plan")


def _write_text(made: Workload, out: str, platform: Platform) -> int:
    text = made.as_text(platform)
    files.write_text(out, text.text) if out != "-" else output.write_text(out, text.text)
    for warning in text.warnings:
        output.log(f"warning: {warning}")
    return text.passes


def _replaces(folder: Path, form: str) -> bool:
    """Whether a workload in `folder` is written over. Refuses a directory that holds something
    else.

    Traces don't replace the compact form: a run would read what stands next to them.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if form == "compact" and (folder / "workload.json").is_file():
        return True
    held = (
        "a workload in the compact form" if (folder / "workload.json").is_file() else "no workload"
    )
    raise InputError(
        [Problem(str(folder), "", f"is not empty and holds {held}", "a new or empty directory")]
    )
