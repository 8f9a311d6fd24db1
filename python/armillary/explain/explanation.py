"""Results of explaining and comparing: pages to read, and the same content as data."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..report import page, words

EXPLANATION = "armillary.explanation/1"
COMPARISON = "armillary.comparison/1"
MEASURED = "armillary.measured-step/1"


@dataclass(frozen=True)
class Explanation:
    """Why a step, or an operation of it, takes its time. Notebooks display it; `print` gives its
    text."""

    page: page.Page
    """Sentences and tables."""
    data: Mapping[str, Any]
    """The same as numbers; times in ns, shares 0..1. Schema `armillary.explanation/1`,
    docs/guides/explain.md."""

    def to_json(self) -> str:
        """`data` as JSON text."""
        return json.dumps(self.data, indent=2)

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """`page` as one HTML document that needs nothing else; also written to `path`, whole or not
        at all."""
        if path is not None:
            self.page.write(path)
        return self.page.html()

    def __str__(self) -> str:
        return words.text(self.page)

    def _repr_html_(self) -> str:
        return page.body(self.page)


@dataclass(frozen=True)
class Listing(Explanation):
    """The table of a file that is not a workload."""

    rows: Sequence[Mapping[str, Any]]
    """The same rows as `data` has, with text and numbers only, for CSV."""

    def to_csv(self) -> str:
        """`rows` as CSV with a line of names."""
        written = io.StringIO()
        out = csv.DictWriter(written, [*self.rows[0]], lineterminator="\n")
        out.writeheader()
        out.writerows(self.rows)
        return written.getvalue()


class ExplanationInterrupted(KeyboardInterrupt):
    """A Ctrl-C (`stop`), with what is known of the explanation (`found`), which says so in its
    warnings."""

    def __init__(self, found: Explanation, stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.found = found
        self.stop = stop


@dataclass(frozen=True)
class Comparison(Explanation):
    """Differences between runs, and their causes: schema `armillary.comparison/1`. Or between a
    prediction and logs of training: `armillary.measured-step/1` (docs/guides/compare.md)."""
