"""Engines that start and stop with the load, next to fleets of a fixed size (a what-if).

Here: the runs. Not here: the rule (`scaling.py`), its code (`crates/serve/src/scaling.rs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..units import counted
from .fleet import Fleet
from .limits import Limits
from .load import Load
from .run import Served
from .scaling import Rule, wrong

_FIXED = 8
"""Fleets of a fixed size that are simulated at most."""
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Scaled:
    """A fleet of this comparison."""

    said: str
    served: Served
    engines: float
    """Mean number of engines."""
    gpu_hours: float
    changes: tuple[tuple[float, int], ...] = ()
    """Seconds at which the number of engines changed, and what it became."""


def autoscaled(
    fleet: Fleet,
    load: Load,
    by: Rule,
    progress: Callable[[float, float], None] | None = None,
) -> Iterator[Scaled]:
    """The fleet under a rule, then fleets of fixed sizes.

    Raises:
        InputError: engines for prompts alone, or too few GPUs.
    """
    if fleet.decode is not None:
        raise wrong("engines for prompts and tokens apart do not start and stop")
    engines = fleet.engines
    gpus = engines.layout.gpus
    if by.most * gpus > engines.platform.npus:
        message = f"{counted(by.most, 'engine')} of {counted(gpus, 'GPU')}"
        raise wrong(f"{message}, but {engines.platform.name} has {engines.platform.npus}")
    served = _with(fleet, by.most).serve(load, progress, scaling=by)
    assert served.lifetimes is not None
    changes, seconds = served.lifetimes
    end = max(each.end for each in served.answers)
    yield Scaled("autoscaled", served, seconds / end, seconds * gpus / _HOUR, changes)
    for count in sizes(by):
        served = _with(fleet, count).serve(load, progress)
        end = max(each.end for each in served.answers)
        yield Scaled(f"always {count}", served, count, count * gpus * end / _HOUR)


def apart(found: Served) -> str:
    """A warning: the engines that a result without the rule has."""
    fixed = counted(found.engines.count, "engine")
    return f"all but the table and chart of autoscaling is of {fixed}, without the rule"


def sizes(by: Rule) -> list[int]:
    """Numbers of engines of fixed fleets: all, or some between the ends."""
    between = by.most - by.least
    if between < _FIXED:
        return list(range(by.least, by.most + 1))
    steps = _FIXED - 1
    return sorted({by.least + round(between * each / steps) for each in range(_FIXED)})


def _with(fleet: Fleet, count: int) -> Fleet:
    return replace(fleet, engines=replace(fleet.engines, count=count))


def as_dict(by: Rule, found: list[Scaled], limits: Limits, dollars: float | None) -> dict[str, Any]:
    """As JSON. `dollars` are those of a GPU for an hour. Without limits there is no goodput."""
    given = limits.given
    return {
        "rule": {
            "min": by.least,
            "max": by.most,
            "queue" if by.waiting else "concurrency": by.goal,
            "every_s": by.every,
            "delay_s": by.delay,
            "window_s": by.window,
        },
        "fleets": [
            {
                "said": each.said,
                "engines": each.engines,
                "gpu_hours": each.gpu_hours,
                "dollars": None if dollars is None else each.gpu_hours * dollars,
                "requests_per_s": len(each.served.answers) / each.served.span,
                "goodput_per_s": (each.served.goodput(limits.ttft, limits.tpot) if given else None),
                "share_within_slo": share(each.served, limits) if given else None,
                "ttft_ms": {name: 1e3 * value for name, value in each.served.ttft.row().items()},
                "tpot_ms": {name: 1e3 * value for name, value in each.served.tpot.row().items()},
                "engines_over_time": [
                    {"time_s": at, "engines": count} for at, count in each.changes
                ],
            }
            for each in found
        ],
    }


def share(found: Served, limits: Limits) -> float:
    """Part of the requests that keeps the limits."""
    return found.goodput(limits.ttft, limits.tpot) * found.span / len(found.answers)
