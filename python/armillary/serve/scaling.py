"""The rule by which engines start and stop with the load.

The rule is that of Kubernetes' HorizontalPodAutoscaler (kubernetes.io, "Horizontal Pod
Autoscaling"): `wanted = ceil(requests / goal)`, looked at every `every` seconds. More engines start
at once, and take requests after `delay`. Fewer stay only when all looks of the last `window`
seconds wanted fewer. An engine that stops ends the requests that it has. The code is in
`crates/serve/src/scaling.rs`."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError, Problem
from ..units import base, counted
from .load import LAST, PICOSECONDS

_EXAMPLE = "min=1,max=8,concurrency=32,delay=60s,window=300s,every=15s"
_MOST = 4096
"""Engines."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When engines start and stop. Times are seconds."""

    least: int
    """Engines at least, and at the start."""
    most: int
    goal: float
    """Requests of an engine."""
    waiting: bool = False
    """Only those that wait count."""
    every: float = 15.0
    """Time between two looks."""
    delay: float = 60.0
    """Time until an engine takes requests."""
    window: float = 300.0
    """Time for which looks must want fewer engines."""

    def row(self) -> tuple[int, float, bool, int, int, int]:
        """As `_core.serve` takes it."""
        every, delay, window = (
            round(each * PICOSECONDS) for each in (self.every, self.delay, self.window)
        )
        return self.least, self.goal, self.waiting, max(1, every), delay, window

    @property
    def said(self) -> str:
        """In words."""
        what = counted(round(self.goal), "waiting request" if self.waiting else "request")
        return (
            f"{self.least} to {counted(self.most, 'engine')}, {what} for each; a look every "
            f"{self.every:g} s, {self.delay:g} s to start, {self.window:g} s before one stops"
        )


def rule(text: str) -> Rule:
    """A rule such as `min=1,max=8,concurrency=32,delay=60s`.

    Raises:
        InputError: another text.
    """
    counts = {"min": 1.0, "max": 0.0, "concurrency": 0.0, "queue": 0.0}
    times = {"every": 15.0, "delay": 60.0, "window": 300.0}
    given: set[str] = set()
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        found = _time(value) if name in times else _count(value)
        if name not in {**counts, **times} or name in given or found is None:
            raise wrong(f"invalid part of a rule: {part.strip()!r}")
        given.add(name)
        (times if name in times else counts)[name] = found
    if len(given & {"concurrency", "queue"}) != 1:
        raise wrong("a rule needs concurrency or queue: the requests of an engine")
    least, most = round(counts["min"]), round(counts["max"])
    if "max" not in given or not 1 <= least <= most <= _MOST:
        raise wrong(f"engines from {least} to {most}: 1 <= min <= max <= {_MOST}")
    if not times["every"] >= 0.001:
        raise wrong("looks more often than every millisecond")
    goal = counts["concurrency"] or counts["queue"]
    return Rule(least, most, goal, "queue" in given, **times)


def _count(text: str) -> float | None:
    return float(text) if text.isdecimal() and 0 < int(text) < 2**24 else None


def _time(text: str) -> float | None:
    """Seconds, with or without a unit."""
    found = base(text) if text.endswith("s") else base(f"{text}s")
    return float(found) if found is not None and 0 <= found <= LAST / PICOSECONDS else None


def wrong(message: str) -> InputError:
    """The error of a rule."""
    return InputError([Problem("", "--autoscale", message, _EXAMPLE)])
