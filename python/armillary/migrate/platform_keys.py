"""Old names of platform keys in settings: those of sweeps and of specifications of designs.

A platform with the settings says which keys have a new name, and a platform with the new names and
values must be the same one. Not here: platform files (`found.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .. import documents
from ..documents import Path_
from ..errors import InputError
from ..platform import Platform
from ..sweep.source import located
from .found import Found, rename_keys, renamed

Load = Callable[[Mapping[str, object]], Platform]
"""A platform with some settings. Raises `InputError`."""
_STEP = re.compile(r"[^.\[\]]+")
_PLATFORM = "platform."


def find(found: Found, kind: str, values: Mapping[str, Any], folder: str) -> None:
    """Adds the old names of platform keys in a sweep or a specification of designs. Raises
    `InputError` for fixed settings that no platform can have."""
    if kind == "sweep":
        _sweep(found, values, folder)
    elif kind == "design":
        own = _mapping(values.get("settings"))
        _fixed(found, ("settings",), own, _plain)
        _fixed(found, (), {key: values[key] for key in ("npu",) if key in values}, _plain)


def _plain(settings: Mapping[str, object]) -> Platform:
    return Platform("SW(2)", bandwidth="1 GB/s", latency="0 ns", settings=settings)


def _sweep(found: Found, values: Mapping[str, Any], folder: str) -> None:
    """Settings of the platform, fixed and varied, on the first platform that the sweep names."""
    raw, parameters = values.get("platform"), _mapping(values.get("parameters"))
    rows = [_mapping(row) for row in _each(values.get("rows"))]
    own = raw if isinstance(raw, dict) else {"file": raw}
    files = [own.get("file"), *_each(parameters.get("platform.file"))]
    files += [row.get("platform.file") for row in rows]
    name = next((each for each in files if isinstance(each, str)), None)
    if name is None:
        return
    settings = _mapping(own.get("settings"))

    def load(changed: Mapping[str, object]) -> Platform:
        return Platform.load(located(name, folder), {**settings, **changed})

    _fixed(found, ("platform", "settings"), settings, partial(Platform.load, located(name, folder)))
    for target, each in parameters.items():
        given = each.get("set", target) if isinstance(each, dict) else target
        _varied(found, ("parameters", str(target)), given, each, load)
    for index, row in enumerate(rows):
        for target, each in row.items():
            _varied(found, ("rows", index, str(target)), target, each, load)


def _mapping(raw: object) -> dict[str, Any]:
    return {str(key): each for key, each in raw.items()} if isinstance(raw, dict) else {}


def _each(raw: object) -> list[object]:
    return raw if isinstance(raw, list) else [raw]


def _fixed(found: Found, path: Path_, given: Mapping[str, Any], load: Load) -> None:
    """Finds the old names in the mapping `given` from paths of keys to values. Raises `InputError`
    for settings that no platform can have."""
    before = load(given)
    new, mine, today = renamed(before), Found(), dict[Path_, str]()
    for key, value in given.items():
        here = (*path, str(key))
        today[here] = new.get(str(key), str(key))
        if today[here] != key:
            mine.keys[here] = today[here]
        rename_keys(mine, value, new, here, re.sub(r"\[\d+\]", "", today[here]))
    if not mine.keys:
        return
    if not _is(before, load, _applied(given, mine, path)):
        printed = documents.parse_yaml(before.to_yaml(), "platform", "a platform").value
        for place in mine.keys:
            value = _at(printed, _steps(mine, today, place, len(path) + 1))
            if isinstance(value, int | float) and not isinstance(value, bool):
                mine.values[place] = value
    if _is(before, load, _applied(given, mine, path)):
        found.keys.update(mine.keys)
        found.values.update(mine.values)
    else:
        found.left.update(
            (place, f"its value as {new} by hand") for place, new in mine.keys.items()
        )


def _varied(found: Found, path: Path_, name: object, value: object, load: Load) -> None:
    """Renames the key of a parameter or of a column, and converts its values."""
    if not isinstance(name, str) or not name.startswith(_PLATFORM):
        return
    key, listed = name.removeprefix(_PLATFORM), _listed(path, value)
    tried = {place: _today(key, each, load) for place, each in listed.items()}
    known = {place: each for place, each in tried.items() if each is not None}
    if not known:
        return
    new = next(iter(known.values()))[0]
    changed = {place: each for place, (_, each) in known.items() if each != listed[place]}
    if len(known) < len(tried) or (changed and isinstance(value, dict) and "values" not in value):
        found.left[path] = f"its values as {_PLATFORM}{new} by hand"
        return
    is_set = isinstance(value, dict) and "set" in value
    (found.values if is_set else found.keys)[(*path, "set") if is_set else path] = _PLATFORM + new
    found.values.update(changed)


def _listed(path: Path_, value: object) -> dict[Path_, object]:
    """The values of a parameter by place."""
    if isinstance(value, dict):
        if "values" in value:
            return _listed((*path, "values"), value["values"])
        return {(*path, key): value[key] for key in ("from", "to", "mean") if key in value}
    if isinstance(value, list):
        return {(*path, index): each for index, each in enumerate(value)}
    return {path: value}


def _today(key: str, value: object, load: Load) -> tuple[str, object] | None:
    """The new name of a key, and its value; nothing where it has none."""
    mine = Found()
    try:
        _fixed(mine, (), {key: value}, load)
    except InputError:
        return None
    return (mine.keys[(key,)], mine.values.get((key,), value)) if (key,) in mine.keys else None


def _steps(mine: Found, today: Mapping[Path_, str], place: Path_, top: int) -> list[str | int]:
    """The place of a renamed key in a platform file."""
    steps: list[str | int] = [
        int(each) if re.fullmatch("[0-9]{1,9}", each) else each
        for each in _STEP.findall(today[place[:top]])
    ]
    inner = range(top, len(place))
    return [*steps, *(mine.keys.get(place[: end + 1], place[end]) for end in inner)]


def _at(printed: Any, steps: list[str | int]) -> object:  # noqa: ANN401
    """The value of a printed platform."""
    for each in steps:
        try:
            printed = printed[each]
        except (KeyError, IndexError, TypeError):
            return None
    return printed


def _applied(value: Any, mine: Found, path: Path_) -> Any:  # noqa: ANN401
    """The settings with the names and values that were found."""
    if path in mine.values:
        return mine.values[path]
    if isinstance(value, list):
        return [_applied(each, mine, (*path, index)) for index, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {
        mine.keys.get((*path, str(key)), key): _applied(each, mine, (*path, str(key)))
        for key, each in value.items()
    }


def _is(before: Platform, load: Load, settings: Mapping[str, object]) -> bool:
    """Whether the settings make the same platform."""
    try:
        return load(settings).describe() == before.describe()
    except InputError:
        return False
