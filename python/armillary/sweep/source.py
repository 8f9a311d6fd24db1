"""A study as text or mapping. Not here: what the keys mean (`reader.py`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any

from .. import backends, documents
from ..declared import Made, Source, Wrong, parse_source, shown
from ..errors import InputError, Problem
from ..model.files import models
from ..model.other_names import preset_of
from ..platform.presets import presets


def _backend(raw: object) -> str:
    if not backends.is_known(raw):
        raise Wrong(f"unknown backend {shown(raw)}", ", ".join(backends.NAMES))
    return str(raw)


Backend = Annotated[str, Made(_backend)]
"""A network backend by its name."""


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
    source = parse_source(text, file)
    if not isinstance(source.values, dict):
        raise InputError(
            [
                Problem(
                    file, "", "is not a mapping of keys to values", "workload, platform, parameters"
                )
            ]
        )
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
    own = models()
    if name in presets() or name in own:
        return name
    path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 - keeps %d and prefixes
    return name if not os.path.lexists(path) and preset_of(name, own) else path
