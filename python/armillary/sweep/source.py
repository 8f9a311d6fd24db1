"""A study as text or mapping: values, and the line of each key. Not here: what the keys mean
(`reader.py`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import documents
from ..documents import Path_
from ..errors import InputError, Problem
from ..model.files import MODELS
from ..platform.presets import presets


@dataclass(frozen=True)
class Source:
    """A study's values, where they stand, and the problems found in them so far."""

    values: dict[str, Any]
    file: str = "study"
    """Name of the study as the caller gave it, for problems."""
    folder: str = "."
    """Folder that the study's relative paths start from."""
    lines: Mapping[Path_, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def fault(self, path: Path_, message: str, allowed: str = "") -> None:
        """Keeps a problem with the value at `path`."""
        self.problems.append(Problem(self.file, self.place(path), message, allowed))

    def place(self, path: Path_) -> str:
        """Where `path` stands: `line 7: search.points`."""
        return documents.place(path, self.lines)

    def finish(self) -> None:
        """Raises everything found."""
        if self.problems:
            raise InputError(self.problems)


def read(study: str | os.PathLike[str] | Mapping[str, Any]) -> Source:
    """The study in the file `study`, or the mapping itself. Raises `InputError` for anything but a
    mapping."""
    if isinstance(study, Mapping):
        documents.require_sound(dict(study), "study")
        return Source(_plain(study))
    file = os.fspath(study)
    text = documents.read_text(file, "a study, a YAML file")
    return parse(text, file)


def _plain(study: Mapping[str, Any]) -> dict[str, Any]:
    """The study as other processes and the journal are handed it. Raises `InputError` for what JSON
    can't hold."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(dict(study)))
    except (TypeError, ValueError) as error:
        allowed = "texts, numbers, true, false, lists and mappings"
        raise InputError(
            [Problem("study", "", f"holds what no file can: {error}", allowed)]
        ) from None
    return found


def parse(text: str, file: str) -> Source:
    """The study in a text. Raises `InputError` for anything but a mapping."""
    document = documents.parse_yaml(text, file, "`key: value` lines")
    values = document.value
    if not isinstance(values, dict):
        raise InputError(
            [
                Problem(
                    file, "", "is not a mapping of keys to values", "workload, platform, parameters"
                )
            ]
        )
    source = Source(values, file, os.path.dirname(file) or ".", document.lines)  # noqa: PTH120
    for path, line in document.repeated:
        source.fault(path, f"is given twice, in line {line} again", "each key once")
    return source


def changed(source: Source, settings: Mapping[str, object]) -> Source:
    """The study with some values of its platform set. A value that varies is a problem."""
    if not settings:
        return source
    raw = source.values.get("platform", {})
    platform = {"file": raw} if isinstance(raw, str) else dict(raw) if isinstance(raw, dict) else {}
    own = platform.get("settings")
    platform["settings"] = {**(own if isinstance(own, dict) else {}), **settings}
    varied = json.dumps([source.values.get(key) for key in ("parameters", "rows")])
    for key in settings:
        if f'"platform.{key}"' in varied:
            source.problems.append(
                Problem(source.file, f"--set {key}", "varies in this study", "another key")
            )
    source.values["platform"] = platform
    return source


def located(name: str, folder: str) -> str:
    """A preset's name as it is; a path from `folder`."""
    preset = os.sep not in name and (name in presets() or documents.is_file(MODELS / f"{name}.yml"))
    return name if preset else os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 - keeps %d and prefixes
