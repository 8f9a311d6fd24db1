"""`traffic`: curves of each pattern on each backend. The main path of this package."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, Problem

if TYPE_CHECKING:
    from ..platform import AnyPlatform, Platform
    from .curves import PointPlan, Progress, Traffic
    from .flow_sizes import FlowSizes
    from .patterns import Pattern

ARRIVALS = ("poisson", "periodic")
"""When messages are created."""


class _Usual(NamedTuple):
    """Values that hold where the user gives none."""

    loads: tuple[float, ...]
    precision: float
    latency_limit: float
    messages_max: int


_MESSAGES = _Usual((), 0.02, 10.0, 300_000)
_FLOWS = _Usual((0.3, 0.5, 0.8), 0.05, 1000.0, 10_000)


def traffic(  # noqa: PLR0913 - keywords of a public function
    platform: AnyPlatform,
    patterns: Sequence[Pattern | str] = ("uniform",),
    *,
    networks: Sequence[str] = (),
    size: int = 4096,
    sizes: Sequence[FlowSizes | str] = (),
    congestion_controls: Sequence[str] = (),
    loads: Sequence[float] = (),
    saturation: bool | None = None,
    arrivals: str = "poisson",
    precision: float | None = None,
    tolerance: float = 0.01,
    latency_limit: float | None = None,
    messages_max: int | None = None,
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
    than `precision` (2 %) of it, either way, or after `messages_max` (300,000) messages. Points run
    on `jobs` threads. The result does not depend on their number.

    With `sizes`, NPUs send flows instead: names of `flow_sizes.NAMED` such as `web-search`, or
    files of `bytes,share`, each with curves of its own. Every flow has a connection of its own on
    the backend `packet`. Points then have slowdowns: how many times longer flows took than on links
    that carry nothing else. `loads` are 30, 50 and 80 % by default, `precision` (5 %) and
    `latency_limit` (1,000) are of the mean slowdown, and `messages_max` is 10,000.
    `congestion_controls` of the backend `packet`, such as `dctcp` and `dcqcn`, have curves of their
    own, too.

    Raises `InputError` for what does not fit together, `StalledError` for a network that locks up,
    `TrafficInterrupted` for a Ctrl-C after the first point of a curve.
    """
    from dataclasses import replace
    from functools import partial

    from .. import _core, backends
    from ..platform import Platform
    from ..units import GB
    from .controls import with_control
    from .curves import CurveRun, Distribution, PointPlan, Pool, Traffic, TrafficInterrupted
    from .flow_sizes import FlowSizes
    from .patterns import Pattern

    platform = Platform.of(platform)
    drawn = [each if isinstance(each, FlowSizes) else FlowSizes.parse(each) for each in sizes]
    usual = _FLOWS if drawn else _MESSAGES
    find = saturation if saturation is not None else not loads and not drawn
    plan = PointPlan(
        arrivals,
        usual.precision if precision is None else precision,
        usual.latency_limit if latency_limit is None else latency_limit,
        usual.messages_max if messages_max is None else messages_max,
        tolerance,
        tuple(loads) or (() if find else usual.loads),
        find,
    )
    _check(plan, size, seed, jobs)
    parsed = [each if isinstance(each, Pattern) else Pattern.parse(each) for each in patterns]
    names = [backends.known(name) for name in networks] or [platform.backend]
    if congestion_controls and names != ["packet"]:
        said = f"congestion controls have no meaning on the backend {', '.join(names)}"
        raise InputError([Problem(platform.name, "--congestion-control", said, "packet alone")])
    targets = {name: with_control(platform, name) for name in congestion_controls}
    given: list[FlowSizes | None] = [*drawn] or [None]
    runs = [
        (
            (pattern.name, name, each.name if each else "", control),
            _core.Traffic(*_request(target, pattern, name, size, each, seed)),
        )
        for each in given
        for pattern in parsed
        for name in names
        for control, target in (targets or {"": platform}).items()
    ]
    injection = float(runs[0][1].injection())
    if not injection:
        raise InputError(
            [Problem(platform.name, "topology", "an NPU has no link by which to send")]
        )
    cycles = [found for _, core in runs if (found := core.cycle()) is not None]
    cycle, flit = cycles[0] if cycles else (None, None)
    empty = Traffic(
        platform=platform.name,
        npus=platform.npus,
        injection_gb_per_s=injection / GB,
        size_bytes=None if drawn else size,
        arrivals=arrivals,
        precision=plan.precision,
        seed=seed,
        cycle_ns=cycle,
        flit_bytes=flit,
        curves=[],
        sizes=[Distribution(each.name, each.mean, each.source) for each in drawn],
    )
    making = [CurveRun(*named, core, injection, plan) for named, core in runs]
    try:
        with Pool(jobs or len(os.sched_getaffinity(0)), progress, len(runs), plan) as pool:
            waiting = [pool.side(partial(each.curve, pool)) for each in making]
            return replace(empty, curves=[each.result() for each in waiting])
    except KeyboardInterrupt as stop:
        curves = [curve for each in making if (curve := each.so_far()) is not None]
        if not curves:
            raise
        raise TrafficInterrupted(replace(empty, curves=curves), stop) from stop


def _request(
    platform: Platform,
    pattern: Pattern,
    network: str,
    size: int,
    sizes: FlowSizes | None,
    seed: int,
) -> tuple[Any, ...]:
    points = list(sizes.points) if sizes else []
    named = (platform._core, network, pattern.kind, size, points, seed)
    return *named, list(pattern.hot), pattern.share, list(pattern.flows)


def _check(plan: PointPlan, size: int, seed: int, jobs: int | None) -> None:
    """Raises `InputError` for each value out of range."""
    from .saturation import MOST

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
