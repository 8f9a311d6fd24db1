"""A design run: read, search, rank by simulation. The main path of this package, one call a
stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import DesignResult

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of everything that is done, 0..1."""


def design(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    progress: Progress | None = None,
    **overrides: object,
) -> DesignResult:
    """Designs the platform that `spec`, a file or a mapping, asks for (docs/guides/design.md).

    `overrides` replace top-level values of the specification: `design("spec.yml",
    objective="pareto")`. Raises `InputError` listing every problem, or the constraints that
    contradict one another."""
    from dataclasses import replace

    from . import (
        rank,
        reader,
    )  # with the first design, not with the package: they load numpy and scipy
    from .check import explained
    from .result import DesignResult
    from .search import Searcher

    def stage(what: str, begin: float, end: float) -> Callable[..., None]:
        def report(share: float, *_: object) -> None:
            if progress is not None:
                progress(what, begin + (end - begin) * min(share, 1.0))

        return report

    task = reader.task(spec, overrides, stage("reading and measuring workloads", 0.0, 0.3))
    searcher = Searcher(task, stage("searching", 0.3, 0.6))
    searcher.run()
    report = stage("simulating designs", 0.6, 1.0)
    order = rank.ranked(task, searcher, report)
    first = order.trials[: task.simulate]
    trials = [
        replace(each, checks=tuple(explained(task, each.design, each.checks))) for each in first
    ]
    return DesignResult(
        task, searcher.found(), replace(order, trials=(*trials, *order.trials[task.simulate :]))
    )
