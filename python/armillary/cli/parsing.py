"""Parses the options of a model's family from the command line.

Not here: what they mean (the families' builders and `Parallelism`).
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, NoReturn

from .. import old_words
from ..errors import InputError, Problem, flag
from ..old_words import OldWord
from ..option_fields import meanings, parameters, spelled
from ..workload import Model, families, framework_set, load_model, texts

_VALUES: dict[object, str] = {int: "a whole number", float: "a number"}


def options(model: str, given: Mapping[str, str | bool | list[str]]) -> dict[str, object]:
    """The options `given` for a model, as its family takes them. Raises `InputError`."""
    return parse(model, [word for name, value in given.items() for word in spelled(name, value)])


def text_options(name: str, given: Mapping[str, str | bool | list[str]]) -> dict[str, object]:
    """The options `given` for the text workload `name`. Raises `InputError`."""
    declared = texts.Options
    parser = _Parser(name, argument_default=argparse.SUPPRESS, allow_abbrev=False, add_help=False)
    meaning = meanings(declared)
    for parameter in parameters(declared):
        _add(parser, parameter, meaning[parameter.name])
    words = [word for option, value in given.items() for word in spelled(option, value)]
    return vars(parser.parse_args(words))


def parse(model: str | Model, arguments: Sequence[str]) -> dict[str, object]:
    """The options of the model's family among `arguments`, those that were given. Raises
    `InputError`."""
    return vars(_parser(model, explained=False).parse_args(arguments))


def help_of(model: str) -> str:
    """The options of the model's family and what they mean."""
    return _parser(model, explained=True).format_help()


def _parser(model: str | Model, explained: bool) -> _Parser:
    """Reads the options of the model's family, `explained` with their meanings. These take longer
    to find than all else."""
    found = load_model(model)
    name = model.name if isinstance(model, Model) else model
    parser = _Parser(
        f"armillary workload {name}",
        usage=f"armillary workload {name} [OPTIONS] [-o OUT] [--format F] [-p P] [--npus N] "
        "[--json FILE]",
        description=families.DESCRIPTIONS[found.family],
        epilog=f"Other verbs take the same options: armillary run {name} -p P [OPTIONS].",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        add_help=False,
    )
    meaning = families.explanations(found.family) if explained else {}
    parameters = families.options(found.family)
    groups, forms = families.option_groups(found.family), families.forms(found.family)
    for title, names in groups.items():
        group = parser.add_argument_group(title if len(groups) > 1 else "Options")
        for name in names:
            if name in parameters:
                _add(group, parameters[name], meaning.get(name, ""), forms[name].value)
    for name, word in old_words.of("model", found.family).items():
        _add_old(parser, name, word, parameters.get(word.new))
    return parser


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong as every verb does."""

    def error(self, message: str) -> NoReturn:
        said = message.replace("unrecognized arguments:", "no such option:")
        raise InputError([Problem("", self.prog, said, self._allowed(message))])

    def _allowed(self, message: str) -> str:
        """The values of the option that `message` is about, else the options that are like it, else
        all."""
        known = [
            action.option_strings[0] for action in self._actions if action.help != argparse.SUPPRESS
        ]
        unknown = re.match(r"unrecognized arguments: (--[^\s=]+)", message)
        near = difflib.get_close_matches(unknown[1], known, n=3) if unknown else []
        if near:
            return ", ".join(near)
        named = re.match(r"argument (--[a-z0-9-]+)", message)
        about = next(
            (action for action in self._actions if named and named[1] in action.option_strings),
            None,
        )
        if about is None:
            return ", ".join(known)
        if about.choices:
            return ", ".join(about.choices)
        return "no value" if about.nargs == 0 else _VALUES.get(about.type, "a value")


def _add_old(
    parser: argparse.ArgumentParser, name: str, word: OldWord, new: inspect.Parameter | None
) -> None:
    """An option under its old name, which no help lists."""
    key = word.new.removeprefix(framework_set.OPTION + ".")
    if word.is_flag:
        action = argparse.BooleanOptionalAction
        parser.add_argument(flag(name), action=action, help=argparse.SUPPRESS)
    else:
        same = kind(new.annotation)[0] if new and word.convert is None else str
        read = partial(framework_set.value_of, key) if key != word.new else same
        parser.add_argument(flag(name), type=read, help=argparse.SUPPRESS)


class _Pairs(argparse.Action):
    """`KEY=VALUE`, as often as it is given, as one mapping."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        key, value = framework_set.pair(str(values))
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), key: value})


def _add(
    parser: argparse._ActionsContainer,
    parameter: inspect.Parameter,
    meaning: str,
    form: str | None = None,
) -> None:
    type_, choices = kind(parameter.annotation)
    required = parameter.default is inspect.Parameter.empty
    words = {True: "on", False: "off"} if type_ is bool else {}
    default = (
        "" if parameter.default is None else f" [{words.get(parameter.default, parameter.default)}]"
    )
    text = (meaning + (" [required]" if required else default)).strip().replace("%", "%%")
    if type_ is bool:
        parser.add_argument(flag(parameter.name), action=argparse.BooleanOptionalAction, help=text)
    elif type_ is dict:
        parser.add_argument(flag(parameter.name), action=_Pairs, metavar="KEY=VALUE", help=text)
    else:
        name = (
            "|".join(choices)
            if choices
            else form or {int: "N", float: "X", str: "TEXT"}.get(type_, type_.__name__)
        )
        parser.add_argument(
            flag(parameter.name),
            type=type_,
            choices=choices or None,
            metavar=name,
            required=required,
            help=text,
        )


def kind(annotation: object) -> tuple[type, tuple[str, ...]]:
    """The type of a value, and the choices where there are only some."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        kept = [part for part in typing.get_args(annotation) if part is not type(None)]
        return kind(kept[0])
    if typing.get_origin(annotation) is Literal:
        return str, typing.get_args(annotation)
    if typing.get_origin(annotation) is Mapping:
        return dict, ()
    return (annotation if isinstance(annotation, type) else str), ()
