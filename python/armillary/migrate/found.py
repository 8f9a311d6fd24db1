"""Old words of a file: keys that have a new name, and values that are converted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import documents, old_words
from ..documents import Path_
from ..model.files import load_model
from ..platform import Platform
from ..sweep.source import located

_RENAMED = re.compile(r"the key (\S+) is now called (\S+); the old name will go")
_WORKLOAD = "workload."


@dataclass(frozen=True, slots=True)
class Found:
    """New names and values by the place of the old ones; and what needs a person, with the
    reason."""

    keys: dict[Path_, str] = field(default_factory=dict)
    values: dict[Path_, object] = field(default_factory=dict)
    left: dict[Path_, str] = field(default_factory=dict)


def find(kind: str, file: str, text: str, document: documents.Document, folder: str) -> Found:
    """The old words of a file. Raises `InputError` for a file that names a model or holds a
    platform that can't be read."""
    if kind == "platform":
        return _platform(file, text, document.value)
    found = Found()
    if kind == "sweep":
        _sweep(found, document.value, folder)
    elif kind == "design":
        _design(found, document.value, folder)
    elif kind == "model":
        words = old_words.of("key", str(document.value.get("family")))
        _options(found, (), document.value, words)
    return found


def _platform(file: str, text: str, value: object) -> Found:
    """Keys that the reader of platforms warns of. Their converted values are those that it has."""
    found = Found()
    rename_keys(found, value, renamed(Platform.parse(text, file)), (), "")
    return found


def renamed(platform: Platform) -> dict[str, str]:
    """New names of keys by the old ones, as the reader of platforms warns of them."""
    return dict(_RENAMED.findall("\n".join(platform.warnings)))


def rename_keys(found: Found, value: object, new: Mapping[str, str], path: Path_, at: str) -> None:
    """Finds keys whose path, with its parents named as today and without indices, has a new
    name."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            rename_keys(found, each, new, (*path, index), at)
    elif isinstance(value, dict):
        for key, each in value.items():
            here = f"{at}.{key}" if at else str(key)
            today = new.get(here, here)
            if today != here:
                found.keys[*path, str(key)] = today.rpartition(".")[2]
            rename_keys(found, each, new, (*path, str(key)), today)


def _sweep(found: Found, values: Mapping[str, Any], folder: str) -> None:
    """Options of the model, fixed and varied."""
    workload = values.get("workload")
    fixed = workload if isinstance(workload, dict) else {}
    names = [fixed.get("model"), *_varied(values)]
    families = {_family(name, folder) for name in names if isinstance(name, str)}
    words = _words(families)
    options = fixed.get("options")
    if isinstance(options, dict):
        _options(found, ("workload", "options"), options, words)
    parameters = values.get("parameters")
    for name, each in parameters.items() if isinstance(parameters, dict) else ():
        _target(found, ("parameters", str(name)), str(name), words, each)
        if isinstance(each, dict) and "set" in each:
            _set(found, ("parameters", str(name), "set"), each["set"], words)
    rows = values.get("rows")
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        for name, each in row.items() if isinstance(row, dict) else ():
            _target(found, ("rows", index, str(name)), str(name), words, each)


def _varied(values: Mapping[str, Any]) -> Iterator[object]:
    """Models that a sweep varies, where they are listed."""
    parameters, rows = values.get("parameters"), values.get("rows")
    listed = parameters.get("workload.model") if isinstance(parameters, dict) else None
    yield from listed if isinstance(listed, list) else ()
    for row in rows if isinstance(rows, list) else ():
        yield row.get("workload.model") if isinstance(row, dict) else None


def _design(found: Found, values: Mapping[str, Any], folder: str) -> None:
    """Options of the models."""
    workloads = values.get("workloads")
    for index, each in enumerate(workloads if isinstance(workloads, list) else ()):
        name = each.get("model") if isinstance(each, dict) else None
        if isinstance(name, str):
            words = _words({_family(name, folder)})
            _options(found, ("workloads", index), each, words)


def _family(name: str, folder: str) -> str:
    return load_model(located(name, folder)).family


def _words(families: set[str]) -> dict[str, old_words.OldWord]:
    """Old words that each of the families has."""
    tables = [old_words.of("model", family) for family in sorted(families)]
    first = tables[0] if tables else {}
    return {old: word for old, word in first.items() if all(old in table for table in tables)}


def _options(
    found: Found, path: Path_, given: Mapping[str, Any], words: Mapping[str, old_words.OldWord]
) -> None:
    known = [word.new for name in given if (word := words.get(str(name))) is not None]
    for name, value in given.items():
        word = words.get(str(name))
        if word is None:
            continue
        if word.new in given:
            found.left[*path, str(name)] = f"{word.new} is there too"
        elif known.count(word.new) > 1:
            found.left[*path, str(name)] = f"several old words are one {word.new} ({word.help})"
        else:
            _rename(found, (*path, str(name)), word, value, "")


def _target(
    found: Found, path: Path_, name: str, words: Mapping[str, old_words.OldWord], value: object
) -> None:
    """A key that names an option of the workload."""
    if name == "seed":
        found.left[path] = old_words.of("key", "sweep")["parameters.seed"].warning
    word = words.get(name.removeprefix(_WORKLOAD)) if name.startswith(_WORKLOAD) else None
    if word is not None:
        _rename(found, path, word, value, _WORKLOAD)


def _set(found: Found, path: Path_, value: object, words: Mapping[str, old_words.OldWord]) -> None:
    """Renames the target, or the targets, of a parameter."""
    listed = value if isinstance(value, list) else [value]
    for index, each in enumerate(listed):
        name = str(each)
        word = words.get(name.removeprefix(_WORKLOAD)) if name.startswith(_WORKLOAD) else None
        place = (*path, index) if isinstance(value, list) else path
        if word is not None and word.convert is not None:
            found.left[place] = f"its values become those of {word.new} ({word.help})"
        elif word is not None:
            found.values[place] = _WORKLOAD + word.new


def _rename(found: Found, path: Path_, word: old_words.OldWord, value: object, before: str) -> None:
    """Renames a key, and converts its value or each of a list of values."""
    converted = _converted(word, path, value)
    if not word.new or any(each is None for each in converted.values()):
        found.left[path] = word.warning
        return
    found.keys[path] = before + word.new
    found.values.update(converted)


def _converted(word: old_words.OldWord, path: Path_, value: object) -> dict[Path_, object]:
    """New values by place; `None` for one that has none."""
    if word.convert is None:
        return {}
    if isinstance(value, list):
        places = {(*path, index): each for index, each in enumerate(value)}
    else:
        places = {path: value}
    return {
        place: None if isinstance(each, dict | list) else word.convert(each, None)
        for place, each in places.items()
    }
