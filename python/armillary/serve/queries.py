"""Queries to a recommendation model: they wait for a batch, and for a replica that is free.

Here: the queue, and what users experience. Not here: how long a batch takes (`recommender.py`).

A query has some samples. Each replica has a queue of its own; queries go to replicas in turn. A
batch opens with the oldest query that waits. It closes when the next query does not fit, when it is
full, or when its first query has waited for the window. It is sent when the replica is free, and
until then queries join it. All of its queries are answered at its end:

    latency of a query = wait for the batch and the replica + time of the batch"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError, Problem
from ..workload.dlrm_inference import PARTS
from .load import PICOSECONDS, Lengths, gaps
from .recommender import Batches
from .run import Spread, spread

SCHEMA = "armillary.serve-queries/1"
ENOUGH = 20_000
"""Queries with which rates are tried."""
TRIED = tuple(each / 50 for each in range(50, 0, -1))
"""Parts of the capacity that are tried as rates."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch. Times are seconds."""

    start: float
    end: float
    queries: int
    samples: int


@dataclass(frozen=True, slots=True)
class Queue:
    """Queries with their times, and the batches that they were in."""

    latency: tuple[float, ...]
    """Seconds of each query, in order of arrival."""
    waiting: tuple[float, ...]
    """Seconds of each query before its batch starts."""
    batches: tuple[Sent, ...]
    """Those of all replicas, in order of their start."""


def queued(
    arrivals: Sequence[float],
    samples: Sequence[int],
    most: int,
    window: float,
    seconds: Callable[[int], float],
    replicas: int = 1,
) -> Queue:
    """The queue of queries that arrive at ascending `arrivals` with these numbers of samples, in
    batches of at most `most` samples, which take `seconds` of their samples.

    A query has at most `most` samples."""
    latency, waiting = [0.0] * len(arrivals), [0.0] * len(arrivals)
    sent = list[Sent]()
    for replica in range(replicas):
        mine = range(replica, len(arrivals), replicas)
        free, at = 0.0, 0
        while at < len(mine):
            close = max(free, arrivals[mine[at]] + window)
            total, end, ready = 0, at, close
            while end < len(mine) and arrivals[mine[end]] <= close:
                if total + samples[mine[end]] > most:
                    ready = arrivals[mine[end]]
                    break
                total += samples[mine[end]]
                end += 1
                if total == most:
                    ready = arrivals[mine[end - 1]]
                    break
            start = max(free, ready)
            free = start + seconds(total)
            for query in (mine[each] for each in range(at, end)):
                waiting[query] = start - arrivals[query]
                latency[query] = free - arrivals[query]
            sent.append(Sent(start, free, end - at, total))
            at = end
    return Queue(tuple(latency), tuple(waiting), tuple(sorted(sent, key=lambda each: each.start)))


@dataclass(frozen=True, slots=True)
class Load:
    """Queries."""

    rate: float
    """A second."""
    count: int
    samples: Lengths
    arrival: str = "poisson"
    seed: int = 0

    def drawn(self, rate: float | None = None) -> tuple[list[float], list[int]]:
        """Times of arrivals in seconds at this or another rate, and samples.

        Raises:
            InputError: an unknown kind of arrival, or a last arrival that is too late."""
        source = random.Random(self.seed)
        times = gaps(self.arrival, rate or self.rate, self.count, source)
        return [time / PICOSECONDS for time in times], [
            self.samples.draw(source) for _ in range(self.count)
        ]


@dataclass(frozen=True, slots=True)
class Answered:
    """Queries, answered."""

    load: Load
    batches: Batches
    most: int
    window: float
    replicas: int
    queue: Queue
    span: float
    """Seconds from the first arrival to the last answer."""

    @property
    def latency(self) -> Spread:
        """Seconds from the arrival of a query to its answer."""
        return spread(self.queue.latency)

    @property
    def waiting(self) -> Spread:
        """Seconds from the arrival of a query to the start of its batch."""
        return spread(self.queue.waiting)

    @property
    def busy(self) -> float:
        """Part of the time in which a replica computes."""
        worked = sum(each.end - each.start for each in self.queue.batches)
        return worked / self.span / self.replicas

    @property
    def capacity(self) -> float:
        """Queries a second with full batches, one after another."""
        full = self.replicas * self.most / self.batches.time(self.most)
        return full / mean_samples(self.load.samples)

    @property
    def parts(self) -> dict[str, float]:
        """Mean seconds of the parts of a query's latency: the wait, and parts of its batch."""
        count = len(self.queue.latency)
        found = {"wait for a batch": self.waiting.mean}
        for name in PARTS:
            whole = sum(
                each.queries * self.batches.part(name, each.samples) for each in self.queue.batches
            )
            if whole:
                found[name] = whole / count
        return found

    def within(self, limit: float) -> float:
        """Part of the queries that are answered within `limit` seconds."""
        return sum(each <= limit for each in self.queue.latency) / len(self.queue.latency)


def mean_samples(samples: Lengths) -> float:
    """Samples of a query on average."""
    return samples.mean * (samples.low + samples.high) / 2


def answer(
    load: Load, batches: Batches, *, most: int, window: float = 0.0, replicas: int = 1
) -> Answered:
    """Serves queries in batches of at most `most` samples.

    Raises:
        InputError: queries that are larger than a batch, and what a load can't have.
    """
    arrivals, samples = load.drawn()
    if max(samples) > most:
        message = f"a query has {max(samples):,} samples, more than a batch of {most:,}"
        raise InputError([Problem("", "batch_samples", message, "larger batches")])
    queue = queued(arrivals, samples, most, window, batches.time, replicas)
    span = max(each.end for each in queue.batches) - arrivals[0]
    return Answered(load, batches, most, window, replicas, queue, span)


def highest_rate(found: Answered, limit: float) -> float:
    """The most queries a second at which 99 % are answered within `limit` seconds, of the parts
    `TRIED` of the capacity, with the first queries of the load; 0 if none is.

    More queries may be answered sooner: batches are full before their window has passed."""
    load = replace(found.load, count=min(found.load.count, ENOUGH))

    def kept(rate: float) -> bool:
        arrivals, samples = load.drawn(rate)
        queue = queued(
            arrivals, samples, found.most, found.window, found.batches.time, found.replicas
        )
        return spread(queue.latency).p99 <= limit

    if limit < found.batches.seconds[0]:
        return 0.0
    return next((rate for part in TRIED if kept(rate := part * found.capacity)), 0.0)


def as_dict(found: Answered, limit: float | None, warnings: Sequence[str]) -> dict[str, Any]:
    """The result as JSON. Times are ms, rates queries a second."""
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "queries": found.load.count,
        "rate": found.load.rate,
        "span_s": found.span,
        "npus": found.batches.npus * found.replicas,
        "replicas": found.replicas,
        "batch_samples": found.most,
        "batch_window_ms": 1e3 * found.window,
        "latency_ms": _ms(found.latency),
        "waiting_ms": _ms(found.waiting),
        "parts_ms": {name: 1e3 * value for name, value in found.parts.items()},
        "busy": found.busy,
        "capacity_per_s": found.capacity,
        "batches": len(found.queue.batches),
        "samples_of_a_batch": sum(each.samples for each in found.queue.batches)
        / len(found.queue.batches),
        "batch_times_ms": [
            {"samples": samples, "whole": 1e3 * seconds, **{k: 1e3 * v for k, v in parts.items()}}
            for samples, seconds, parts in zip(
                found.batches.samples, found.batches.seconds, found.batches.parts, strict=True
            )
        ],
        "tables": found.batches.tables,
        "table_bytes": found.batches.memory,
    }
    if limit is not None:
        made["slo_ms"] = 1e3 * limit
        made["within"] = found.within(limit)
        made["highest_rate_per_s"] = highest_rate(found, limit)
    return {**made, "warnings": list(warnings)}


def _ms(found: Spread) -> dict[str, float]:
    return {name: 1e3 * value for name, value in found.row().items()}


def table(found: Answered) -> list[Mapping[str, Any]]:
    """A row for each query; times are seconds."""
    arrivals, samples = found.load.drawn()
    rows = zip(arrivals, samples, found.queue.waiting, found.queue.latency, strict=True)
    return [
        {"query": number, "arrival_s": at, "samples": many, "waiting_s": wait, "latency_s": whole}
        for number, (at, many, wait, whole) in enumerate(rows)
    ]
