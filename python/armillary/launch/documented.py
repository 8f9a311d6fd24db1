"""Documents of JSON, YAML and TOML as keys of a launch: `zero_optimization.stage`, and so on.

Not here: the meaning of keys (a file for each framework)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .. import documents
from ..errors import InputError, Problem
from .given import Given, Said

_MOST_KEYS = 20_000


def given_json(text: str, file: str) -> Given:
    """The keys of a JSON object."""
    value = documents.parse_json(text, file, "a JSON object")
    return Given(file, flat(value, file))


def given_yaml(text: str, file: str) -> Given:
    """The keys of a YAML mapping. Raises `InputError` for one that is given twice."""
    document = documents.parse_yaml(text, file, "`key: value` lines")
    for path, line in document.repeated:
        raise InputError([Problem(file, f"line {line}: {path[-1]}", "is given twice", "once")])
    places = {".".join(map(str, path)): f"line {line}" for path, line in document.lines.items()}
    return Given(file, flat(document.value, file, places))


def flat(value: object, file: str, places: Mapping[str, str] | None = None) -> dict[str, Said]:
    """Values by the path of their keys."""
    if not isinstance(value, dict):
        raise InputError([Problem(file, "", "is not a mapping", "keys and values")])
    found: dict[str, Said] = {}
    for key, each in _leaves(value, ""):
        found[key] = Said(each, (places or {}).get(key, ""))
        if len(found) > _MOST_KEYS:
            raise InputError([Problem(file, "", f"has more than {_MOST_KEYS} keys", "fewer")])
    return found


def _leaves(value: Mapping[object, object], start: str) -> Iterator[tuple[str, object]]:
    for key, each in value.items():
        path = f"{start}{key}"
        if isinstance(each, dict) and each:
            yield from _leaves(each, f"{path}.")
        elif each is not None and each != {}:
            yield path, each
