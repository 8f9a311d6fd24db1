"""A load through a deployment, and the times of its requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import InputError, Problem
from .deployment import Engines
from .load import PICOSECONDS, Load

ROUTINGS = ("round_robin", "least_loaded", "prefix")
"""Ways in which requests reach engines."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over requests or tokens."""

    mean: float
    p50: float
    p90: float
    p99: float
    most: float

    def row(self) -> dict[str, float]:
        """For JSON."""
        return {
            "mean": self.mean, "p50": self.p50, "p90": self.p90, "p99": self.p99, "max": self.most,
        }  # fmt: skip


def spread(values: Sequence[float]) -> Spread:
    """Mean and percentiles (nearest rank) of values; zeros of none."""
    if not values:
        return Spread(0.0, 0.0, 0.0, 0.0, 0.0)
    ordered = sorted(values)
    count = len(ordered)

    def at(percent: int) -> float:
        return ordered[max(0, -(-count * percent // 100) - 1)]

    return Spread(sum(ordered) / count, at(50), at(90), at(99), ordered[-1])


@dataclass(frozen=True, slots=True)
class Answer:
    """A request's times, seconds from the start of the run."""

    arrival: float
    admitted: float
    first: float
    """The first token."""
    end: float
    """The last token."""
    prompt: int
    output: int
    preemptions: int
    cached: int
    """Tokens of the prompt that the cache held."""
    engine: int
    transfer: float

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.first - self.arrival

    @property
    def tpot(self) -> float | None:
        """Seconds of each token after the first; `None` of a single token."""
        return (self.end - self.first) / (self.output - 1) if self.output > 1 else None

    @property
    def latency(self) -> float:
        """Seconds to the last token."""
        return self.end - self.arrival


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the steps, seconds over all steps, and whether the host does it."""

    name: str
    seconds: float
    host: bool


MOST_STEPS, MOST_SHOWN = 200_000, 2_000
"""Entries for steps, and requests, that a timeline has at most. Steps in which nothing changes but
lengths are one entry."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The content of a timeline."""

    steps: int
    left_out: int
    """Steps after the last one that it has room for."""
    requests: int
    of: int
    """All requests."""

    @property
    def part(self) -> str:
        """The part that is left out, in words."""
        said = ""
        if self.requests < self.of:
            said += f", {self.requests:,} of {self.of:,} requests"
        if self.left_out:
            said += f", the first {self.steps:,} of {self.steps + self.left_out:,} steps"
        return said


@dataclass(frozen=True, slots=True)
class Served:
    """The result of a load on a deployment. Times are seconds."""

    engines: Engines
    decode: Engines | None
    load: Load
    answers: tuple[Answer, ...]
    itl: Spread
    steps: int
    in_steps: int
    """Requests of all steps: one that is in two steps counts twice."""
    busy: float
    """Seconds of steps, over all engines."""
    parts: tuple[Part, ...]
    samples: tuple[tuple[float, int, int, int], ...]
    """Seconds, running and waiting requests, blocks in use."""
    timeline: Timeline | None = None
    """The content of the timeline, where one was asked for."""
    lifetimes: tuple[tuple[tuple[float, int], ...], float] | None = None
    """Where engines start and stop: seconds at which their number changed with that number, and
    seconds of all of them."""

    @property
    def gpus(self) -> int:
        """GPUs of the deployment."""
        return self.engines.gpus + (self.decode.gpus if self.decode else 0)

    @property
    def span(self) -> float:
        """Seconds from the first arrival to the last token."""
        return max(each.end for each in self.answers) - min(each.arrival for each in self.answers)

    @property
    def ttft(self) -> Spread:
        """Time to the first token."""
        return spread([each.ttft for each in self.answers])

    @property
    def tpot(self) -> Spread:
        """Time of each token after the first."""
        return spread([each.tpot for each in self.answers if each.tpot is not None])

    @property
    def latency(self) -> Spread:
        """Time to the last token."""
        return spread([each.latency for each in self.answers])

    @property
    def queue(self) -> Spread:
        """Time until the first step."""
        return spread([each.admitted - each.arrival for each in self.answers])

    @property
    def output_rate(self) -> float:
        """Generated tokens a second."""
        return sum(each.output for each in self.answers) / self.span

    @property
    def rate(self) -> float:
        """Tokens a second, of prompts and outputs."""
        return self.output_rate + sum(each.prompt for each in self.answers) / self.span

    def goodput(self, ttft: float | None, tpot: float | None) -> float:
        """Requests a second that keep the limits, seconds."""
        kept = sum(keeps(each, ttft, tpot) for each in self.answers)
        return kept / self.span


def keeps(each: Answer, ttft: float | None, tpot: float | None) -> bool:
    """Whether a request keeps the limits, seconds; `None` stands for any time."""
    slow = tpot is not None and each.tpot is not None and each.tpot > tpot
    return not slow and (ttft is None or each.ttft <= ttft)


def serve(
    engines: Engines,
    load: Load,
    *,
    decode: Engines | None = None,
    transfer: Sequence[tuple[float, float]] = (),
    routing: str = "round_robin",
    imbalance: int = 8,
    progress: Callable[[float, float], None] | None = None,
    timeline: str | os.PathLike[str] | None = None,
    scaling: tuple[int, float, bool, int, int, int] | None = None,
) -> Served:
    """Runs the load. With `decode` engines, `engines` compute the prompts alone, and `transfer`
    are seconds of the way of keys and values by tokens. `timeline` is a file for a timeline in
    Perfetto's format (docs/guides/timeline.md). `scaling` is a rule by which engines start and stop
    (`scaling.Rule.row`).

    Raises:
        InputError: a load that the engines can't take.
    """
    if routing not in ROUTINGS:
        message = f"unknown routing: {routing!r}"
        raise InputError([Problem("", "routing", message, ", ".join(ROUTINGS))])
    if not load.requests:
        raise InputError([Problem("", "requests", "the load has no requests", "one or more")])
    longest = load.longest
    rows: list[tuple[list[tuple[int, int]], int, int]] = [
        (list(each.prompt), each.output, each.priority) for each in load.requests
    ]
    pairs = None
    if decode is not None:
        pairs = (decode.row(longest), [at for at, _ in transfer], [time for _, time in transfer])
    found = _core.serve(
        engines.row(longest), pairs, routing, imbalance, rows,
        None if load.arrivals is None else list(load.arrivals), load.concurrency, progress,
        after=list(load.after), scaling=scaling,
        most=(MOST_STEPS, MOST_SHOWN) if timeline is not None else (0, 0),
    )  # fmt: skip
    answers = tuple(
        Answer(
            arrival / PICOSECONDS, admitted / PICOSECONDS, first / PICOSECONDS, end / PICOSECONDS,
            request.tokens, request.output, preemptions, cached, engine, moved / PICOSECONDS,
        )
        for request, (arrival, admitted, first, end), (preemptions, cached, engine, moved) in zip(
            load.requests, found.times(), found.notes(), strict=True
        )
    )  # fmt: skip
    sums, states, lived = found.sums(), found.samples(), found.lifetimes()
    return Served(
        engines, decode, load, answers, _gaps(found),
        sum(each[0] for each in sums), sum(each[1] for each in sums),
        sum(each[3] for each in sums) / PICOSECONDS,
        _parts(engines, decode, sums),
        tuple((at / PICOSECONDS, runs, waits, used) for at, runs, waits, used in states),
        None if timeline is None else _timeline(timeline, found, engines, decode),
        lived and (tuple((at / PICOSECONDS, count) for at, count in lived[0]), lived[1]),
    )  # fmt: skip


def _timeline(
    path: str | os.PathLike[str], found: _core.Served, engines: Engines, decode: Engines | None
) -> Timeline:
    """Writes the timeline of a run."""
    pools = [("engine", engines)]
    if decode is not None:
        pools = [("prompts", engines), ("tokens", decode)]
    names, terms = [], []
    for said, kind in pools:
        digits = len(str(kind.count - 1))
        names += [f"{said} {number:0{digits}}" for number in range(kind.count)]
        terms += [[term.name.replace(" ", "_") for term in kind.terms]] * kind.count
    steps, left_out, requests, _ = found.write_timeline(path, names, terms)
    return Timeline(steps, left_out, requests, len(found.times()))


def _gaps(found: _core.Served) -> Spread:
    _, mean, most = found.gaps()
    p50, p90, p99 = (found.gap_per_mille(part) / PICOSECONDS for part in (500, 900, 990))
    return Spread(mean / PICOSECONDS, p50, p90, p99, most / PICOSECONDS)


def _parts(engines: Engines, decode: Engines | None, sums: Sequence[Any]) -> tuple[Part, ...]:
    named: dict[tuple[str, bool], float] = {}
    for number, (*_, seconds) in enumerate(sums):
        kind = engines if decode is None or number < engines.count else decode
        for term, spent in zip(kind.terms, seconds, strict=True):
            named[term.name, term.host] = named.get((term.name, term.host), 0.0) + spent
    return tuple(Part(name, spent, host) for (name, host), spent in named.items())
