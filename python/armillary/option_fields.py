"""Options of a model or of a verb, each declared once: the fields of a dataclass.

A field's name, type and default, and the docstring below it, are all there is to know of an option.
Signatures, the reading of options, the help of the command line and the tables in docs/ follow from
them. Not here: which options there are (those of models in `workload/`, those of verbs in
`cli/`)."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_args, get_type_hints

from . import old_words
from .errors import InputError, Problem, flag

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """The form of an option on a command line, where its name and its type do not say it."""

    value: str | None = None
    """Word for its value."""
    option: str | None = None
    """Another name."""


@functools.cache
def types(declared: type) -> Mapping[str, Any]:
    """The type of each option."""
    return MappingProxyType(get_type_hints(declared))


@functools.cache
def written(declared: type) -> Mapping[str, Written]:
    """How each option is written on a command line."""
    hints = get_type_hints(declared, include_extras=True)
    return MappingProxyType({name: _written(hint) for name, hint in hints.items()})


def _written(hint: object) -> Written:
    said = [each for each in get_args(hint)[1:] if isinstance(each, Written)]
    return said[0] if said else Written()


@functools.cache
def parameters(declared: type) -> tuple[inspect.Parameter, ...]:
    """The options as parameters of a function; those without a default are required."""
    hints = types(declared)
    return tuple(
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty
            if each.default is dataclasses.MISSING
            else each.default,
            annotation=hints[each.name],
        )
        for each in dataclasses.fields(declared)
    )


def meanings(declared: type) -> Mapping[str, str]:
    """Meaning of each option: the docstring below its field, as plain text."""
    return {name: text for each in _declarations(declared) for name, text in _described(each)}


def groups(declared: type) -> Mapping[str, list[str]]:
    """The names of the options by group. A class that others inherit is a group, with the first
    sentence of its docstring as title."""
    return {
        str(each.__doc__).partition(".")[0]: names
        for each in _declarations(declared)
        if (names := list(vars(each).get("__annotations__", ())))
    }


def _declarations(declared: type) -> list[type]:
    """The class and those that it inherits options from, the first ones first."""
    return [each for each in reversed(declared.__mro__) if dataclasses.is_dataclass(each)]


def _described(declared: type) -> Iterator[tuple[str, str]]:
    """The fields that a class declares itself, with their docstrings."""
    (described,) = ast.parse(inspect.getsource(declared)).body
    for before, after in pairwise(getattr(described, "body", [])):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
        ):
            text = " ".join(str(ast.literal_eval(after.value)).split())
            yield before.target.id, text.replace("`", "")


def takes_options(declared: type, *without: str, model: str | None = None) -> Callable[[F], F]:
    """Gives a function of `model` and `**options` the signature that names the options, all fields
    but `without`; `model` is the default of the first parameter."""
    first = inspect.Parameter(
        "model",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=inspect.Parameter.empty if model is None else model,
    )
    named = [each for each in parameters(declared) if each.name not in without]

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*arguments: object, **given: object) -> object:
            current, old = old_words.options(function.__name__, given)
            old_words.warn(old)
            return function(*arguments, **current)

        called.__signature__ = inspect.Signature([first, *named])  # type: ignore[attr-defined]
        called.__options__ = declared  # type: ignore[attr-defined]
        return cast(F, called)

    return decorate


def read(declared: type[T], place: str, given: Mapping[str, Any]) -> T:
    """The options `given`. Raises `InputError` listing every unknown and every missing one."""
    known = {each.name: each for each in parameters(cast(type, declared))}
    problems = [
        Problem(place, key, "unknown option", near(key, list(known)))
        for key in given
        if key not in known
    ]
    problems += [
        Problem(place, key, "is missing", meanings(declared).get(key, "a value"))
        for key, each in known.items()
        if each.default is inspect.Parameter.empty and key not in given
    ]
    if problems:
        raise InputError(problems)
    return declared(**given)


def spelled(option: str, value: object) -> list[str]:
    """An option as it stands on a command line."""
    if isinstance(value, bool):
        return [flag(option) if value else flag("no_" + option)]
    if isinstance(value, Mapping):
        pairs = (
            f"{key}={str(each).lower() if isinstance(each, bool) else each}"
            for key, each in value.items()
        )
        return [word for each in pairs for word in (flag(option), each)]
    if isinstance(value, list) and option == "framework_set":
        return [word for each in value for word in (flag(option), str(each))]
    return [flag(option), str(value)]


def near(key: str, known: list[str]) -> str:
    """The names that are like `key`, or all of them."""
    return ", ".join(difflib.get_close_matches(key, known, n=3, cutoff=0.5) or known)
