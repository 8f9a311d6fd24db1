"""A design run: read, search, check. The main path of this package, one call a stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import DesignResult

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of everything that is done, 0..1."""


def design(
    spec: str | os.PathLike[str] | Mapping[str, Any], *, progress: Progress | None = None, **overrides: object
) -> DesignResult:
    """Designs the platform that `spec`, a file or a mapping, asks for (docs/design.md).

    `overrides` replace top-level values of the specification: `design("spec.yml", objective="pareto")`. Raises
    `InputError` listing every problem, or the constraints that contradict one another.
    """
    from . import reader, search  # with the first design, not with the package: they load numpy and scipy
    from .check import check
    from .result import DesignResult

    def stage(what: str, begin: float, end: float) -> Callable[..., None]:
        def tell(share: float, *_: object) -> None:
            if progress is not None:
                progress(what, begin + (end - begin) * share)

        return tell

    task = reader.task(spec, overrides, stage("reading", 0.0, 0.3))
    found = search.search(task, stage("searching", 0.3, 0.8))
    first = found.designs[: task.simulate]
    width = 0.2 / max(len(first), 1)
    checked = [
        tuple(check(task, each, stage("simulating", 0.8 + width * i, 0.8 + width * (i + 1))))
        for i, each in enumerate(first)
    ]
    return DesignResult(task, found, tuple(checked))
