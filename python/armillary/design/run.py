"""A design run: read, search, check. The main path of this package, one call a stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import DesignResult

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done, 0..1."""


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

    def tell(what: str) -> Callable[..., None] | None:
        return None if progress is None else lambda share, *_: progress(what, share)

    task = reader.task(spec, overrides)
    found = search.search(task, tell("searching"))
    checked = tuple(tuple(check(task, each, tell("simulating"))) for each in found.designs[: task.simulate])
    return DesignResult(task, found, checked)
