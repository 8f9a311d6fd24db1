"""Network backends by name, as the core lists them."""

from __future__ import annotations

from . import _core
from .errors import InputError, Problem

ALL: dict[str, str] = dict(_core.backends())
"""A short description of each backend by name, the default first."""

NAMES: tuple[str, ...] = tuple(ALL)
"""Their names."""

MESSAGES: tuple[str, ...] = tuple(name for name in NAMES if name not in ("packet", "flit"))
"""Those that carry whole messages. A study runs on them unless another is asked for: packets and
flits of a whole study take hours."""

DEFAULT: str = NAMES[0]
"""The default backend."""


def is_known(name: object) -> bool:
    """Whether there is a backend of this name."""
    return isinstance(name, str) and _core.is_backend(name)


def known(name: str) -> str:
    """The name of a backend.

    Raises `InputError` for any other."""
    if not is_known(name):
        raise InputError([Problem("", "backend", f'unknown backend "{name}"', ", ".join(NAMES))])
    return name
