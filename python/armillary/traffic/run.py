"""`traffic`: curves of each pattern on each backend. The main path of this package."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Problem

if TYPE_CHECKING:
    from ..platform import AnyPlatform, Platform
    from .curves import PointPlan, Progress, Traffic
    from .patterns import Pattern

ARRIVALS = ("poisson", "periodic")
"""When messages are created."""


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
    from dataclasses import replace
    from functools import partial

    from .. import _core, backends
    from ..platform import Platform
    from ..units import GB
    from .curves import CurveRun, PointPlan, Pool, Traffic, TrafficInterrupted
    from .patterns import Pattern

    platform = Platform.of(platform)
    find = saturation if saturation is not None else not loads
    plan = PointPlan(
        arrivals, precision, latency_limit, messages_max, tolerance, tuple(loads), find
    )
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
    making = [CurveRun(*run, injection, plan) for run in runs]
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
    platform: Platform, pattern: Pattern, network: str, size: int, seed: int
) -> tuple[Any, ...]:
    named = (platform._core, network, pattern.kind, size, seed)
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
