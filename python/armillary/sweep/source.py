"""A study as text or mapping: values, and the line of each key. Not here: what the keys mean (`reader.py`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError, Problem

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Source:
    """A study's values, where they stand, and the problems found in them so far."""

    values: dict[str, Any]
    file: str = "study"
    """As the caller named it, for problems."""
    folder: str = "."
    """What its relative paths start from."""
    lines: Mapping[Path_, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def fault(self, path: Path_, message: str, allowed: str = "") -> None:
        """Keeps a problem with the value at `path`."""
        self.problems.append(Problem(self.file, self.place(path), message, allowed))

    def place(self, path: Path_) -> str:
        """Where `path` stands: `line 7: search.points`."""
        shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        known = next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)
        return shown if known is None else f"line {known}: {shown}"

    def finish(self) -> None:
        """Raises everything found."""
        if self.problems:
            raise InputError(self.problems)


def read(study: str | os.PathLike[str] | Mapping[str, Any]) -> Source:
    """The study in the file `study`, or the mapping itself. Raises `InputError` for what is no mapping."""
    if isinstance(study, Mapping):
        return Source(dict(study))
    file = os.fspath(study)
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InputError([Problem(file, "", f"can't be read: {reason}", "a study, a YAML file")]) from None
    return _parse(text, file)


def _parse(text: str, file: str) -> Source:
    import yaml  # with the first study, not with the package

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise InputError([Problem(file, "", "uses an alias (*name)", "values written out")])
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        place = f"line {mark.line + 1}" if mark else ""
        raise InputError([Problem(file, place, f"is no YAML: {reason}", "`key: value` lines")]) from None
    except (RecursionError, ValueError, TypeError) as error:  # nested without end; numbers and keys Python can't hold
        raise InputError([Problem(file, "", f"can't be read: {error}", "a study, a YAML file")]) from None
    if not isinstance(values, dict):
        raise InputError([Problem(file, "", "is no mapping of keys to values", "workload, platform, parameters")])
    lines: dict[Path_, int] = {}
    source = Source(values, file, os.path.dirname(file) or ".", lines)  # noqa: PTH120
    for path, line in _walk(node, ()):
        if lines.setdefault(path, line) != line:
            source.fault(path, f"is given twice, in line {line} again", "each key once")
    return source


def _walk(node: object, path: Path_) -> Iterator[tuple[Path_, int]]:
    """Every key and item with its line, from 1."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _walk(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), value.start_mark.line + 1
            yield from _walk(value, (*path, index))
