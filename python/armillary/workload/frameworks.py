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
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated

from .. import documents
from ..declared import Allowed, Note, Source, open_source, read
from ..documents import Path_
from ..errors import InputError, Problem
from ..option_fields import near

FRAMEWORKS = Path(__file__).resolve().parent.parent / "frameworks"
"""Folder of the descriptions that come with Armillary."""

_ABOVE = re.compile(r"> ([0-9]{1,9})")
_OWN = ("framework", "framework_set")


@cache
def _defaults() -> Mapping[str, object]:
    """Every option of a job, and its default."""
    from .parallelism import Parallelism

    return {each.name: each.default for each in dataclasses.fields(Parallelism)}


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
        return all(_is(options.get(name, _defaults()[name]), want) for name, want in self.when)


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
    source = open_source(path, "a description of a framework")
    if path.parent == FRAMEWORKS:
        source = dataclasses.replace(source, file=path.name)
    found = read(_File, source)
    if found is not None:
        for key, entries in (("options", found.options), ("settings", found.settings)):
            for index, each in enumerate(entries):
                _options(source, (key, index), each, key == "options")
    source.finish()
    assert found is not None
    made = (tuple(map(_choice, each)) for each in (found.options, found.settings))
    return Framework(path.stem, found.summary, found.source, found.validated, *made)


def settings_of(options: Mapping[str, object]) -> dict[str, object]:
    """Keys of the platform that the framework among `options` decides; none without one."""
    name = options.get("framework")
    return {} if name is None else load_framework(str(name)).settings


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    value: object
    source: Note
    when: Annotated[Mapping[str, object], Allowed("options and their values")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class _File:
    summary: Note = ""
    source: Note = ""
    validated: Note = ""
    options: tuple[_Entry, ...] = ()
    settings: tuple[_Entry, ...] = ()


def _options(source: Source, path: Path_, entry: _Entry, named: bool) -> None:
    """Refuses names that no option has: those of `when`, and where `named` that of the entry."""
    known = [each for each in _defaults() if each not in _OWN]
    for key, options in (("name", [entry.name] if named else []), ("when", entry.when)):
        for option in options:
            if option not in known:
                source.fault((*path, key), f"unknown option {option!r}", near(option, known))


def _choice(entry: _Entry) -> FrameworkChoice:
    when = (
        (key, tuple(want) if isinstance(want, list) else want) for key, want in entry.when.items()
    )
    return FrameworkChoice(entry.name, entry.value, entry.source, tuple(when))
