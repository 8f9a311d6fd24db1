"""A study: what is simulated, what varies and how. Not here: reading one (`reader.py`), its points (`points.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..platform.presets import SYSTEMS
from ..workload.models import MODELS
from . import domain
from .expression import Expression
from .source import Source

BACKENDS = ("analytical", "link")
MOST_POINTS = 1_000_000
Kind = Literal["grid", "random", "optuna"]
KINDS: tuple[Kind, ...] = ("grid", "random", "optuna")


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something that varies: its name is a column of the table, its targets are what it sets."""

    name: str
    targets: tuple[str, ...]
    domain: domain.Domain


@dataclass(frozen=True, slots=True)
class Search:
    """How points are chosen. `objectives` are columns and whether more is better; `batch` are asked for at once."""

    kind: Kind = "grid"
    points: int = 0
    objectives: tuple[tuple[str, bool], ...] = ()
    batch: int = 8


@dataclass(frozen=True)
class Study:
    """A study, read and checked."""

    name: str
    source: Source
    base: Mapping[str, Any]
    """What is fixed, by target: `workload.tp`, `platform.npus`, `backend`."""
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...]
    """Names of the parameters, those of `rows` first."""
    targets: tuple[tuple[str, ...], ...]
    """What each column sets."""
    rows: tuple[tuple[Any, ...], ...]
    """Values of the columns that `rows` names, row by row."""
    constraints: tuple[Expression, ...]
    scope: Mapping[str, Any]
    """What constraints see besides parameters."""
    aliases: Mapping[str, int]
    """Names by which constraints may call a column."""
    search: Search

    def at(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Everything a point sets, by target; what is not there has its default."""
        found = dict(self.base)
        for targets, each in zip(self.targets, values, strict=True):
            found.update(dict.fromkeys(targets, each))
        return found


def located(name: str, folder: str) -> str:
    """A preset's name as it is; a path from `folder`."""
    preset = os.sep not in name and any((room / f"{name}.yml").is_file() for room in (SYSTEMS, MODELS))
    return name if preset else os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 - keeps %d and prefixes
