"""What a study is: where its numbers are printed, how ours are made, and rows of both side by
side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

from .backends import DEFAULT, NAMES

if TYPE_CHECKING:
    from .report.chart import Chart


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One number of the paper and ours."""

    setup: str
    backend: str
    paper: float | None
    """As printed; `None` where the paper shows a figure without numbers."""
    ours: float
    unit: str
    why: str
    """One sentence: where ours comes from, or why it differs."""
    relation: Literal["=", "<", ">"] = "="
    """What the paper says of its number: that it is so, or that it stays below or above."""

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's."""
        return self.ours / self.paper if self.paper else None

    @property
    def holds(self) -> bool | None:
        """Whether ours is below or above as the paper says; `None` where it prints a value, or
        nothing."""
        if self.paper is None or self.relation == "=":
            return None
        return self.ours < self.paper if self.relation == "<" else self.ours > self.paper

    def as_dict(self) -> dict[str, object]:
        """Plain data, for JSON."""
        keys = ("setup", "backend", "relation", "paper", "ours", "unit", "ratio", "holds", "why")
        return {key: getattr(self, key) for key in keys}


@dataclass(frozen=True, slots=True)
class Study:
    """A table or figure that can be rerun."""

    title: str
    source: str
    setup: str
    """What was run, and what had to be assumed, in a few sentences."""
    rows: Callable[[Sequence[str]], list[StudyRow]]
    """Runs it on the given backends."""
    charts: Callable[[Sequence[StudyRow]], list[Chart]] | None = None
    """The figure of the paper, from the rows; without it paper and ours side by side, a chart for
    each unit."""
    name: str = ""
    """What the command line calls it; `studies.STUDIES` says it."""
    code: str = ""
    """Its code in the list of targets, an alias of the name."""

    def _repr_html_(self) -> str:
        """In a notebook: what it is and where its numbers are printed, without running it."""
        head = f"<b>{escape(self.name)}</b> {escape(self.title)}"
        return f"<div>{head}<br>{escape(self.source)}<br><i>{escape(self.setup)}</i></div>"


def analytical(backends: Sequence[str]) -> Sequence[str]:
    """What a study of the paper's own network model runs on: that, unless another one was asked for
    by name."""
    return (DEFAULT,) if tuple(backends) == NAMES else backends
