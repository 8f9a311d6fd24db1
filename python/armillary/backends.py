"""Network backends by name, as the core lists them."""

from __future__ import annotations

import re

from . import _core
from .errors import InputError, Problem

ALL: dict[str, str] = dict(_core.backends())
"""A short description of each backend by name, the default first."""

NAMES: tuple[str, ...] = tuple(ALL)
"""Names of the backends."""

MESSAGES: tuple[str, ...] = tuple(name for name in NAMES if name not in ("packet", "flit"))
"""Those that carry whole messages. A study runs on them unless another is asked for: packets and
flits of a whole study take hours."""

DEFAULT: str = NAMES[0]
"""The default backend."""


EXTERNAL = "external:"
"""Prefix of the names of simulators in other processes. Only the command line and Python name them:
a file that somebody sent must not start a program."""


def split(listed: str) -> list[str]:
    """Names of a list with commas; a command of a simulator may contain commas too."""
    starts = "|".join(re.escape(name) for name in NAMES)
    parts = re.split(rf",(?=\s*(?:(?:{starts})\s*(?:,|$)|{EXTERNAL}))", listed)
    return [part.strip() for part in parts if part.strip()]


def is_external(name: object) -> bool:
    """Whether this names a simulator in another process."""
    return isinstance(name, str) and name.startswith(EXTERNAL)


def is_known(name: object) -> bool:
    """Whether there is a built-in backend of this name."""
    return isinstance(name, str) and not is_external(name) and _core.is_backend(name)


def known(name: str, place: str = "backend") -> str:
    """The name of a backend, which `place` gave.

    Raises `InputError` for any other."""
    if not is_known(name):
        raise InputError([Problem("", place, f'unknown backend "{name}"', ", ".join(NAMES))])
    return name
