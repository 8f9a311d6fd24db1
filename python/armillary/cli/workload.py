"""`armillary workload`: a model and how it is parallelised become a workload."""

from __future__ import annotations

import json as json_
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, Problem
from ..units import counted
from . import completion, forms, launches, output
from .forms import Form
from .launches import Export, From, WriteModel
from .options import Json, Npus, WritePlan, settings

if TYPE_CHECKING:
    from ..launch import Launched
    from ..platform import Platform
    from ..workload import Model, Workload

Out = Annotated[
    str | None,
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
        help="Refuse a workload that does not fit the memory of its NPUs, or of their hosts.",
        autocompletion=completion.platforms,
    ),
]


def workload(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", autocompletion=completion.workloads)
    ] = None,
    out: Out = None,
    format_: Form = "compact",
    platform: Target = None,
    npus: Npus = None,
    json: Json = None,
    write_plan: WritePlan = None,
    from_: From = None,
    export: Export = None,
    write_model: WriteModel = None,
) -> None:
    """Make a workload from a model and its parallelism.

    Prints parameters, FLOPs, volumes and memory."""
    with output.guard():
        if (model is None and from_ is None) or model in ("--help", "-h"):
            typer.echo(_help())
            return
        words = list(context.args)
        if from_ is not None and str(model).startswith("-"):
            model, words = None, [str(model), *words]
        if {"--help", "-h"} & set(words):
            from . import parsing

            typer.echo(parsing.help_of(model or "llama-3-70b"), nl=False)
            return
        made_of = {"--output": out}
        texts, folders = (made_of, {}) if format_ == "text" else ({}, made_of)
        outputs = {
            "--json": json,
            "--write-plan": write_plan,
            "--write-model": write_model,
            "--export": export[1] if export else None,
            **texts,
        }
        output.claim(outputs, model, from_[1] if from_ else None, folders=folders)
        forms.check(format_, platform, out)
        source, chosen, found = _chosen(model, words, from_)
        launches.write_model(write_model, found)
        made = _built(source, chosen)
        forms.write_plan(str(model), chosen, write_plan)
        target = _check_fit(made, platform, npus)
        launches.export(export, source, chosen)
        if out is not None:
            forms.write(made, out, format_, target)
        summary = made.summary
        outside = made.outside(target) if target and summary and summary.host else []
        if summary is not None and "-" not in (*outputs.values(), out):
            from ..report import summary as shown
            from ..report import words as shown_words

            shown_words.show(shown.page(summary, made, outside), output.console())
        written = summary.as_dict() if summary else {}
        if outside:
            written["outside"] = [asdict(memory) for memory in outside]
        if found is not None:
            written["launch"] = launches.as_dict(found, chosen)
        output.write_json(json, json_.dumps(written, indent=2))


def _chosen(
    model: str | None, words: list[str], source: tuple[str, str] | None
) -> tuple[str | Model, dict[str, object], Launched | None]:
    """The model, its options, and the job that both were read from."""
    from . import parsing

    if source is not None:
        found, options = launches.read(source, model, words)
        return found.model, options, found
    if str(model).startswith("-"):
        help_ = "MODEL first, then its options: armillary workload llama-3-70b --tp 8"
        raise InputError([Problem("", "armillary workload", f"no such option: {model}", help_)])
    return str(model), parsing.parse(str(model), words), None


def _built(source: str | Model, chosen: dict[str, object]) -> Workload:
    from .. import workload as workloads

    return workloads.build(source, **chosen)


def _help() -> str:
    """Help that does not depend on the model."""
    from ..model import models_by_family

    lines = [
        "Usage: armillary workload MODEL [OPTIONS] [OPTIONS OF ITS FAMILY]",
        "",
        "Makes a workload from a model and its parallelism, and prints a summary.",
        "MODEL is a preset, a model file, or a Hugging Face config.json; armillary workload "
        "MODEL --help",
        "explains the options of its family.",
        "",
        "  -o, --output OUT     write the workload here",
        *(f"  --format {form:<11} {text}" for form, text in forms.FORMS.items()),
        "  -p, --platform P     refuse a workload that does not fit its NPUs or hosts",
        "  --npus N             resize the platform's outermost dimension, to N NPUs in total",
        "  --json FILE          write the summary here; - for standard output",
        "  --write-plan FILE    write the sharding plan here: the ranks of each embedding table",
        "  --from FORMAT FILE   read model and options of a job that runs today: auto,",
        "                       megatron-args, torchtitan, nemo, deepspeed",
        "  --write-model FILE   write the model of --from here",
        "  --export FRAMEWORK FILE",
        "                       write launch flags that give this layout: megatron, torchtitan,",
        "                       nemo, deepspeed, maxtext",
        "",
        "Presets:",
    ]
    lines += [f"  {family}: {', '.join(names)}" for family, names in models_by_family().items()]
    return "\n".join(lines)


def _check_fit(made: Workload, platform: str | None, npus: int | None) -> Platform | None:
    """The platform, if one is named; refuses what needs more memory than its NPUs or hosts have."""
    from .. import api
    from ..platform import Platform
    from ..workload.fit import near, too_large

    if platform is None:
        return None
    target = Platform.load(platform, settings(None, npus))
    problems = []
    if made.ranks != target.npus:
        problems.append(
            Problem(
                target.name,
                "topology",
                f"has {counted(target.npus, 'NPU')}, but the workload has "
                f"{counted(made.ranks, 'rank')}",
                f"one NPU for each rank: other degrees of parallelism, or --npus {made.ranks} if "
                "the platform can be resized",
            )
        )
    problems += too_large(made.summary, target)
    if made.summary and made.summary.host and not problems:
        problems = api.check(made, target)
    if problems:
        raise InputError(problems)
    for warning in near(made.summary, target):
        output.log(f"warning: {warning}")
    return target
