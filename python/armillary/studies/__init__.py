"""Studies: a table or figure of a paper each, rerun and printed as paper, ours, ratio. One study
one file.

Here: which there are. Not here: what a study and its rows are (`study`), what each does (`d6`,
...)."""

from __future__ import annotations

import difflib
import importlib

from ..errors import InputError, Problem
from .study import BACKENDS, Row, Study

STUDIES = (
    "a1",
    "a2",
    "a3",
    "a4",
    "a5",
    "a6",
    "b1",
    "b2",
    "b3",
    "b4",
    "b5",
    "b6",
    "d6",
    "d7",
    "v1",
    "v2",
    "v3",
    "v4",
    "v5",
)
"""Every study, as its module is called."""


def study(name: str) -> Study:
    """The study `name`. Raises `InputError` when there is none."""
    if name.lower() not in STUDIES:
        near = difflib.get_close_matches(name.lower(), STUDIES, n=3)
        raise InputError(
            [Problem("", "study", f"there is no study {name!r}", ", ".join(near or STUDIES))]
        )
    found: Study = importlib.import_module(f".{name.lower()}", __package__).STUDY
    return found


def studies() -> list[Study]:
    """Every study, in order."""
    return [study(name) for name in STUDIES]


__all__ = ["BACKENDS", "STUDIES", "Row", "Study", "studies", "study"]
