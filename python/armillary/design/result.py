"""The result of `armillary.design`: the designs with their pages and figures."""

from __future__ import annotations

import os

from ..report.page import write_figures
from . import charts
from .designs import Designs


class DesignResult(Designs):
    """The best designs, ranked by simulation, with what is known of that order and of the
    model's."""

    def html(self) -> str:
        """A page with tables and plots."""
        return charts.page(self).html()

    def write_page(self, path: str | os.PathLike[str]) -> None:
        """Writes a page with tables and plots. Raises `InputError`."""
        charts.page(self).write(path)

    def write_figures(self, directory: str | os.PathLike[str]) -> list[str]:
        """Writes every plot as SVG, PNG and CSV; the files' names. Raises `InputError`."""
        return write_figures(directory, charts.charts(self))
