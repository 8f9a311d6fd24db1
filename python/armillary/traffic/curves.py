"""Latency by load: the points of each pattern on each backend, run side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import _core, backends
from ..errors import InputError, Problem
from ..units import GB
from .patterns import Pattern
from .saturation import MOST, bracket

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..platform import AnyPlatform, Platform

SCHEMA = "armillary.traffic/1"
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Loads of a curve as shares of the one at which the network saturates, unless others are asked
for."""
_ROUGH = 0.05
"""Precision of the points by which saturation is found."""
_BUSIEST = 10
"""Links that a point keeps: the busiest."""

Progress = Callable[[float, float], None]
_Found = dict[str, Any]
ARRIVALS = ("poisson", "periodic")
"""When messages are created."""


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


@dataclass(frozen=True)
class Traffic:
    """Curves of one platform, and how they were made."""

    platform: str
    npus: int
    injection_gb_per_s: float
    """Least bandwidth of all links that leave an NPU: a load of 1."""
    size_bytes: int
    arrivals: str
    precision: float
    seed: int
    cycle_ns: float | None
    """Length of a cycle of the backend `flit`, and bytes of a flit; `None` for other backends."""
    flit_bytes: int | None
    curves: list[Curve]

    def as_dict(self) -> dict[str, Any]:
        """The curve as data for JSON."""
        return {"schema": SCHEMA, **asdict(self)}


class TrafficInterrupted(KeyboardInterrupt):
    """A Ctrl-C (`stop`), with the points that were finished (`found`)."""

    def __init__(self, found: Traffic, stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.found = found
        self.stop = stop


@dataclass(frozen=True)
class _Plan:
    """How points are run."""

    arrivals: str
    precision: float
    latency_limit: float
    messages_max: int
    tolerance: float
    loads: tuple[float, ...]
    find: bool


def traffic(  # noqa: PLR0913 - keywords of a public function
    platform: AnyPlatform,
    patterns: Sequence[Pattern | str] = ("uniform",),
    *,
    networks: Sequence[str] = (),
    size: int = 4096,
    loads: Sequence[float] = (),
    saturation: bool | None = None,
    arrivals: str = "poisson",
    precision: float = 0.02,
    tolerance: float = 0.01,
    latency_limit: float = 10.0,
    messages_max: int = 300_000,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Traffic:
    """Runs synthetic traffic on `platform`: latency and throughput by load.

    A platform is an object, the name of a preset or the path of a file.
    `patterns` are names such as `uniform` and `tornado` (all are in `patterns.NAMED`),
    `hotspot:0,7:10%` or a file of flows. `networks` are backends, by default that of the platform.
    NPUs send messages of `size` bytes, at random times (`arrivals` is `poisson`) or at equal
    distances (`periodic`). `loads` are shares of the injection bandwidth, the least bandwidth of
    all links that leave an NPU. Without them the load at which the network saturates is found
    within `tolerance`, and the curve has points up to there; `saturation` asks for it, or not, in
    any case. A network is saturated when the mean latency is more than `latency_limit` times that
    of a message alone. A point ends when the 95 % confidence interval of the mean latency is less
    than `precision` of it, either way, or after `messages_max` messages. Points run on `jobs`
    threads. The result does not depend on their number.

    Raises `InputError` for what does not fit together, `StalledError` for a network that locks up,
    `TrafficInterrupted` for a Ctrl-C after the first point of a curve.
    """
    from ..platform import Platform

    platform = Platform.of(platform)
    find = saturation if saturation is not None else not loads
    plan = _Plan(arrivals, precision, latency_limit, messages_max, tolerance, tuple(loads), find)
    _check(plan, size, seed, jobs)
    parsed = [each if isinstance(each, Pattern) else Pattern.parse(each) for each in patterns]
    names = [backends.known(name) for name in networks] or [platform.backend]
    runs = [
        (pattern.name, name, _core.Traffic(*_request(platform, pattern, name, size, seed)))
        for pattern in parsed
        for name in names
    ]
    injection = float(runs[0][2].injection())
    if not injection:
        raise InputError(
            [Problem(platform.name, "topology", "an NPU has no link by which to send")]
        )
    cycles = [found for _, _, core in runs if (found := core.cycle()) is not None]
    cycle, flit = cycles[0] if cycles else (None, None)
    empty = Traffic(
        platform=platform.name,
        npus=platform.npus,
        injection_gb_per_s=injection / GB,
        size_bytes=size,
        arrivals=arrivals,
        precision=precision,
        seed=seed,
        cycle_ns=cycle,
        flit_bytes=flit,
        curves=[],
    )
    making = [_Making(*run, injection, plan) for run in runs]
    try:
        with _Pool(jobs or len(os.sched_getaffinity(0)), progress, len(runs), plan) as pool:
            waiting = [pool.side(partial(each.curve, pool)) for each in making]
            return replace(empty, curves=[each.result() for each in waiting])
    except KeyboardInterrupt as stop:
        curves = [curve for each in making if (curve := each.so_far()) is not None]
        if not curves:
            raise
        raise TrafficInterrupted(replace(empty, curves=curves), stop) from stop


def _request(
    platform: Platform, pattern: Pattern, network: str, size: int, seed: int
) -> tuple[Any, ...]:
    named = (platform._core, network, pattern.kind, size, seed)
    return *named, list(pattern.hot), pattern.share, list(pattern.flows)


def _check(plan: _Plan, size: int, seed: int, jobs: int | None) -> None:
    """Raises `InputError` for each value out of range."""
    ranges: list[tuple[str, float, float, float]] = [
        ("size", size, 1, 2**40),
        ("seed", seed, 0, 2**64 - 1),
        ("jobs", 1 if jobs is None else jobs, 1, 4096),
        ("precision", plan.precision, 1e-4, 1),
        ("tolerance", plan.tolerance, 1e-4, 0.5),
        ("latency_limit", plan.latency_limit, 1.1, 1e6),
        ("messages_max", plan.messages_max, 100, 1e9),
        *(("loads", load, 1e-6, MOST) for load in plan.loads),
    ]
    problems = [
        Problem("", name, f"invalid {name}: {value:g}", f"{least:g} to {most:g}")
        for name, value, least, most in ranges
        if not least <= value <= most
    ]
    if plan.arrivals not in ARRIVALS:
        text = f'unknown arrivals "{plan.arrivals}"'
        problems.append(Problem("", "arrivals", text, ", ".join(ARRIVALS)))
    if problems:
        raise InputError(problems)


class _Stopped(Exception):
    """Another thread failed, or the user stopped the work."""


class _Pool:
    """Threads for points, threads that wait for them, and what is done of all of them."""

    def __init__(self, jobs: int, progress: Progress | None, curves: int, plan: _Plan) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.points = ThreadPoolExecutor(jobs)
        self.sides = ThreadPoolExecutor(curves)
        self.stop = threading.Event()
        self.progress = progress
        self.lock = threading.Lock()
        self.done = 0
        # The number of points for saturation is not known before: about 24.
        self.total = curves * ((24 if plan.find else 0) + len(plan.loads or SHARES))

    def __enter__(self) -> _Pool:
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
class _Making:
    """A curve that is being made."""

    pattern: str
    backend: str
    core: _core.Traffic
    injection: float
    plan: _Plan
    finished: Curve | None = None
    """The curve with its first points; `None` before its saturation is known."""
    points: list[tuple[float, Future[_Found]]] = field(default_factory=list)
    """Points of the curve that are run, by load."""

    def curve(self, pool: _Pool) -> Curve:
        plan = self.plan
        first, alone = self.core.alone()
        limit = alone * plan.latency_limit
        found = None
        if plan.find:
            found = bracket(lambda loads: self._saturate(pool, loads, limit), plan.tolerance)
        loads = plan.loads or tuple(share * found[0] for share in SHARES if found)
        self.finished = Curve(self.pattern, self.backend, alone, first, limit, found, [])
        self.points = self._start(pool, [load for load in loads if load > 0], limit, plan.precision)
        return replace(self.finished, points=[_point(at, pool.ended(p)) for at, p in self.points])

    def so_far(self) -> Curve | None:
        """The curve with the points that are finished, if there are any."""
        finished = [(load, each) for load, each in self.points if _is_finished(each)]
        points = [_point(load, each.result()) for load, each in finished]
        return replace(self.finished, points=points) if self.finished and points else None

    def _saturate(self, pool: _Pool, loads: Sequence[float], limit: float) -> list[bool]:
        points = self._start(pool, loads, limit, max(_ROUGH, self.plan.precision))
        return [pool.ended(each)["outcome"] == "saturated" for _, each in points]

    def _start(
        self, pool: _Pool, loads: Sequence[float], limit: float, precision: float
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
    )
