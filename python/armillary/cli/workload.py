"""`armillary workload`: a model and how it is parallelised become a workload."""

from __future__ import annotations

import argparse
import inspect
import json as json_
import re
import types
import typing
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from ..errors import InputError, Problem
from . import forms, output
from .forms import Form
from .options import Json, Npus, settings

if TYPE_CHECKING:
    from ..platform import Platform
    from ..workload import Workload

SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""A family's options are known when the model is: they, and --help, are parsed then."""

Out = Annotated[str | None, typer.Option("--output", "-o", metavar="OUT", help="Write the workload here.")]
Target = Annotated[
    str | None, typer.Option("--platform", "-p", metavar="P", help="Refuse a workload that does not fit its NPUs.")
]


def workload(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="MODEL")] = None,
    out: Out = None,
    format_: Form = "compact",
    platform: Target = None,
    npus: Npus = None,
    json: Json = None,
) -> None:
    """Make a workload of a model and its parallelism: parameters, FLOPs, volumes, memory."""
    from .. import workload as workloads

    with output.guard():
        if model in (None, "--help", "-h"):
            typer.echo(_help())
            return
        output.claim({"--json": json}, model)
        forms.check(format_, platform, out)
        found = workloads.load_model(str(model))
        chosen = _parse(found.name, found.family, context.args)
        made = workloads.build(found, **chosen)
        target = _check_fit(made, platform, npus)
        if out is not None:
            forms.write(made, out, format_, target)
        summary = made.summary
        if summary is not None and json != "-":
            from ..report import summary as report

            report.show(summary, made, output.console())
        output.write_json(json, json_.dumps(summary.as_dict() if summary else {}, indent=2))


def _help() -> str:
    """What can be said before the model is known."""
    from ..workload import families, load_model, models

    lines = [
        "Usage: armillary workload MODEL [OPTIONS] [OPTIONS OF ITS FAMILY]",
        "",
        "Makes a workload of a model and its parallelism, and says what it amounts to.",
        "MODEL is a preset, a model file, or a Hugging Face config.json; armillary workload MODEL --help",
        "explains the options of its family.",
        "",
        "  -o, --output OUT     write the workload here",
        *(f"  --format {form:<11} {text}" for form, text in forms.FORMS.items()),
        "  -p, --platform P     refuse a workload that does not fit the memory of its NPUs",
        "  --npus N             resize the platform's outermost dimension to N NPUs in all",
        "  --json FILE          write the summary here; - for standard output",
        "",
        "Presets:",
    ]
    by_family: dict[str, list[str]] = {}
    for name in models():
        by_family.setdefault(load_model(name).family, []).append(name)
    for family, names in by_family.items():
        flags = ", ".join(_flag(option) for option in families.options(family))
        lines += [f"  {family}: {', '.join(names)}", f"    options: {flags}"]
    return "\n".join(lines)


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


_VALUES: dict[object, str] = {int: "a whole number", float: "a number"}


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong as every verb does."""

    def error(self, message: str) -> NoReturn:
        raise InputError([Problem("", self.prog, message, self._allowed(message))])

    def _allowed(self, message: str) -> str:
        """The values of the option that `message` is about, else all options."""
        named = re.match(r"argument (--[a-z0-9-]+)", message)
        about = next((action for action in self._actions if named and named[1] in action.option_strings), None)
        if about is None:
            return ", ".join(action.option_strings[0] for action in self._actions)
        if about.choices:
            return ", ".join(about.choices)
        return "no value" if about.nargs == 0 else _VALUES.get(about.type, "a value")


def _parse(model: str, family: str, arguments: list[str]) -> dict[str, object]:
    """The family's options among `arguments`, those that were given."""
    from ..workload import families

    text = inspect.cleandoc(families.builder(family).__doc__ or "").replace("`", "").replace("%", "%%")
    parser = _Parser(
        f"armillary workload {model}",
        usage=f"armillary workload {model} [OPTIONS] (-o OUT, -p P, --npus N, --format F, --json FILE and:)",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    meaning = families.explanations(family)
    for parameter in families.options(family).values():
        _add(parser, parameter, meaning.get(parameter.name, ""))
    return vars(parser.parse_args(arguments))


def _add(parser: argparse.ArgumentParser, parameter: inspect.Parameter, meaning: str) -> None:
    kind, choices = _kind(parameter.annotation)
    required = parameter.default is inspect.Parameter.empty
    default = "" if parameter.default is None else f" [{parameter.default}]"
    text = (meaning + (" [required]" if required else default)).strip().replace("%", "%%")
    if kind is bool:
        parser.add_argument(_flag(parameter.name), action=argparse.BooleanOptionalAction, help=text)
    else:
        name = "|".join(choices) if choices else {int: "N", float: "X", str: "TEXT"}.get(kind, kind.__name__)
        parser.add_argument(
            _flag(parameter.name), type=kind, choices=choices or None, metavar=name, required=required, help=text
        )


def _kind(annotation: object) -> tuple[type, tuple[str, ...]]:
    """The type of a value, and the choices where there are only some."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        kept = [part for part in typing.get_args(annotation) if part is not type(None)]
        return _kind(kept[0])
    if typing.get_origin(annotation) is Literal:
        return str, typing.get_args(annotation)
    return (annotation if isinstance(annotation, type) else str), ()


def _check_fit(made: Workload, platform: str | None, npus: int | None) -> Platform | None:
    """The platform, if one is named; refuses what needs more memory than its NPUs have."""
    from ..platform import Platform

    if platform is None:
        return None
    target = Platform.load(platform, settings(None, npus))
    problems = []
    if made.ranks != target.npus:
        problems.append(
            Problem(
                target.name,
                "topology",
                f"has {target.npus} NPUs for a workload of {made.ranks}",
                f"as many NPUs as ranks: other degrees of parallelism, or --npus {made.ranks} where the platform grows",
            )
        )
    capacity: int | None = target.describe()["npu"]["memory_capacity_bytes"]
    summary = made.summary
    for entry in summary.classes if summary and capacity else ():
        if entry.memory.total > (capacity or 0):
            problems.append(_too_large(entry.name, entry.memory.total, capacity or 0, target.name))
    if problems:
        raise InputError(problems)
    return target


def _too_large(name: str, need: int, capacity: int, platform: str) -> Problem:
    message = f"{name} needs {need / 1e9:.1f} GB of the {capacity / 1e9:.1f} GB on an NPU of {platform}"
    return Problem("", "memory", message, "more parallelism, ZeRO, recomputation, or a smaller micro-batch")
