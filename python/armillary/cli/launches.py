"""Launch files on the command line: `--from`, `--export` and `--write-model` of `workload`.

Not here: the formats (`launch/`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, Problem
from . import output

if TYPE_CHECKING:
    from ..launch import Launched
    from ..workload import Model

From = Annotated[
    tuple[str, str] | None,
    typer.Option("--from", metavar="FORMAT FILE", help="Read model and options of a job here."),
]
Export = Annotated[
    tuple[str, str] | None,
    typer.Option("--export", metavar="FRAMEWORK FILE", help="Write flags of a framework here."),
]
WriteModel = Annotated[
    str | None,
    typer.Option("--write-model", metavar="FILE", help="Write the model of --from here."),
]
_SHOWN = 12
"""Keys that are listed."""


def read(
    source: tuple[str, str], model: str | None, words: Sequence[str]
) -> tuple[Launched, dict[str, object]]:
    """The job of a launch file, and its options with those of the command line over them. Says
    what was assumed. Raises `InputError`."""
    from .. import launch
    from ..workload import Model
    from . import parsing

    chosen = parsing.parse(Model("the job", "moe", {}), words)
    ranks = chosen.pop("ranks", None)
    assert ranks is None or isinstance(ranks, int)
    found = launch.read(source[1], source[0], model=model, ranks=ranks)
    for note in found.notes:
        output.log(f"warning: {source[1]}: {note}")
    if found.idle:
        more = f" and {len(found.idle) - _SHOWN} more" if len(found.idle) > _SHOWN else ""
        output.log(f"change no time: {', '.join([*found.idle][:_SHOWN])}{more}")
    options = {**found.options, **chosen}
    inner = [each.get("framework_set") for each in (found.options, chosen)]
    options["framework_set"] = {
        key: value for each in inner if isinstance(each, Mapping) for key, value in each.items()
    }
    kept = {key: value for key, value in options.items() if value not in (None, {})}
    output.log(f"options: {spelled(kept)}")
    return found, kept


def spelled(options: Mapping[str, object]) -> str:
    """Options as they stand on a command line."""
    from ..option_fields import spelled as words

    return " ".join(word for name, value in options.items() for word in words(name, value))


def as_dict(found: Launched, options: Mapping[str, object]) -> dict[str, object]:
    """A job as JSON has it."""
    return {
        "format": found.format,
        "model": {"name": found.model.name, "family": found.model.family, **found.model.fields},
        "options": dict(options),
        "warnings": list(found.notes),
        "idle": dict(found.idle),
    }


def write_model(path: str | None, found: Launched | None) -> None:
    """Writes the model of a job as a model file. Raises `InputError` without a job."""
    if path is None:
        return
    if found is None:
        said = "is given without --from"
        raise InputError([Problem("", "--write-model", said, "--from FORMAT FILE as well")])
    from ..launch.model_file import model_file

    output.write_text(path, model_file(found.model), "model")


def export(
    target: tuple[str, str] | None, model: str | Model, options: Mapping[str, object]
) -> None:
    """Writes launch flags that give the layout, if they are asked for. Raises `InputError`."""
    if target is None:
        return
    from .. import launch

    output.write_text(target[1], launch.export(model, options, target[0]), "launch file")
