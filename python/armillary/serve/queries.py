"""Queries to a recommendation model: they wait for a batch, and for a replica that is free.

Here: the queue, and what users experience. Not here: how long a batch takes (`recommender.py`).

A query has some samples. Each replica has a queue of its own; queries go to replicas in turn. A
batch opens with the oldest query that waits. It closes when the next query does not fit, when it is
full, or when its first query has waited for the window. It is sent when the replica is free, and
until then queries join it. All of its queries are answered at its end:

    latency of a query = wait for the batch and the replica + time of the batch

While queries wait for longer than a batch takes, each batch holds those that fit, one after the
other. How many queries a second that answers is the capacity."""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ..errors import InputError, Problem
from ..workload.dlrm_inference import PARTS
from .load import PICOSECONDS, Lengths, gaps, shape_of
from .recommender import Batches
from .run import Spread, spread

SCHEMA = "armillary.serve-queries/1"
PACKED = 100_000
"""Queries with which the capacity is found, where their samples vary."""
FEWEST, MOST = 60_000, 2_000_000
"""Queries with which a rate is tried on each replica."""
BATCHES = 200
"""Batches with which a rate is tried, at least."""
SETTLED = 20
"""Times that a queue needs to settle for which a rate is tried, at least."""
FULL = 0.99
"""Part of the capacity up to which rates are tried: a queue at its capacity never settles."""
LATE = 0.01
"""Part of the queries that may be late."""
STEP = 1.25
"""From one tried rate to the next, before the limit is between two."""
EXACT = 1.005
"""The same at the end."""


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
        times = arrivals[replica::replicas]
        before = list(accumulate(samples[replica::replicas], initial=0))
        for first, end, start, done in _sent(times, before, most, window, seconds):
            for query in mine[first:end]:
                waiting[query] = start - arrivals[query]
                latency[query] = done - arrivals[query]
            sent.append(Sent(start, done, end - first, before[end] - before[first]))
    return Queue(tuple(latency), tuple(waiting), tuple(sorted(sent, key=lambda each: each.start)))


def _sent(
    arrivals: Sequence[float],
    before: Sequence[int],
    most: int,
    window: float,
    seconds: Callable[[int], float],
) -> Iterator[tuple[int, int, float, float]]:
    """Batches of a replica: the first query, the one after the last, the start, the end.

    `before` are the samples of the queries before each one, and at last those of all."""
    free, at = 0.0, 0
    while at < len(arrivals):
        close = max(free, arrivals[at] + window)
        there = bisect_right(arrivals, close, at)
        end = bisect_right(before, before[at] + most, at) - 1
        if before[end] - before[at] == most and end <= there:
            ready = arrivals[end - 1]
        elif end < there:
            ready = arrivals[end]
        else:
            end, ready = there, close
        start = max(free, ready)
        free = start + seconds(before[end] - before[at])
        yield at, end, start, free
        at = end


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
    capacity: float
    """Queries a second while many wait: in each batch those that fit, one batch after another."""

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


def grows(found: Answered) -> bool:
    """Whether the last quarter of the queries waits more than twice as long as the first, and
    longer than a quarter of a usual latency."""
    waits = found.queue.waiting
    quarter = len(waits) // 4
    if quarter < 2:
        return False
    first, last = sum(waits[:quarter]) / quarter, sum(waits[-quarter:]) / quarter
    return last > 2 * first and last > found.latency.p50 / 4


def packed(samples: Lengths, most: int, seconds: Callable[[int], float], seed: int = 0) -> float:
    """Queries a second that a replica answers while many wait: in each batch of at most `most`
    samples those that fit, in order. Drawn queries with more samples count as a full batch."""
    if _constant(samples):
        size = min(most, samples.draw(random.Random(seed)))
        return (most // size) / seconds(most // size * size)
    sizes = _sizes(samples, most, PACKED, random.Random(seed))
    before = list(accumulate(sizes, initial=0))
    at, taken = 0, 0.0
    while (end := bisect_right(before, before[at] + most, at) - 1) < PACKED:
        taken += seconds(before[end] - before[at])
        at = end
    if at < PACKED // 2:  # what a batch of thousands leaves free is little
        return most / seconds(most) / (before[-1] / PACKED)
    return at / taken


def _constant(samples: Lengths) -> bool:
    return samples.low == samples.high == 1 and not samples.deviation


def _sizes(samples: Lengths, most: int, count: int, source: random.Random) -> list[int]:
    return [min(most, samples.draw(source)) for _ in range(count)]


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
        raise InputError(
            [Problem("", "batch_samples", message, "larger batches, or smaller queries")]
        )
    queue = queued(arrivals, samples, most, window, batches.time, replicas)
    span = max(each.end for each in queue.batches) - arrivals[0]
    capacity = replicas * packed(load.samples, most, batches.time, load.seed)
    return Answered(load, batches, most, window, replicas, queue, span, capacity)


@dataclass(frozen=True, slots=True)
class Promise:
    """A limit of the latency, and the rate that keeps it."""

    limit: float
    """Seconds."""
    within: float
    """Part of the run's queries that are answered within the limit."""
    rate: float
    """The most queries a second at which 99 % keep the limit; 0 if there is no such rate."""
    tried: float
    """The highest rate that was tried: 99 % of the capacity, or less where a run at that rate needs
    more than `MOST` queries on a replica."""

    @property
    def open(self) -> bool:
        """Whether higher rates may keep the limit too."""
        return self.rate == self.tried


def promise(found: Answered, limit: float) -> Promise:
    """The rate that keeps a limit of `limit` seconds, and the part of the run that does.

    Rates are tried on one replica, with runs of their own, which are long enough for the queue to
    settle. The first quarter of a run does not count. The number of queries of `found` has no part
    in it.

    More queries may be answered sooner: batches are full before their window has passed. So rates
    are tried from above."""
    trial = _Trial(found, limit)
    rate = found.replicas * trial.highest()
    return Promise(limit, found.within(limit), rate, found.replicas * trial.tried)


class _Trial:
    """Rates on one replica. Time is counted in mean distances of queries, so that one list of
    arrivals serves all rates."""

    def __init__(self, found: Answered, limit: float) -> None:
        load, most = found.load, found.most
        self.most, self.limit, self.window = most, limit, found.window
        self.seconds = found.batches.time
        self.least, self.longest = found.batches.seconds[0], found.batches.time(most)
        self.capacity = found.capacity / found.replicas
        samples = load.samples
        self.fit = most / max(1.0, samples.mean * (samples.low + samples.high) / 2)
        shape = shape_of(load.arrival)
        self.varied = samples.deviation**2 + (samples.high - samples.low) ** 2 / 12
        if shape is not None:
            self.varied += 1 / (shape * found.replicas)
        tried = self.capacity * min(FULL, 1 - math.sqrt(SETTLED * self.varied / MOST))
        if self.fit * BATCHES > MOST:
            tried = min(tried, MOST / BATCHES / (self.longest + self.window))
        self.tried = tried
        count, source = self.count(tried), random.Random(load.seed)
        gap = None if shape is None else shape * found.replicas
        one = (
            [1.0] * count
            if gap is None
            else [source.gammavariate(gap, 1 / gap) for _ in range(count)]
        )
        self.arrivals = array("d", accumulate(one))
        if _constant(samples):
            size = min(most, samples.draw(source))
            self.before: Sequence[int] = range(0, (count + 1) * size, size)
        else:
            sizes = _sizes(samples, most, count, source)
            self.before = array("q", accumulate(sizes, initial=0))

    def count(self, rate: float) -> int:
        """Queries with which a rate is tried."""
        settled = SETTLED * self.varied / (1 - min(FULL, rate / self.capacity)) ** 2
        together = min(self.fit, 1 + rate * (self.longest + self.window))
        return min(MOST, max(FEWEST, math.ceil(settled), math.ceil(BATCHES * together)))

    def kept(self, rate: float) -> bool:
        """Whether 99 % keep the limit."""
        count = self.count(rate)
        skipped, limit, late = count // 4, self.limit * rate, 0
        arrivals, before = self.arrivals[:count], self.before[: count + 1]
        allowed = LATE * (count - skipped)

        def seconds(samples: int) -> float:
            return rate * self.seconds(samples)

        for first, end, _, done in _sent(arrivals, before, self.most, rate * self.window, seconds):
            counted = max(first, skipped)
            if counted < end:
                late += bisect_left(arrivals, done - limit, counted, end) - counted
                if late > allowed:
                    return False
        return True

    def highest(self) -> float:
        """The highest rate that keeps the limit; 0 if none does."""
        if self.limit < self.least:
            return 0.0
        lone = 1e-4 / (self.longest + self.window)
        several = 1 / (self.least + self.window)
        above, rate = self.tried, self.tried
        while not self.kept(rate):
            if rate < lone:
                return 0.0
            above, rate = rate, rate / (STEP if rate > several else 2)
        while above > EXACT * rate:
            middle = math.sqrt(rate * above)
            rate, above = (middle, above) if self.kept(middle) else (rate, middle)
        return rate


def cost(found: Answered, price: float) -> float:
    """Dollars of a million queries at `price` dollars for an NPU and hour."""
    npus = found.batches.npus * found.replicas
    return price * npus / 3600 * found.span / found.load.count * 1e6


def as_dict(
    found: Answered, kept: Promise | None, warnings: Sequence[str], price: float | None = None
) -> dict[str, Any]:
    """The result as JSON. Times are ms, rates queries a second; `price` is dollars of an NPU for an
    hour."""
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "queries": found.load.count,
        "rate": found.load.rate,
        "arrival": found.load.arrival,
        "seed": found.load.seed,
        "samples": _samples(found.load.samples),
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
    if kept is not None:
        made["slo_ms"] = 1e3 * kept.limit
        made["within"] = kept.within
        made["highest_rate_per_s"] = kept.rate
        made["highest_rate_tried_per_s"] = kept.tried
    if price is not None:
        made["price_per_npu_hour"] = price
        made["dollars_per_million_queries"] = cost(found, price)
    return {**made, "warnings": list(warnings)}


def _samples(samples: Lengths) -> dict[str, float]:
    """Samples of a query: uniform from `least` to `most`, or lognormal with a `deviation`."""
    mean = samples.mean
    if samples.deviation:
        return {"mean": mean, "deviation": samples.deviation * mean}
    return {"mean": mean, "least": samples.low * mean, "most": samples.high * mean}


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
