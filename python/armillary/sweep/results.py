"""Results of a sweep: its table, what is said of it, its pages, and how far a sweep is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..units import counted
from .frame import Frame
from .view import STEP_TIME, View

if TYPE_CHECKING:
    import polars as pl

    from ..report.page import Page
    from .point_warnings import Warned


@dataclass(frozen=True, slots=True)
class Status:
    """How far a sweep is. `best_ns` is the shortest step time so far, of points that fit in
    memory."""

    done: int
    total: int
    failed: int
    resumed: int
    """Points that the journal had already."""
    best_ns: float | None


@dataclass(frozen=True)
class Sweep:
    """Result of a sweep."""

    name: str
    frame: Frame
    """One row a point: parameters, results with units in the column names, `error`."""
    failed: int
    """Points that could not be run, through a fault; `error` says why."""
    refused: int
    """Combinations that the constraints left out."""
    folder: Path | None = None
    """Where `table.parquet` and the journal are."""
    objectives: tuple[tuple[str, bool], ...] = STEP_TIME
    """Columns that say which points are good, and whether more is better: those of the search, else
    the step time."""

    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Texts of each parameter in the study's order."""
    subject: str = ""
    """The model and the platform, for titles."""

    @cached_property
    def table(self) -> pl.DataFrame:
        """The table as a DataFrame. Raises `InputError` without polars."""
        return self.frame.to_polars()

    @property
    def impossible(self) -> int:
        """Points that can't exist, because their values don't go together; `error` says why."""
        from .failures import failures, total

        return total(failures(self.frame), impossible=True)

    @property
    def infeasible(self) -> int:
        """Points that ran, but need more memory than their NPUs have: `fits` is `no`."""
        return self.view().out_of_memory.height

    @property
    def warnings(self) -> list[Warned]:
        """Warnings of its points, the most frequent first."""
        from .point_warnings import warned

        return warned(self.frame)

    @property
    def near(self) -> int:
        """Points that ran, and need about as much memory as their NPUs have: `fits` is `near`."""
        return self.view().close.height

    def best(
        self, count: int = 10, *, include_infeasible: bool = False, near: bool = False
    ) -> pl.DataFrame:
        """The best points by the first objective, of those that fit in memory unless others are to
        be included: with `near` those that may fit, with `include_infeasible` all. Raises
        `InputError` without polars."""
        view = self.view(include_infeasible, near)
        return view.ran.take(view.ranking[:count]).to_polars()

    def view(self, include_infeasible: bool = False, near: bool = False) -> View:
        """Part of the sweep that is ranked and drawn."""
        given = (self.name, self.frame, self.objectives, include_infeasible, near, self.orders)
        return View(*given, self.subject)

    def page(
        self,
        heat: tuple[str, str] | None = None,
        *,
        include_infeasible: bool = False,
        near: bool = False,
    ) -> Page:
        """The report page: best points, what matters, parallel coordinates, heat map, Pareto front,
        failures.

        `heat` are the parameters of the heat map, the two most influential ones when not given.
        Points that don't fit in memory, or may not, are counted and listed by themselves, or, with
        `include_infeasible` and `near`, ranked and drawn like the others and marked. Raises
        `InputError` for what is not a parameter that varies."""
        from .page import page

        return page(self.view(include_infeasible, near), self.refused, heat)

    def html(
        self,
        path: str | os.PathLike[str] | None = None,
        heat: tuple[str, str] | None = None,
        *,
        include_infeasible: bool = False,
        near: bool = False,
    ) -> str:
        """The page as HTML that needs nothing else; also written to `path`, whole or not at all.
        See `page`."""
        from .. import files

        text = self.page(heat, include_infeasible=include_infeasible, near=near).html()
        if path is not None:
            files.write_text(path, text)
        return text

    def figures(
        self,
        directory: str | os.PathLike[str],
        heat: tuple[str, str] | None = None,
        *,
        include_infeasible: bool = False,
        near: bool = False,
    ) -> list[str]:
        """Writes every chart of the page as SVG, PNG and CSV into `directory`: the names of the
        files."""
        from ..report.page import write_figures

        shown = self.page(heat, include_infeasible=include_infeasible, near=near)
        return write_figures(directory, shown.figures())

    def __repr__(self) -> str:
        return f"<Sweep {self.name}: {self.said()}>"

    def said(self) -> str:
        """How many points there are, failed, do not fit and were refused."""
        out, near, never = self.infeasible, self.near, self.impossible
        parts = [counted(self.frame.height, "point"), f"{self.failed:,} failed"]
        parts += [f"{never:,} can't exist"] if never else []
        parts += [f"{out:,} do not fit in memory"] if out else []
        parts += [f"{near:,} may not fit in memory"] if near else []
        parts += [f"{self.refused:,} combinations refused by constraints"] if self.refused else []
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        """Summary in a notebook: the number of points, and the table."""
        return f"<div><b>{escape(self.name)}</b>: {self.said()}</div>{self.frame._repr_html_()}"


def load(results: str | os.PathLike[str]) -> Sweep:
    """A sweep that has ended, from the directory of its results or the `table.parquet` in it.

    Raises `InputError` where there is none.
    """
    from .failures import failures, total
    from .table import NAME, read

    path = Path(results)
    file = path if path.is_file() else path / NAME
    frame, about = read(file)
    failed = total(failures(frame), impossible=False)
    objectives = tuple((name, more) for name, more in about["objectives"])
    return Sweep(
        about["name"],
        frame,
        failed,
        about["refused"],
        file.parent,
        objectives,
        about.get("orders", {}),
        about.get("subject", ""),
    )
