"""Recipe files: recipes as YAML.

Here: keys, their checks and their defaults. Not here: what they mean (`recipe.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from armillary import documents, units
from armillary.errors import InputError, Problem

from .recipe import (
    MOST_ROWS,
    CategoryColumn,
    DenseColumn,
    HeldOut,
    Kind,
    Numbers,
    Recipe,
    Shuffle,
    criteo,
)

_KEYS = tuple(each.name for each in fields(Recipe))
_SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "bar": "|", "space": " "}
_MOST_FILE = 2**26
_ABSENT = object()


def read_recipe(path: str) -> Recipe:
    """The recipe in a file. Keys that it leaves out are those of Criteo's logs; with `dense` or
    `categories`, `label` and `columns` are its own. Raises `InputError` with every problem."""
    text = documents.read_text(path, "a recipe of data")
    document = documents.parse_yaml(text, path, "`key: value` lines")
    reader = _Reader(path, document)
    made = reader.recipe()
    if reader.problems:
        raise InputError(reader.problems)
    return made


@dataclass
class _Reader:
    """Reads a document, and collects problems."""

    file: str
    document: documents.Document
    problems: list[Problem] = field(default_factory=list)

    def recipe(self) -> Recipe:
        for path, line in self.document.repeated:
            said = Problem(self.file, f"line {line}: {path[-1]}", "is given twice", "each key once")
            self.problems.append(said)
        values = self._mapping(self.document.value, (), _KEYS)
        usual = criteo()
        own = "dense" in values or "categories" in values
        dense = tuple(self._columns(values, "dense", self._dense)) if own else usual.dense
        categories = usual.categories
        if own:
            categories = tuple(self._columns(values, "categories", self._category))
        columns = None if own else usual.columns
        if values.get("columns") is not None:
            columns = tuple(self._texts(values["columns"], ("columns",)))
        label = self._text(values, (), "label", usual.label)
        made = Recipe(
            columns,
            label,
            dense,
            categories,
            self._separator(values, (), usual.separator) or usual.separator,
            self._held_out(values),
            self._shuffle(values),
            self._whole(values, (), "samples_per_file", usual.samples_per_file, 1, _MOST_FILE),
        )
        self._names(made)
        return made

    def _names(self, recipe: Recipe) -> None:
        used = recipe.names
        for name in sorted({name for name in used if used.count(name) > 1}):
            self._problem((), f"column {name!r} is used twice", "each column once")
        if recipe.columns is not None:
            for name in sorted(set(used) - set(recipe.columns)):
                self._problem(("columns",), f"has no column {name!r}", "all columns that are used")
        if not recipe.categories:
            self._problem(("categories",), "there are none", "at least one")

    def _columns(self, values: dict[str, Any], key: str, make: Any) -> Iterator[Any]:  # noqa: ANN401
        found = values.get(key, [])
        if not isinstance(found, list):
            self._problem((key,), f"{found!r} is not a list", "- {columns: [NAME, ...], ...}")
            return
        for at, each in enumerate(found):
            names, made = make(each, (key, at))
            for name in names:
                yield made(name)

    def _dense(self, value: object, path: documents.Path_) -> tuple[Sequence[str], Any]:
        keys = ("columns", "numbers", "missing", "clip", "log", "normalize")
        values = self._mapping(value, path, keys)
        numbers = self._word(values, path, "numbers", get_args(Numbers), "decimal")
        missing = self._number(values, path, "missing", 0.0)
        clip = self._pair(values, path, "clip", none=True)
        log = self._number(values, path, "log", None)
        normalize = self._pair(values, path, "normalize")
        if clip and None not in clip and clip[0] > clip[1]:
            self._problem((*path, "clip"), f"{clip[0]} is above {clip[1]}", "[least, greatest]")
        if normalize and normalize[1] <= 0:
            said = f"the deviation is {normalize[1]}"
            self._problem((*path, "normalize"), said, "[mean, deviation above 0]")
        return self._named(values, path), lambda name: DenseColumn(
            name, numbers, missing, clip or (None, None), log, normalize
        )

    def _category(self, value: object, path: documents.Path_) -> tuple[Sequence[str], Any]:
        keys = ("columns", "kind", "missing", "separator", "hash", "rows")
        values = self._mapping(value, path, keys)
        kind = self._word(values, path, "kind", get_args(Kind), "text")
        missing = None
        if values.get("missing") != "skip":
            missing = self._whole(values, path, "missing", 0, -(2**62), 2**62)
        separator = self._separator(values, path, None)
        seed = self._whole(values, path, "hash", None, 0, 2**63 - 1)
        rows = self._whole(values, path, "rows", None, 1, MOST_ROWS)
        return self._named(values, path), lambda name: CategoryColumn(
            name, kind, missing, separator, seed, rows
        )

    def _named(self, values: dict[str, Any], path: documents.Path_) -> list[str]:
        return self._texts(values.get("columns", []), (*path, "columns"))

    def _held_out(self, values: dict[str, Any]) -> HeldOut:
        path = ("held_out",)
        given = values.get("held_out", _ABSENT)
        if given is _ABSENT:
            return HeldOut()
        found = self._mapping(given, path, ("days", "share", "seed"))
        days = self._whole(found, path, "days", None, 0, 2**16)
        share = self._number(found, path, "share", None)
        if (days is None) == (share is None):
            self._problem(path, "needs one of days and share", "{days: 1}, or {share: 0.1}")
        if share is not None and not 0 < share < 1:
            self._problem((*path, "share"), f"{share} is out of range", "between 0 and 1")
        return HeldOut(days, share, self._whole(found, path, "seed", 0, 0, 2**63 - 1))

    def _shuffle(self, values: dict[str, Any]) -> Shuffle | None:
        path, given = ("shuffle",), values.get("shuffle")
        if given is None:
            return None
        found = self._mapping(given, path, ("seed", "memory"))
        memory = str(found.get("memory", "1 GiB"))
        size = units.split(memory)
        bytes_ = int(size[0] * units.UNITS[size[1]][1]) if size else 0
        if size is None or units.UNITS[size[1]][0] != "B" or bytes_ < 2**20:
            said = f"{memory!r} is not a size of memory"
            self._problem((*path, "memory"), said, "a size such as 1 GiB, at least 1 MiB")
        return Shuffle(self._whole(found, path, "seed", 0, 0, 2**63 - 1), bytes_)

    def _separator(
        self, values: dict[str, Any], path: documents.Path_, default: str | None
    ) -> str | None:
        given = values.get("separator", default)
        if given is None:
            return None
        found = _SEPARATORS.get(given, given) if isinstance(given, str) else ""
        if len(found) != 1 or ord(found) > 126 or found in "\n\r" or found.isalnum():
            allowed = f"{', '.join(_SEPARATORS)}, or one character that is in no value"
            self._problem((*path, "separator"), f"{given!r} is not a separator", allowed)
            return default
        return found

    def _mapping(self, value: object, path: documents.Path_, keys: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._problem(path, f"{value!r} is not a mapping", f"keys: {', '.join(keys)}")
            return {}
        for key in value:
            if key not in keys:
                self._problem((*path, str(key)), "unknown key", ", ".join(keys))
        return value

    def _text(self, values: dict[str, Any], path: documents.Path_, key: str, default: str) -> str:
        value = values.get(key, default)
        if isinstance(value, str) and value:
            return value
        self._problem((*path, key), f"{value!r} is not a name", "text")
        return default

    def _texts(self, value: object, path: documents.Path_) -> list[str]:
        sound = isinstance(value, list) and value
        if sound and all(isinstance(each, str) and each for each in value):  # type: ignore[attr-defined]
            return list(value)  # type: ignore[call-overload, no-any-return]
        self._problem(path, f"{value!r} is not a list of names", "[NAME, ...]")
        return []

    def _word(
        self,
        values: dict[str, Any],
        path: documents.Path_,
        key: str,
        allowed: Sequence[str],
        default: str,
    ) -> Any:  # noqa: ANN401 - one of some words
        value = values.get(key, default)
        if value not in allowed:
            self._problem((*path, key), f"unknown {key}: {value!r}", ", ".join(allowed))
            return default
        return value

    def _number(
        self, values: dict[str, Any], path: documents.Path_, key: str, default: float | None
    ) -> Any:  # noqa: ANN401 - a float, or what is the default
        value = values.get(key, default)
        if value is None or (_is_number(value) and math.isfinite(value)):
            return value if value is None else float(value)
        self._problem((*path, key), f"{value!r} is not a number", "a number")
        return default

    def _pair(
        self, values: dict[str, Any], path: documents.Path_, key: str, none: bool = False
    ) -> Any:  # noqa: ANN401 - two numbers, or none
        value = values.get(key)
        if value is None:
            return None
        sound = isinstance(value, list) and len(value) == 2
        if sound and all(_is_number(each) or (none and each is None) for each in value):
            return tuple(None if each is None else float(each) for each in value)
        allowed = "two numbers, or null for none" if none else "two numbers"
        self._problem((*path, key), f"{value!r} is not a pair", allowed)
        return None

    def _whole(
        self,
        values: dict[str, Any],
        path: documents.Path_,
        key: str,
        default: int | None,
        least: int,
        most: int,
    ) -> Any:  # noqa: ANN401 - an int, or what is the default
        value = values.get(key, default)
        if value is None or (type(value) is int and least <= value <= most):
            return value
        self._problem(
            (*path, key), f"invalid value: {value!r}", f"a whole number from {least:,} to {most:,}"
        )
        return default

    def _problem(self, path: documents.Path_, said: str, allowed: str) -> None:
        where = documents.place(path, self.document.lines)
        self.problems.append(Problem(self.file, where, said, allowed))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
