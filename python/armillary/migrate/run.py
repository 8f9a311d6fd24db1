"""Files as a whole: read, rewritten, checked to mean what they meant, and written."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import documents, files
from ..errors import InputError, Problem
from ..platform import Platform
from ..sweep import reader
from ..sweep.source import parse
from . import platform_keys
from .found import Found, find
from .kinds import kind_of
from .text import Change, rewritten

SCHEMA = "armillary.migrate/1"
BACKUP = ".orig"
"""End of the name of a file as it was."""
_HELP = "a YAML file: a platform, a sweep, a design"
_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Migrated:
    """A file before and after."""

    file: str
    kind: str
    before: str
    after: str
    changes: tuple[Change, ...]
    left: tuple[Change, ...]
    """Old words that a person has to replace."""

    @property
    def diff(self) -> str:
        """The lines that change, as `diff -u` prints them."""
        before, after = (each.splitlines(keepends=True) for each in (self.before, self.after))
        found = difflib.unified_diff(before, after, self.file, self.file)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in found)

    def as_dict(self) -> dict[str, Any]:
        """The file, its kind, and the words."""
        words = {"changes": self.changes, "left": self.left}
        return {
            "file": self.file,
            "kind": self.kind,
            **{key: [asdict(each) for each in found] for key, found in words.items()},
        }


def migrate(file: str | os.PathLike[str]) -> Migrated:
    """The file in words of today; nothing is written. Raises `InputError` for a file that can't be
    read, of an unknown kind, or that would mean something else afterwards."""
    name = os.fspath(file)
    text = documents.read_text(name, _HELP)
    document = documents.parse_yaml(text, name, _HELP)
    if document.repeated:
        raise InputError(
            [
                Problem(name, f"line {line}: {path[-1]}", "is given twice", "each key once")
                for path, line in document.repeated
            ]
        )
    kind = kind_of(name, document.value)
    folder = os.path.dirname(name) or "."  # noqa: PTH120
    found = find(kind, name, text, document, folder)
    platform_keys.find(found, kind, document.value, folder)
    after, changes, left = rewritten(text, found)
    if kind == "platform" and changes:
        after, changes, left = _same_platform(name, text, after, found)
    if kind == "sweep" and changes:
        _require_same_sweep(name, text, after)
    marked = documents.read_bytes(name, _HELP).startswith(_MARK.encode())
    before, after = (_MARK + each if marked else each for each in (text, after))
    return Migrated(name, kind, before, after, tuple(changes), tuple(left))


def _same_platform(
    name: str, text: str, after: str, found: Found
) -> tuple[str, list[Change], list[Change]]:
    """The new text with values that mean the same under their new names."""
    before = Platform.parse(text, name)
    if not _is(before, after, name):
        printed = documents.parse_yaml(before.to_yaml(), name, "a platform").value
        for path in found.keys:
            value = _at(printed, found, path)
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.values[path] = value
    after, changes, left = rewritten(text, found)
    if not _is(before, after, name):
        said = "can't be rewritten: the platform would be another one"
        places = ", ".join(each.place for each in changes)
        raise InputError([Problem(name, places, said, "new names and values by hand")])
    return after, changes, left


def _is(before: Platform, after: str, name: str) -> bool:
    """Whether a text describes the same platform."""
    try:
        return Platform.parse(after, name).describe() == before.describe()
    except InputError:
        return False


def _at(printed: object, found: Found, path: documents.Path_) -> object:
    """The value of a printed platform at the place of an old key."""
    for end, key in enumerate(path, 1):
        today = found.keys.get(path[:end], key)
        try:
            printed = printed[today]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return printed


def _require_same_sweep(name: str, before: str, after: str) -> None:
    """Refuses a sweep that was read before and is not now: a constraint may have the old word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old words
        try:
            reader.study(parse(before, name))
        except InputError:
            return
        reader.study(parse(after, name))


def require_free(migrated: Sequence[Migrated]) -> None:
    """Refuses what can't be written in place, before anything is written. Raises `InputError`."""
    problems = []
    for each in migrated:
        backup = each.file + BACKUP
        real = Path(each.file).resolve()
        if real.parent != Path(each.file).parent.resolve():
            said = f"is a link to another folder, {real}"
            problems.append(Problem(each.file, "", said, "the file itself"))
        elif os.path.lexists(backup):
            said = "is there already: it would be written over"
            problems.append(Problem(backup, "", said, "another name for it"))
        else:
            for path in (each.file, backup):
                try:
                    files.require_writable(path)
                except InputError as error:
                    problems += error.problems
    if problems:
        raise InputError(problems)


def write(migrated: Migrated) -> None:
    """Writes the file in its place, and next to it the file as it was."""
    files.write_text(migrated.file + BACKUP, migrated.before)
    files.write_text(migrated.file, migrated.after)
