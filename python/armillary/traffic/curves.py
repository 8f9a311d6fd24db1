"""Latency by load: curves and their points, run side by side on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core
from ..units import GB
from .saturation import bracket

if TYPE_CHECKING:
    from concurrent.futures import Future


SCHEMA = "armillary.traffic/1"
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Loads of a curve as shares of the one at which the network saturates, unless others are asked
for."""
_ROUGH = 0.05
"""Precision of the points by which saturation is found."""
_RANGES = 10
"""Ranges of sizes that a point has."""
_BUSIEST = 10
"""Links that a point keeps: the busiest."""

Progress = Callable[[float, float], None]
_Found = dict[str, Any]


@dataclass(frozen=True)
class Link:
    """Traffic of a link."""

    name: str
    dimension: int
    """Number of the dimension, from 1."""
    utilisation: float
    """Share of the time in which it was sending."""
    gb_per_s: float


@dataclass(frozen=True)
class SizeRange:
    """Slowdowns of messages of `from_bytes` to `to_bytes`."""

    from_bytes: int
    to_bytes: int
    messages: int
    mean: float
    p50: float
    p95: float
    p99: float


class SentMessage(NamedTuple):
    """A message and its time."""

    source: int
    destination: int
    bytes: int
    start_ns: float
    time_ns: float
    """Time until it arrived; its age, if it had not."""
    arrived: bool
    alone_ns: float
    """Time that it takes on links that carry nothing else."""

    @property
    def slowdown(self) -> float:
        """How many times longer it took than alone. If it has not arrived, at least 1."""
        slowdown = self.time_ns / self.alone_ns if self.alone_ns else 1.0
        return slowdown if self.arrived else max(1.0, slowdown)


@dataclass(frozen=True)
class Point:
    """One load. Loads are shares of the injection bandwidth, rates GB/s of each sender."""

    load: float
    outcome: str
    """`steady`; `saturated`: latencies grow without end; `undecided`: messages ran out first."""
    offered_gb_per_s: float
    accepted_gb_per_s: float
    latency: dict[str, float]
    """`mean_ns`, `half_width_ns` of its 95 % confidence interval, `min_ns`, `p50_ns`, `p95_ns`,
    `p99_ns`, `p99_9_ns`, `max_ns`; from the creation of a message to its arrival."""
    messages: int
    warm_up_messages: int
    """Messages that no statistic counts."""
    simulated_ns: float
    mean_utilisation: float
    """Mean utilisation of the links that carried something."""
    links: list[Link]
    """The busiest, the busiest first."""
    slowdown: dict[str, float] | None = None
    """How many times longer messages took than alone, with sizes that are drawn: `mean`,
    `half_width`, `min`, `p50`, `p95`, `p99`, `p99_9`, `max`."""
    by_size: list[SizeRange] = field(default_factory=list)
    """The same for ranges of sizes that have equally many messages."""
    messages_sent: list[SentMessage] = field(default_factory=list, repr=False)
    """The messages that the slowdowns are of. Not in JSON: `--flows` writes them."""


@dataclass(frozen=True)
class Curve:
    """One pattern on one backend."""

    pattern: str
    backend: str
    alone_ns: float
    """Mean latency of a message that is alone in the network, on a connection in use."""
    first_ns: float
    """The same for the first message of a connection, whose windows have not grown."""
    latency_limit_ns: float
    """Mean latency from which the network counts as saturated."""
    saturation: tuple[float, float | None] | None
    """A load that the network carries and one that it does not; `None` if it was not looked for."""
    points: list[Point]
    sizes: str = ""
    """Distribution of the sizes, if they are drawn."""
    congestion_control: str = ""
    """Congestion control, if it was chosen."""


@dataclass(frozen=True)
class Traffic:
    """Curves of one platform, and how they were made."""

    platform: str
    npus: int
    injection_gb_per_s: float
    """Least bandwidth of all links that leave an NPU: a load of 1."""
    size_bytes: int | None
    """Bytes of a message; `None` if they are drawn."""
    arrivals: str
    precision: float
    seed: int
    cycle_ns: float | None
    """Length of a cycle of the backend `flit`, and bytes of a flit; `None` for other backends."""
    flit_bytes: int | None
    curves: list[Curve]
    sizes: list[Distribution] = field(default_factory=list)
    """Distributions of sizes, if they are drawn."""

    def as_dict(self) -> dict[str, Any]:
        """The curve as data for JSON."""
        curves = [
            replace(curve, points=[replace(each, messages_sent=[]) for each in curve.points])
            for curve in self.curves
        ]
        found = asdict(replace(self, curves=curves))
        for curve in found["curves"]:
            for point in curve["points"]:
                del point["messages_sent"]
        return {"schema": SCHEMA, **found}


@dataclass(frozen=True)
class Distribution:
    """A distribution of sizes, and where it is from."""

    name: str
    mean_bytes: float
    source: str


class TrafficInterrupted(KeyboardInterrupt):
    """A Ctrl-C (`stop`), with the points that were finished (`found`)."""

    def __init__(self, found: Traffic, stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.found = found
        self.stop = stop


@dataclass(frozen=True)
class PointPlan:
    """How points are run."""

    arrivals: str
    precision: float
    latency_limit: float
    messages_max: int
    tolerance: float
    loads: tuple[float, ...]
    find: bool


class _Stopped(Exception):
    """Another thread failed, or the user stopped the work."""


class Pool:
    """Threads for points, threads that wait for them, and what is done of all of them."""

    def __init__(self, jobs: int, progress: Progress | None, curves: int, plan: PointPlan) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.points = ThreadPoolExecutor(jobs)
        self.sides = ThreadPoolExecutor(curves)
        self.stop = threading.Event()
        self.progress = progress
        self.lock = threading.Lock()
        self.done = 0
        # The number of points for saturation is not known before: about 24.
        self.total = curves * ((24 if plan.find else 0) + len(plan.loads or SHARES))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.sides.shutdown(cancel_futures=True)
        self.points.shutdown(cancel_futures=True)

    def side(self, work: Callable[[], Curve]) -> Future[Curve]:
        """Starts a curve."""
        return self.sides.submit(work)

    def hook(self, _done: float, _now: float) -> None:
        """Ends a point when others have failed."""
        if self.stop.is_set():
            raise _Stopped

    def ended(self, point: Future[_Found]) -> _Found:
        """Result of a point, once it has ended."""
        found = point.result()
        with self.lock:
            self.done += 1
            if self.progress is not None:
                self.progress(min(0.99, self.done / self.total), found["simulated_ns"])
        return found


@dataclass
class CurveRun:
    """A curve that is being made."""

    pattern: str
    backend: str
    sizes: str
    control: str
    core: _core.Traffic
    injection: float
    plan: PointPlan
    finished: Curve | None = None
    """The curve with its first points; `None` before its saturation is known."""
    points: list[tuple[float, Future[_Found]]] = field(default_factory=list)
    """Points of the curve that are run, by load."""

    def curve(self, pool: Pool) -> Curve:
        """The curve with all its points."""
        plan = self.plan
        first, alone = self.core.alone()
        # With drawn sizes it is the mean slowdown that is limited.
        limit = plan.latency_limit * (1.0 if self.sizes else alone)
        found = None
        if plan.find:
            found = bracket(lambda loads: self._saturate(pool, loads, limit), plan.tolerance)
        loads = plan.loads or tuple(share * found[0] for share in SHARES if found)
        self.finished = Curve(
            self.pattern,
            self.backend,
            alone,
            first,
            limit,
            found,
            [],
            self.sizes,
            self.control,
        )
        self.points = self._start(pool, [load for load in loads if load > 0], limit, plan.precision)
        return replace(self.finished, points=[_point(at, pool.ended(p)) for at, p in self.points])

    def so_far(self) -> Curve | None:
        """The curve with the points that are finished, if there are any."""
        finished = [(load, each) for load, each in self.points if _is_finished(each)]
        points = [_point(load, each.result()) for load, each in finished]
        return replace(self.finished, points=points) if self.finished and points else None

    def _saturate(self, pool: Pool, loads: Sequence[float], limit: float) -> list[bool]:
        points = self._start(pool, loads, limit, max(_ROUGH, self.plan.precision))
        return [pool.ended(each)["outcome"] == "saturated" for _, each in points]

    def _start(
        self, pool: Pool, loads: Sequence[float], limit: float, precision: float
    ) -> list[tuple[float, Future[_Found]]]:
        def run(load: float) -> _Found:
            return self.core.run(
                load * self.injection,
                self.plan.arrivals == "periodic",
                precision,
                limit,
                self.plan.messages_max,
                pool.hook,
            )

        return [(load, pool.points.submit(run, load)) for load in loads]


def _is_finished(point: Future[_Found]) -> bool:
    return point.done() and not point.cancelled() and point.exception() is None


def _point(load: float, found: _Found) -> Point:
    links = [Link(name, dim + 1, used, rate / GB) for name, dim, used, rate in found["links"]]
    links.sort(key=lambda link: -link.utilisation)
    used = [link.utilisation for link in links]
    sent = [SentMessage(*each) for each in found.get("messages_sent", ())]
    return Point(
        load=load,
        outcome=found["outcome"],
        offered_gb_per_s=found["offered"] / GB,
        accepted_gb_per_s=found["accepted"] / GB,
        latency=found["latency"],
        messages=found["messages"],
        warm_up_messages=found["warm_up_messages"],
        simulated_ns=found["simulated_ns"],
        mean_utilisation=sum(used) / len(used) if used else 0.0,
        links=links[:_BUSIEST],
        slowdown=found.get("slowdown"),
        by_size=_by_size(sent),
        messages_sent=sent,
    )


def _by_size(sent: Sequence[SentMessage]) -> list[SizeRange]:
    """Slowdowns of ranges of sizes with equally many messages, the smallest first. A size is in one
    range alone."""
    ordered = sorted(sent, key=lambda each: (each.bytes, each.slowdown))
    found: list[SizeRange] = []
    begin = 0
    for number in range(1, _RANGES + 1):
        end = max(begin, len(ordered) * number // _RANGES)
        while 0 < end < len(ordered) and ordered[end].bytes == ordered[end - 1].bytes:
            end += 1
        if end > begin:
            found.append(_range(ordered[begin:end]))
        begin = end
    return found


def _range(sent: Sequence[SentMessage]) -> SizeRange:
    slowdowns = sorted(each.slowdown for each in sent)

    def at(thousandths: int) -> float:
        return slowdowns[-(-len(slowdowns) * thousandths // 1000) - 1]

    mean = sum(slowdowns) / len(slowdowns)
    first, last = sent[0].bytes, sent[-1].bytes
    return SizeRange(first, last, len(sent), mean, at(500), at(950), at(990))
