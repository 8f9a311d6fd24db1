"""Points on the workers of a Ray cluster: the one that `ray` finds (`RAY_ADDRESS`), or a local one
that it starts.

Files that a study names must be at the same place on every machine of the cluster.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

from ..errors import InputError, Problem
from .points import Point
from .runner import Runner

SHARE = 16
"""Points handed to a worker at once, once there are many."""


class Handle(Protocol):
    """An actor as Ray hands it out."""

    work: Any


class Actor:
    """Actor on a worker of the cluster, which runs points."""

    def __init__(self, opening: bytes) -> None:
        self.runner = Runner.opened(opening)

    def work(self, points: Sequence[Point]) -> list[bytes]:
        """Finished points as JSON."""
        return [self.runner.answer((index, tuple(values))) for index, values in points]


def _ray() -> ModuleType:
    try:
        return importlib.import_module("ray")
    except ImportError:
        help_ = "pip install 'armillary[ray]', or --executor processes"
        raise InputError([Problem("", "executor ray", "Ray is not installed", help_)]) from None


class RayExecutor:
    """Runs points on one actor a core of the cluster, or on `workers` of them."""

    def __init__(self, opening: bytes, workers: int | None) -> None:
        self.ray, self.opening, self.count = _ray(), opening, workers
        self.actors: list[Any] = []
        self.started = False

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self.actors:
            self.ray.kill(actor)
        if self.started:
            self.ray.shutdown()

    def _start(self) -> None:
        if not self.ray.is_initialized():
            self.ray.init(log_to_driver=False, include_dashboard=False, logging_level="ERROR")
            self.started = True
        count = self.count or max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        remote = self.ray.remote(num_cpus=1)(Actor)
        self.actors = [remote.remote(self.opening) for _ in range(count)]

    def run(self, groups: Sequence[Sequence[Point]]) -> Iterator[list[bytes]]:
        """Every point, as they end."""
        points = [point for group in groups for point in group]
        if not self.actors:
            self._start()
        size = max(1, min(SHARE, len(points) // (4 * len(self.actors))))
        shares = iter([list(points[begin : begin + size]) for begin in range(0, len(points), size)])
        busy: dict[Any, Any] = {}
        for actor in self.actors:
            self._hand(actor, shares, busy)
        while busy:
            (done, *_), _ = self.ray.wait(list(busy), num_returns=1)
            actor = busy.pop(done)
            self._hand(actor, shares, busy)
            yield self.ray.get(done)

    @staticmethod
    def _hand(actor: Handle, shares: Iterator[list[Point]], busy: dict[Any, Any]) -> None:
        share = next(shares, None)
        if share is not None:
            busy[actor.work.remote(share)] = actor
