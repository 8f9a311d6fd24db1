"""A study: rows of our numbers, each next to a reference and the source of that reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

from armillary.backends import DEFAULT, MESSAGES

if TYPE_CHECKING:
    from armillary.report.chart import Chart

Kind = Literal["paper", "figure", "claim", "equation", "measured", "limit", "ours"]
"""Where a reference comes from:

- `paper`: a paper prints the number;
- `figure`: a paper draws it and prints no number;
- `claim`: a paper's text claims it, and we wrote the number for the claim;
- `equation`: a paper's equation, evaluated by the study;
- `measured`: others measured it;
- `limit`: a limit that we chose;
- `ours`: there is no reference; the row shows what a choice of ours does."""

Relation = Literal["=", "<", ">"]
Verdict = Literal["holds", "below the margin", "fails"]

_OF_A_PAPER: tuple[Kind, ...] = ("paper", "figure", "claim", "equation")
_PLACE = re.compile(r"\b(Tables?|Figs?\.|section|page|equation) \w", re.IGNORECASE)
"""Words that name a place in a paper."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a reference comes from. Whatever is of a paper names the place in it."""

    kind: Kind
    where: str
    """The place in the paper, who measured, or who chose and why; never empty."""

    def __post_init__(self) -> None:
        assert self.where, "a source says where"
        assert self.kind not in _OF_A_PAPER or _PLACE.search(self.where), self.where

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}"


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference of one of our numbers. Made by the functions below, one for each kind of source."""

    value: float | None
    """`None` where nothing is printed."""
    source: Source
    relation: Relation = "="
    """Relation of the number to the reference: equal to it, or below or above it."""
    margin: float | None = None
    """Relative difference that counts for a claim: smaller ones prove nothing."""


def printed(value: float, where: str, relation: Relation = "=") -> Reference:
    """A number that a paper prints, and the place."""
    return Reference(value, Source("paper", where), relation)


def drawn(where: str) -> Reference:
    """A figure without numbers."""
    return Reference(None, Source("figure", where))


def claimed(value: float, where: str, relation: Relation, margin: float) -> Reference:
    """A claim of a paper's text, in numbers of ours. `margin`: for `<` and `>` the least
    difference that counts, for `=` the largest that counts as equal; relative."""
    return Reference(value, Source("claim", where), relation, margin)


def evaluated(value: float, where: str) -> Reference:
    """A paper's equation, evaluated by the study."""
    return Reference(value, Source("equation", where))


def measured(value: float, where: str) -> Reference:
    """A measurement by others, and its source."""
    return Reference(value, Source("measured", where))


def limit(value: float | None, relation: Relation, where: str = "chosen by us") -> Reference:
    """A limit that we chose for ourselves; `None` where there is none."""
    if value is None:
        return unreferenced()
    return Reference(value, Source("limit", where), relation)


def unreferenced(where: str = "no reference") -> Reference:
    """A reference for rows that show what a choice of ours does."""
    return Reference(None, Source("ours", where))


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A number of ours and its reference."""

    setup: str
    backend: str
    reference: Reference
    ours: float
    unit: str
    why: str
    """One sentence: where ours comes from, or why it differs."""

    @property
    def ratio(self) -> float | None:
        """Ours over the reference."""
        return self.ours / self.reference.value if self.reference.value else None

    @property
    def verdict(self) -> Verdict | None:
        """Whether ours is below, above or equal as the reference says. `None` where that is a
        value to compare with, or nothing."""
        value, margin = self.reference.value, self.reference.margin
        if value is None or (self.reference.relation == "=" and margin is None):
            return None
        if self.reference.relation == "=":
            return "holds" if abs(self.ours - value) <= (margin or 0) * abs(value) else "fails"
        ahead = value - self.ours if self.reference.relation == "<" else self.ours - value
        if ahead <= 0:
            return "fails"
        return "holds" if ahead >= (margin or 0) * abs(value) else "below the margin"

    def as_dict(self) -> dict[str, object]:
        """Plain data, for JSON."""
        reference = self.reference
        return {
            "setup": self.setup,
            "backend": self.backend,
            "relation": reference.relation,
            "reference": reference.value,
            "source": {"kind": reference.source.kind, "where": reference.source.where},
            "margin": reference.margin,
            "ours": self.ours,
            "unit": self.unit,
            "ratio": self.ratio,
            "verdict": self.verdict,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Study:
    """A table or figure that can be rerun."""

    setup: str
    """Setup of the runs, and the assumptions, in a few sentences."""
    rows: Callable[[Sequence[str]], list[StudyRow]]
    """Runs it on the given backends."""
    charts: Callable[[Sequence[StudyRow]], list[Chart]] | None = None
    """The figure of the paper, from the rows; without it reference and ours side by side, a chart
    for each unit."""
    name: str = ""
    """Name on the command line; `studies.STUDIES` says it, and what is below."""
    code: str = ""
    """Code of the study in the list of targets, an alias of the name."""
    title: str = ""
    source: str = ""

    def _repr_html_(self) -> str:
        """Summary in a notebook: the study and where its numbers are printed, without running
        it."""
        head = f"<b>{escape(self.name)}</b> {escape(self.title)}"
        return f"<div>{head}<br>{escape(self.source)}<br><i>{escape(self.setup)}</i></div>"


def analytical(backends: Sequence[str]) -> Sequence[str]:
    """Backends of a study of the paper's own network model: that model, unless another one was
    asked for by name."""
    return (DEFAULT,) if tuple(backends) == MESSAGES else backends
