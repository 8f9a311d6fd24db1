"""Models where workloads can stand: the options of their families on other verbs, and a platform of
the right size."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import old_words
from ..errors import InputError, Problem, flag
from ..units import counted
from . import output
from .options import settings

if TYPE_CHECKING:
    from ..platform import Platform
    from ..workload import Workload

Options = Mapping[str, str | bool | list[str]]
"""The given options of models, as text; flags as `bool`, and lists of `KEY=VALUE`."""
_NONE: tuple[object, ...] = (None, [])


def takes_models(
    verb: Callable[..., None], words: Collection[str] | None = None
) -> Callable[..., None]:
    """The verb with the options of every family, with `words` only those among them (typer takes a
    tenth of a second for all); those given are its parameter `options`.

    Which family's they must be is known when the model is. They don't stand in `--help`, which
    would be long: `armillary workload MODEL --help` explains those of a model. Names that the verb
    has itself keep its meaning."""
    own = inspect.signature(verb, eval_str=True)
    extra = {
        name: parameter
        for name, parameter in _parameters(_foreign(own, words)).items()
        if name not in own.parameters
        and (words is None or flag(name) in words or flag(f"no_{name}") in words)
    }

    @functools.wraps(verb)
    def called(**given: Any) -> None:  # noqa: ANN401
        options = {name: given.pop(name) for name in extra}
        verb(
            **given, options={name: value for name, value in options.items() if value not in _NONE}
        )

    mine = [parameter for name, parameter in own.parameters.items() if name != "options"]
    called.__signature__ = own.replace(parameters=[*mine, *extra.values()])  # type: ignore[attr-defined]
    return called


def _foreign(own: inspect.Signature, words: Collection[str] | None) -> frozenset[str] | None:
    """The options among `words` that the verb does not have itself; `None` for any."""
    if words is None:
        return None
    its = {"--help", *(flag(name) for name in own.parameters)}
    return frozenset(word for word in words if word.startswith("--") and word not in its)


@functools.cache
def _parameters(wanted: frozenset[str] | None) -> dict[str, inspect.Parameter]:
    """The options of families as typer reads them from a signature: of one family after the other,
    until all that is `wanted` is found."""
    found: dict[str, inspect.Parameter] = {}
    if wanted is not None and not wanted:
        return found
    from ..model.files import FAMILIES
    from ..workload import families
    from . import parsing

    for family in (*FAMILIES, "captured"):
        if wanted is not None and all(_is_among(word, found) for word in wanted):
            break
        for name, option in families.options(family).items():
            found.setdefault(name, _parameter(name, parsing.kind(option.annotation)[0]))
        for name, word in old_words.of("model", family).items():
            found.setdefault(name, _parameter(name, bool if word.is_flag else str))
    return found


def _is_among(word: str, options: Collection[str]) -> bool:
    """Whether an option of the command line is one of `options`, or the opposite of one."""
    return any(word in (flag(name), flag(f"no_{name}")) for name in options)


def _parameter(name: str, kind: type) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name, kind)
    )


def _annotation(name: str, kind: type) -> object:
    """A flag with its opposite, a text, or several: what they must be is checked with the
    family."""
    if kind is dict:
        return Annotated[list[str] | None, typer.Option(flag(name), hidden=True)]
    if kind is bool:
        return Annotated[
            bool | None,
            typer.Option(f"{flag(name)}/{flag('no_' + name)}", hidden=True),
        ]
    return Annotated[str | None, typer.Option(flag(name), hidden=True)]


class RecordedError(InputError):
    """A recording where a workload is wanted."""


def source(
    name: str,
    options: Options,
    platform: Platform | None = None,
    groups: str | None = None,
    passes: int = 1,
) -> Workload:
    """The workload of that name, or the one that the model of that name becomes with `options`.
    Raises `InputError`: for a recording, which has to be imported, `RecordedError`."""
    from ..workload import is_model, load
    from ..workload.workload import is_text

    is_text_with_options = bool(options) and is_text(name)
    if not is_text_with_options and not is_model(name):
        try:
            return load(name, platform, groups, passes, **options)
        except InputError:
            if not (kind := kind_of_recording(name)):
                raise
            if kind.startswith("snapshot"):
                raise InputError(
                    [Problem(name, "", f"is a {kind}", f"armillary check {name}")]
                ) from None
            way = f"armillary import {name} -o job, and then job in its place"
            raise RecordedError([Problem(name, "", f"is a {kind}", way)]) from None
    from . import parsing

    if is_text_with_options:
        return load(name, platform, groups, passes, **parsing.text_options(name, options))
    return load(name, None, groups, passes, **parsing.options(name, options))


def kind_of_recording(name: str) -> str:
    """The kind of a recorded file, empty for other files. The whole file is read."""
    from .. import documents

    if not documents.is_file(name):
        return ""
    from ..workload.importer import reading

    try:
        return reading.read(Path(name))[0].kind.value
    except InputError:
        return ""


def on(
    platform: str,
    set_: list[str] | None,
    npus: int | None,
    name: str,
    options: Options,
    read: Callable[[Platform], Workload],
) -> tuple[Workload, Platform]:
    """The workload `name` that `read` makes, and the platform with the settings of the framework
    among `options`. For a model the platform is resized, which is logged."""
    from ..platform import Platform

    given: dict[str, object] = dict(settings(set_, npus))
    if "framework" in options:
        from ..workload.frameworks import settings_of

        given = {**settings_of(options), **given}
    target = Platform.load(platform, given)
    from ..workload import is_model

    made = read(target)
    if not is_model(name) or "npus" in given or target.npus == made.ranks:
        return made, target
    output.log(
        f"{target.name}: {counted(target.npus, 'NPU')} resized to {made.ranks:,}, one for each "
        f"rank of {name}"
    )
    from .. import api

    return made, api.sized(platform, made, given)


def chosen(name: str, options: Options) -> dict[str, object]:
    """The options as the family of the model `name` takes them; none for a workload."""
    from ..workload import is_model

    if not is_model(name):
        return {}
    from . import parsing

    return parsing.options(name, options)


def title(name: str, options: Options) -> str:
    """The words that name a workload: `llama-3-70b --tp 8 --sp`."""
    from ..option_fields import spelled

    words = [spelled(option, value) for option, value in options.items()]
    return " ".join([name, *(word for pair in words for word in pair)])
