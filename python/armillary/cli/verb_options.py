"""Options of a verb from the fields of a dataclass, by the mechanism of the options of models.

A field's name, type, default and docstring are the option's. `Annotated` with `typer.Option` adds
how it is written: a short name, the word for its value. Each class that others inherit is a heading
of the help. Not here: what the fields mean (the file of each verb)."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

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
        written = _option(hints[each.name])
        written.help = meanings.get(each.name, written.help)
        written.rich_help_panel = headings[each.name]
        kind = option_fields.types(declared)[each.name]
        yield each.replace(annotation=Annotated[kind, written])


def _option(hint: object) -> OptionInfo:
    """How a field says that it is written; a copy, which may be changed."""
    found = [each for each in typing.get_args(hint)[1:] if isinstance(each, OptionInfo)]
    return copy.copy(found[0]) if found else typer.Option()
