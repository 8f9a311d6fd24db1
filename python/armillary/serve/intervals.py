"""How far off the results of a deployment may be: 80 % intervals (docs/models/uncertainty.md).

In a closed loop, each quantity has the factors of measured runs that no fit has seen. In an open
loop the load sets the rate, and an engine that is slower than predicted has longer queues: the load
is simulated twice more, with every time of the engine stretched to the ends of its interval. So are
conversations, because no engine changes the pauses between their turns.
Not here: residuals (`armillary.uncertainty`), the interval of a drawn load (`steady.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import kernels
from ..uncertainty import Factors, Interval
from ..uncertainty import serving as known
from .calibrate import CALIBRATED
from .deployment import Engines
from .fleet import Fleet
from .limits import Limits
from .load import PICOSECONDS
from .run import Served, Spread, keeps

MOST_REQUESTS = 5000
"""Requests of an open loop up to which slower and faster engines are simulated too."""
STATISTICS = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The intervals of a result. Times are seconds; a pair is low, high."""

    ttft: dict[str, Factors]
    """For each statistic."""
    tpot: dict[str, Factors]
    rate: Factors
    """Requests a second."""
    kept: float | None
    """Requests a second within the service level, as predicted; `None` without one."""
    goodput: Factors | None
    """Interval of `kept`."""
    capacity: Interval
    """Factors on the rate of a closed loop."""
    times: tuple[Interval, Interval]
    """Factors on TTFT and TPOT."""

    @property
    def extrapolated(self) -> tuple[str, ...]:
        """Labels that no measured run has."""
        return self.capacity.outside

    @property
    def origin(self) -> str:
        """Where the intervals come from, as a phrase."""
        return self.capacity.origin

    def as_dict(self, outputs: float, dollars: float | None) -> dict[str, Any]:
        """As JSON. `outputs` are output tokens of a request, `dollars` those of a second of all
        GPUs; `None` without a price."""

        def ms(ends: dict[str, Factors]) -> dict[str, list[float]]:
            return {name: [1e3 * end for end in pair] for name, pair in ends.items()}

        rate = [outputs * each for each in self.rate]
        result: dict[str, Any] = {
            "level": self.capacity.level,
            "ttft_ms": ms(self.ttft),
            "tpot_ms": ms(self.tpot),
            "requests_per_s": list(self.rate),
            "output_tokens_per_s": rate,
        }
        if self.goodput is not None:
            result["goodput_per_s"] = list(self.goodput)
        if dollars is not None:
            ends = [1e6 * dollars / each for each in reversed(rate)]
            result["dollars_per_million_output_tokens"] = ends
        return {**result, "origin": self.origin, "extrapolated": list(self.extrapolated)}


def labels(
    engines: Engines,
    requests: float,
    *,
    apart: bool,
    arrivals: str = "closed",
    prefixes: bool = False,
    prompts: str = "",
) -> dict[str, str]:
    """Labels of engines with `requests` at a time on each; the others as in
    `uncertainty.serving`."""
    npu, generation = kernels.origin(engines.platform)
    return known.labels(
        engines.engine.name,
        npu,
        experts=bool(engines.model.experts),
        requests=requests,
        calibrated=any(term.name == CALIBRATED for term in engines.terms),
        measured=generation is not None,
        drafts=engines.choices.drafts > 0,
        apart=apart,
        arrivals=arrivals,
        prefixes=prefixes,
        prompts=prompts,
        network=engines.network is not None,
    )


def factors(found: Served, *, closed: bool = False) -> tuple[Interval, ...] | None:
    """Factors on TTFT, TPOT and rate; `closed`: as if the loop were closed. `None` where they are
    unknown."""
    loop = "closed" if closed or found.load.arrivals is None else "open"
    later = found.decode or found.engines
    names = [kernels.origin(each.platform)[0] for each in (found.engines, later)]
    there = sum(each.latency for each in found.answers) / found.span
    wanted = labels(
        later,
        there / later.count,
        apart=found.decode is not None,
        arrivals=loop,
        prefixes=any(each.cached for each in found.answers),
        prompts=names[0] if names[0] != names[1] else "",
    )
    made = [known.interval(name, wanted) for name in known.QUANTITIES]
    return None if None in made else tuple(each for each in made if each is not None)


def uncertain(found: Served, limits: Limits, fleet: Fleet | None = None) -> Uncertain | None:
    """The intervals of a result of a fleet; without the fleet, queues of an open loop are left out.
    `None` where they are unknown."""
    made = factors(found)
    if made is None:
        return None
    ttft, tpot, rate = made
    base = len(found.answers) / found.span
    runs = [found]
    if found.load.arrivals is not None or found.load.after:
        rates = [base]
        if fleet is not None and len(found.answers) <= MOST_REQUESTS:
            runs += [fleet.stretched(1 / end).serve(found.load) for end in rate.factors]
            rates += [len(each.answers) / each.span for each in runs[1:]]
        elif found.load.arrivals is None:
            rates += [base * _faster(found, end) for end in rate.factors]
        ends = (min(rates), max(rates))
    else:
        ends = rate.of(base)
    kept = good = None
    if limits.given:
        kept = found.goodput(limits.ttft, limits.tpot)
        most = _share(found, limits, (ttft.low, tpot.low))
        least = _share(found, limits, (ttft.high, tpot.high))
        goods = [ends[1] * most, ends[0] * least]
        goods += [each.goodput(limits.ttft, limits.tpot) for each in runs]
        good = (min(goods), max(goods))
    return Uncertain(
        _ends([each.ttft for each in runs], ttft.factors),
        _ends([each.tpot for each in runs], tpot.factors),
        ends, kept, good, rate, (ttft, tpot),
    )  # fmt: skip


def _faster(found: Served, by: float) -> float:
    """Factor on the rate of conversations in a closed loop if engines are `by` times as fast: times
    of requests change, pauses stay (the response time law)."""
    busy = sum(each.latency for each in found.answers)
    pauses = sum(after[1] for after in found.load.after if after) / PICOSECONDS
    return (busy + pauses) / (busy / by + pauses)


def _share(found: Served, limits: Limits, by: Factors) -> float:
    """Part of the requests that keep limits if their times are multiplied."""
    ttft = None if limits.ttft is None else limits.ttft / by[0]
    tpot = None if limits.tpot is None else limits.tpot / by[1]
    return sum(keeps(each, ttft, tpot) for each in found.answers) / len(found.answers)


def _ends(spreads: list[Spread], by: Factors) -> dict[str, Factors]:
    rows = [each.row() for each in spreads]
    return {
        name: (
            min(by[0] * rows[0][name], *(row[name] for row in rows)),
            max(by[1] * rows[0][name], *(row[name] for row in rows)),
        )
        for name in STATISTICS
    }
