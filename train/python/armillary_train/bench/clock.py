"""How a piece of work is timed on all ranks at once.

Every rank does the work at the same time, as in training, so that ranks share memory bandwidth and
caches. A piece of work is repeated until it takes `FLOOR`, and that is done `REPEATS` times. The
median counts, because other work on a machine makes some repeats longer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..ranks.world import World

FLOOR = 2e-3
"""Seconds of a repeat, at least."""
REPEATS = 9
_MOST = 2000
"""Calls in a repeat, at most."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of a call."""

    us: float
    """Wall time: the median of the repeats, and of kernels the mean over the ranks."""
    spread: float
    """The middle half of the repeats, as a part of the median: the noise of the machine."""
    busy: float
    """CPU time of the process over wall time, mean over the ranks."""


def timed(
    work: Callable[[], object],
    world: World,
    *,
    together: bool = False,
    waited: Callable[[], float] | None = None,
) -> Timing:
    """Times `work` on all ranks. `together`: work that ranks do with each other takes what the
    slowest of them takes. `waited`: seconds so far that do not count."""
    work()
    begin = time.perf_counter()
    work()
    slowest = max(world.gather(time.perf_counter() - begin, float))
    count = max(1, min(_MOST, int(FLOOR / max(slowest, 1e-9))))
    walls: list[float] = []
    cpu = 0.0
    for _ in range(REPEATS):
        world.gather(0, int)
        other = waited() if waited is not None else 0.0
        began, wall = time.process_time(), time.perf_counter()
        for _ in range(count):
            work()
        spent = time.perf_counter() - wall
        if waited is not None:
            spent -= waited() - other
        walls.append(spent / count)
        cpu += (time.process_time() - began) / count
    quarters = statistics.quantiles(walls, n=4)
    median = quarters[1]
    mine = (median, (quarters[2] - quarters[0]) / median, cpu / sum(walls))
    medians, spreads, busy = zip(*world.gather(mine, tuple[float, float, float]), strict=True)
    wall = max(medians) if together else statistics.mean(medians)
    return Timing(1e6 * wall, max(spreads), statistics.mean(busy))
