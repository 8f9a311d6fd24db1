"""The new text of a file: single words are replaced where they stand, so that comments, order and
layout stay. A library that prints a document again would change the layout of lines that have no
old word."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .. import documents
from .found import Found


@dataclass(frozen=True, slots=True)
class Change:
    """One word that was replaced, or one that a person has to replace."""

    line: int
    place: str
    old: str
    new: str
    """Empty where it is left."""
    why: str = ""
    """Reason of a word that is left."""


def rewritten(text: str, found: Found) -> tuple[str, list[Change], list[Change]]:
    """The text with the words that were found replaced; what changed, and what is left."""
    changes, left, parts, at = list[Change](), list[Change](), list[str](), 0
    for spot in documents.spots(text):
        old, place = text[spot.start : spot.end], documents.place(spot.path)
        if spot.is_key and spot.path in found.left:
            left.append(Change(spot.line, place, old, "", found.left[spot.path]))
        new = _new(spot, found)
        if new is None:
            continue
        if spot.quote not in ("", "'", '"'):
            left.append(Change(spot.line, place, old, "", "it is a text of several lines"))
            continue
        new = f"{spot.quote}{new}{spot.quote}"
        if new == old:
            continue
        changes.append(Change(spot.line, place, old, new))
        parts += [text[at : spot.start], new]
        at = spot.end
    left += [
        Change(0, documents.place(path), str(path[-1]), "", why)
        for path, why in found.left.items()
        if not any(each.place == documents.place(path) for each in left)
    ]
    return "".join([*parts, text[at:]]), changes, left


def _new(spot: documents.Spot, found: Found) -> str | None:
    """The new word of a place; `None` for one that stays."""
    if spot.is_key:
        return found.keys.get(spot.path)
    value = found.values.get(spot.path)
    return value if value is None or isinstance(value, str) else json.dumps(value)
