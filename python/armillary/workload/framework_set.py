"""The option `framework_set`: behaviour of a training framework, key by key.

Here: reading it, from mappings and from `KEY=VALUE`. Not here: the meaning of its keys
(`parallelism.py`), descriptions of frameworks (`frameworks.py`)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import get_args

from ..errors import InputError, Problem
from ..option_fields import near, types
from .parallelism import FRAMEWORK_KEYS, Parallelism

OPTION = "framework_set"
_FLAGS = {"true": True, "on": True, "false": False, "off": False}


def flat(name: str, options: Mapping[str, object]) -> dict[str, object]:
    """The options of the model `name` with the keys of `framework_set` next to the others. Raises
    `InputError` for unknown keys."""
    given = options.get(OPTION)
    rest = {key: value for key, value in options.items() if key != OPTION}
    if given is None:
        return rest
    if not isinstance(given, Mapping):
        allowed = f"keys and values: {', '.join(FRAMEWORK_KEYS)}"
        raise InputError([Problem(name, OPTION, f"{given!r} is not a mapping", allowed)])
    unknown = [str(key) for key in given if key not in FRAMEWORK_KEYS]
    if unknown:
        raise InputError(
            [
                Problem(name, f"{OPTION}.{key}", "unknown key", near(key, list(FRAMEWORK_KEYS)))
                for key in unknown
            ]
        )
    return rest | dict(given)


def nested(options: Mapping[str, object]) -> dict[str, object]:
    """Options with the keys of `framework_set` where they belong."""
    keys = {key: value for key, value in options.items() if key in FRAMEWORK_KEYS}
    rest = {key: value for key, value in options.items() if key not in FRAMEWORK_KEYS}
    given = rest.pop(OPTION, None)
    inside = {**(given if isinstance(given, Mapping) else {}), **keys}
    return {**rest, OPTION: inside} if inside else rest


def pair(text: str) -> tuple[str, object]:
    """Key and value of `KEY=VALUE`. Raises `InputError` for a text without `=`."""
    key, sign, value = text.partition("=")
    if not sign:
        allowed = "KEY=VALUE, such as overlap_tp=true"
        raise InputError([Problem("", f"--framework-set {text}", "has no '='", allowed)])
    return key.strip(), value_of(key.strip(), value.strip())


def value_of(key: str, text: str) -> object:
    """The value of a key as a text gives it; the text itself where it is none."""
    hint = types(Parallelism).get(key, str)
    kind = next((each for each in (*get_args(hint), hint) if each in (bool, int, float)), str)
    if kind is bool:
        return _FLAGS.get(text, text)
    with contextlib.suppress(ValueError):
        return kind(text)
    return text
