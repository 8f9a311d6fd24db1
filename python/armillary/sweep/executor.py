"""Executors of points: their contract, and the choice among them. Each executor has a file of its
own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..errors import InputError, Problem
from .points import Point

EXECUTORS = ("processes", "ray")


class Executor(AbstractContextManager["Executor", None], Protocol):
    """Runs points on workers that it starts when first needed and ends on leaving the `with`
    block."""

    def run(self, groups: Sequence[Sequence[Point]]) -> Iterator[list[bytes]]:
        """Every point once, each as the JSON of a `Finished`, as they end and in any order.

        The points of a group have one workload.
        """
        ...


def executor(kind: str, opening: bytes, workers: int | None) -> Executor:
    """The executor `kind`, with one worker for each core (of the cluster) by default."""
    if workers is not None and not 1 <= workers <= 4096:
        raise InputError(
            [Problem("", "workers", f"invalid number of workers: {workers}", "from 1 to 4096")]
        )
    if kind == "ray":
        from .ray_executor import RayExecutor

        return RayExecutor(opening, workers)
    if kind != "processes":
        raise InputError(
            [Problem("", "executor", f"unknown executor {kind!r}", ", ".join(EXECUTORS))]
        )
    from .processes import Processes

    return Processes(opening, workers or _cores())


def _cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
