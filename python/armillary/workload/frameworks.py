"""Training frameworks as data: the options that each one decides (`frameworks/*.yml`).

A file has a `summary`, a `source`, what the description was `validated` with, and two lists. Of
`options` each entry gives an option of decoders (`name`), its `value`, where that is known from
(`source`), and optionally `when` it holds: other options and their values, a list of values, or
`"> 1"`. Of `settings` each entry gives a key of the platform, such as the time in which the host
launches a kernel. Options and settings that the user gives win over both."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .. import documents
from ..errors import InputError, Problem
from ..option_fields import near
from .parallelism import Parallelism

FRAMEWORKS = Path(__file__).resolve().parent.parent / "frameworks"
"""Folder of the descriptions that come with Armillary."""

_HEAD = ("summary", "source", "validated", "options", "settings")
_ENTRY = ("name", "value", "when", "source")
_ABOVE = re.compile(r"> ([0-9]{1,9})")
_OWN = ("framework", "framework_set")
_DEFAULTS = {each.name: each.default for each in dataclasses.fields(Parallelism)}


@dataclass(frozen=True, slots=True)
class FrameworkChoice:
    """One option or setting that a framework decides."""

    name: str
    value: object
    source: str
    when: tuple[tuple[str, object], ...] = ()
    """Options and what they must be: a value, a tuple of values, or a text such as `> 1`."""

    def holds(self, options: Mapping[str, object]) -> bool:
        """Whether the choice is one for a job with these options."""
        return all(_is(options.get(name, _DEFAULTS[name]), want) for name, want in self.when)


@dataclass(frozen=True, slots=True)
class Framework:
    """Behaviour of a training framework."""

    name: str
    summary: str
    source: str
    validated: str
    """Measured runs that were predicted with this description."""
    choices: tuple[FrameworkChoice, ...]
    platform: tuple[FrameworkChoice, ...]

    def options(self, given: Mapping[str, object]) -> dict[str, object]:
        """The options of a job for which `given` are chosen: those that the framework decides, and
        over them the given ones."""
        return {each.name: each.value for each in self.choices if each.holds(given)} | dict(given)

    @property
    def settings(self) -> dict[str, object]:
        """Keys of the platform and their values."""
        return {each.name: each.value for each in self.platform}


def _is(value: object, want: object) -> bool:
    if isinstance(want, tuple):
        return value in want
    above = _ABOVE.fullmatch(want) if isinstance(want, str) else None
    if above is None:
        return value == want
    return isinstance(value, (int, float)) and value > int(above[1])


def frameworks() -> list[str]:
    """Names of the descriptions that come with Armillary."""
    return sorted(path.stem for path in FRAMEWORKS.glob("*.yml"))


@cache
def load_framework(name: str | os.PathLike[str]) -> Framework:
    """The framework `name`, or the description in the file at the path `name`. Raises `InputError`
    listing every problem; for an unknown name with the known ones."""
    text = os.fspath(name)
    path = FRAMEWORKS / f"{text}.yml"
    if "/" in text or not documents.is_file(path):
        path = Path(text)
    if not documents.is_file(path):
        close = difflib.get_close_matches(text.lower(), frameworks(), n=3) or frameworks()
        raise InputError(
            [Problem("", "framework", f"unknown framework {text!r}", f"{', '.join(close)}, a file")]
        )
    shown = path.name if path.parent == FRAMEWORKS else str(path)
    document = documents.parse_yaml(
        documents.read_text(path, "a description of a framework"), shown, "`key: value` lines"
    )
    return _Reader(shown, document.lines).framework(path.stem, document.value)


def settings_of(options: Mapping[str, object]) -> dict[str, object]:
    """Keys of the platform that the framework among `options` decides; none without one."""
    name = options.get("framework")
    return {} if name is None else load_framework(str(name)).settings


class _Reader:
    """One file and the problems found in it."""

    def __init__(self, file: str, lines: Mapping[documents.Path_, int]) -> None:
        self.file, self.lines = file, lines
        self.problems: list[Problem] = []

    def fault(self, path: documents.Path_, message: str, allowed: str) -> None:
        """Keeps a problem at `path`."""
        place = documents.place(path, self.lines)
        self.problems.append(Problem(self.file, place, message, allowed))

    def framework(self, name: str, value: object) -> Framework:
        """The description, once all of it is read."""
        values: dict[str, Any] = value if isinstance(value, dict) else {}
        if not values:
            self.fault((), "is not a description of a framework", f"keys {', '.join(_HEAD)}")
        for key in values:
            if key not in _HEAD:
                self.fault((str(key),), "unknown key", ", ".join(_HEAD))
        found = Framework(
            name,
            str(values.get("summary", "")),
            str(values.get("source", "")),
            str(values.get("validated", "")),
            self.choices("options", values, tuple(_DEFAULTS)),
            self.choices("settings", values, None),
        )
        if self.problems:
            raise InputError(self.problems)
        return found

    def choices(
        self, key: str, values: Mapping[str, Any], known: tuple[str, ...] | None
    ) -> tuple[FrameworkChoice, ...]:
        """The entries of a list, their names among `known` where there are such."""
        listed = values.get(key, [])
        if not isinstance(listed, list):
            self.fault((key,), "is not a list", f"entries of {', '.join(_ENTRY)}")
            return ()
        return tuple(self.choice((key, index), entry, known) for index, entry in enumerate(listed))

    def choice(
        self, path: documents.Path_, entry: object, known: tuple[str, ...] | None
    ) -> FrameworkChoice:
        """One entry."""
        values: dict[str, Any] = entry if isinstance(entry, dict) else {}
        for key in values:
            if key not in _ENTRY:
                self.fault((*path, str(key)), "unknown key", ", ".join(_ENTRY))
        for key in ("name", "value", "source"):
            if key not in values:
                self.fault((*path, key), "is missing", ", ".join(_ENTRY))
        name, when = values.get("name", ""), values.get("when", {})
        if not isinstance(name, str):
            self.fault((*path, "name"), "is not text", "the name of an option")
            name = ""
        if not isinstance(when, dict):
            self.fault((*path, "when"), "is not a mapping", "options and their values")
            when = {}
        for option in (name, *when) if known is not None and "name" in values else when:
            if option not in _DEFAULTS or option in _OWN:
                allowed = near(str(option), [each for each in _DEFAULTS if each not in _OWN])
                self.fault(
                    (*path, "name" if option == name else "when"),
                    f"unknown option {option!r}",
                    allowed,
                )
        wanted = (
            (key, tuple(want) if isinstance(want, list) else want) for key, want in when.items()
        )
        source = str(values.get("source", ""))
        return FrameworkChoice(str(name), values.get("value"), source, tuple(wanted))
