"""`armillary ingest`: turns click logs into files of columns to train on."""

from __future__ import annotations

import json as json_text
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary import __version__
from armillary.cli import completion, output
from armillary.cli.options import Json
from armillary.errors import InputError, Problem
from armillary.units import counted

if TYPE_CHECKING:
    from ..data.ingest import Result
    from ..data.recipe import Recipe

SCHEMA = "armillary.ingest/1"
_MOST_THREADS = 4096

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="Click logs: text (.gz too) or Parquet files, or a folder with a file for each day.",
    ),
]
Out = Annotated[
    str, typer.Option("--output", "-o", metavar="DIR", help="Folder for the data, a new one.")
]
RecipeFile = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="FILE",
        help="Recipe: meaning and conversion of each column. Default: Criteo's logs as published.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Take categories modulo the rows of this model's tables. Default: `train` does.",
        autocompletion=completion.workloads,
    ),
]
HeldOut = Annotated[
    int | None,
    typer.Option(
        "--held-out",
        metavar="N",
        help="Days kept for evaluation: the last files, or sevenths of a single one. Default: 1.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", help="Number of threads. Default: number of cores."),
]


def ingest(
    sources: Sources,
    out: Out,
    recipe: RecipeFile = None,
    model: Model = None,
    held_out: HeldOut = None,
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Turn click logs into files of columns to train on."""
    with output.guard():
        from ..data.ingest import find_sources
        from ..data.ingest import ingest as run

        output.claim({"--json": json}, recipe, *sources, folders={"--output": out})
        if threads is not None and not 1 <= threads <= _MOST_THREADS:
            said = f"{threads} is out of range"
            raise InputError(
                [Problem("", "--threads", said, f"a whole number from 1 to {_MOST_THREADS:,}")]
            )
        made = _recipe(recipe, model, held_out)
        paths = find_sources(sources)
        with output.progress("ingesting", clock=False) as update:
            show = None if update is None else lambda done, what: update(done, 0.0, what)
            result = run(paths, out, made, threads=threads or _cores(), progress=show)
        body = _body(out, result)
        output.write_json(json, json_text.dumps(body, indent=2))
        if json != "-":
            train, kept = body["samples"].values()
            rate = body["megabytes_per_second"]
            typer.echo(
                f"{out}: {counted(train, 'sample')} to train on and {kept:,} held out, "
                f"in {result.seconds:.1f} s, {rate:,.0f} MB/s of text"
            )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _recipe(file: str | None, model: str | None, held_out: int | None) -> Recipe:
    from ..data import recipe, recipe_file

    made = recipe.criteo() if file is None else recipe_file.read_recipe(file)
    if model is not None:
        from armillary.model import load_model
        from armillary.model.dlrm import parse

        facts = parse(load_model(model))
        made = made.with_rows([table.rows for table in facts.tables], facts.name)
    if held_out is not None:
        if held_out < 0:
            said = f"{held_out} is out of range"
            raise InputError([Problem("", "--held-out", said, "a number from 0")])
        made = replace(made, held_out=recipe.HeldOut(days=held_out))
    return made


def _body(folder: str, result: Result) -> dict[str, Any]:
    manifest = result.manifest
    files = [file for split in manifest.splits.values() for file in split]
    return {
        "schema": SCHEMA,
        "version": __version__,
        "folder": folder,
        "samples": {name: manifest.samples(name) for name in manifest.splits},
        "files": len(files),
        "bytes": sum(file.record.bytes for file in files),
        "sources": list(manifest.sources),
        "source_bytes": result.bytes,
        "text_bytes": result.text_bytes,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
        "megabytes_per_second": result.text_bytes / 1e6 / max(result.seconds, 1e-9),
    }
