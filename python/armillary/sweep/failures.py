"""Points of a sweep that did not run, grouped by their reason: combinations that can't exist, and
faults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .frame import Frame


@dataclass(frozen=True)
class Failure:
    """One reason, by the first point that has it."""

    text: str
    count: int
    first: Mapping[str, Any]
    impossible: bool
    """Whether these points can't exist, which is not a fault."""


def failures(table: Frame) -> list[Failure]:
    """Reasons that differ in more than numbers: faults first, the most frequent first."""
    found: dict[tuple[bool, str], list[dict[str, Any]]] = {}
    for row in table.where(error is not None for error in table["error"]).rows():
        key = (bool(row.get("impossible")), re.sub(r"[0-9][0-9,.]*", "*", row["error"]))
        found.setdefault(key, []).append(row)
    made = [
        Failure(rows[0]["error"], len(rows), rows[0], impossible)
        for (impossible, _), rows in found.items()
    ]
    return sorted(made, key=lambda each: (each.impossible, -each.count, each.first["index"]))


def total(found: Sequence[Failure], impossible: bool) -> int:
    """Points that did not run: those that can't exist, or those with a fault."""
    return sum(each.count for each in found if each.impossible == impossible)
