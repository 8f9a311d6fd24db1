"""Options of a verb from the fields of a dataclass, by the mechanism of the options of models.

A field's name, type, default and docstring are the option's. `Annotated` with `typer.Option`, or
with `Written` where the fields know no command line, adds how it is written: a short name, the word
for its value. Each class that others inherit is a heading of the help. Not here: what the fields
mean (the file of each verb)."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, cast

import typer
from typer.models import OptionInfo

from .. import option_fields


def takes(declared: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb, whose last parameter holds the options, their names on the command line."""

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(verb, eval_str=True)
        *arguments, last = own.parameters.values()

        @functools.wraps(verb)
        def called(**given: Any) -> None:  # noqa: ANN401
            fields = {each.name: given.pop(each.name) for each in dataclasses.fields(declared)}
            verb(**given, **{last.name: declared(**fields)})

        # One keyword after another, so that an argument with a default may come first.
        mine = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in arguments]
        called.__signature__ = own.replace(parameters=[*mine, *_parameters(declared)])  # type: ignore[attr-defined]
        return called

    return decorate


def _parameters(declared: type) -> Iterator[inspect.Parameter]:
    """The fields as typer reads them: with their docstrings as help, below their headings."""
    hints = typing.get_type_hints(declared, include_extras=True)
    meanings = option_fields.meanings(declared)
    headings = {
        name: title for title, names in option_fields.groups(declared).items() for name in names
    }
    for each in option_fields.parameters(declared):
        kind, words = _kind(option_fields.types(declared)[each.name])
        written = _option(hints[each.name], words)
        written.help = meanings.get(each.name, written.help)
        written.rich_help_panel = headings[each.name]
        yield each.replace(annotation=Annotated[kind, written])


def _kind(type_: Any) -> tuple[Any, str]:  # noqa: ANN401
    """The type as typer reads it, and a word for its values. Words that a field allows are a text:
    what has the fields says which are wrong, as it does in Python."""
    parts = [part for part in typing.get_args(type_) or (type_,) if part is not type(None)]
    if typing.get_origin(type_) is typing.Literal:
        return str, "|".join(parts)
    if typing.get_origin(parts[0]) is typing.Literal:
        return str | None, "|".join(typing.get_args(parts[0]))
    return type_, {int: "N", float: "X"}.get(parts[0], "")


def _option(hint: object, words: str) -> OptionInfo:
    """How a field says that it is written; a copy, which may be changed."""
    for each in typing.get_args(hint)[1:]:
        if isinstance(each, OptionInfo):
            found = copy.copy(each)
            found.metavar = found.metavar or words or None
            return found
        if isinstance(each, option_fields.Written):
            names = (each.option,) if each.option else ()
            return cast(OptionInfo, typer.Option(*names, metavar=each.value or words or None))
    return cast(OptionInfo, typer.Option(metavar=words or None))
