"""Bandwidth and latency of a platform's links from measured collectives.

For platforms without a communication library, whose collectives are those of the simulator. The
search and its intervals are those of libraries (`search`). Every point is simulated as it was
measured: one collective, alone on the network. Alone, its time is

    t = t0 + a latency + b / bandwidth

with `a` and `b` from simulations with other links, so that the search simulates nothing. The times
that a fit reports are simulated again. Not here: libraries (`fit.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import _core, nccl
from ..platform import Platform
from ..units import GB, PS_PER_US
from .fit import FittedParameter, Residual
from .logs import MeasuredTable
from .search import WIDE, ParameterSearch, outliers

BANDWIDTH, LATENCY = "links[0].bandwidth", "links[0].latency"


@dataclass(frozen=True)
class LinkFit:
    """A platform's links after calibration."""

    parameters: tuple[FittedParameter, ...]
    residuals: tuple[Residual, ...]
    settings: Mapping[str, object]


@dataclass(frozen=True)
class _Case:
    tables: tuple[MeasuredTable, ...]
    platform: Platform

    @property
    def measured(self) -> list[float]:
        return [time for table in self.tables for _, time in table.points]

    def times(self, values: Mapping[str, float]) -> list[float]:
        latency, bandwidth = values[LATENCY], values[BANDWIDTH]
        return [
            max(fixed + a * latency + b / bandwidth, 1e-6) for fixed, a, b in self._coefficients
        ]

    def simulated(self, values: Mapping[str, float]) -> list[float]:
        """us of each point."""
        core = self.platform.changed(_settings(values))._core
        return [max(_run(each, core), 1e-6) for each in self._workloads]

    @cached_property
    def _coefficients(self) -> list[tuple[float, float, float]]:
        here, later, faster = (
            self.simulated({LATENCY: latency, BANDWIDTH: bandwidth})
            for latency, bandwidth in ((1.0, 1.0), (2.0, 1.0), (1.0, 2.0))
        )
        rows = []
        for one, two, three in zip(here, later, faster, strict=True):
            a, b = two - one, 2 * (one - three)
            rows.append((one - a - b, a, b))
        return rows

    @cached_property
    def _workloads(self) -> list[_core.Workload]:
        return [
            _alone(table.collective, nccl.measured_bytes(table.collective, size, table.ranks), n)
            for n in (self.platform.npus,)
            for table in self.tables
            for size, _ in table.points
        ]


def calibrate_links(platform: Platform, tables: Sequence[MeasuredTable]) -> LinkFit:
    """Fits the links of a platform with one dimension to collectives over all of its NPUs."""
    link = platform.describe()["fabric"]["dims"][0]
    given = {
        BANDWIDTH: link["link_bandwidth"] / GB,
        LATENCY: link["link_latency_ps"] / PS_PER_US,
    }
    case = _Case(tuple(tables), platform)
    search = ParameterSearch([case], given)
    best = search.descend(list(given))
    intervals = {key: search.interval(key, best, 1.005) for key in given}
    made = tuple(
        FittedParameter(
            key,
            "us" if key == LATENCY else "GB/s",
            given[key],
            best[key],
            *intervals[key],
            intervals[key][0] > best[key] / WIDE and intervals[key][1] < best[key] * WIDE,
        )
        for key in given
    )
    before, after = case.simulated(given), case.simulated(best)
    points = [(table, *point) for table in tables for point in table.points]
    logs = [math.log(a / m) for a, m in zip(after, case.measured, strict=True)]
    residuals = tuple(
        Residual(table, size, measured, old, new, new, outlier)
        for (table, size, measured), old, new, outlier in zip(
            points, before, after, outliers(logs), strict=True
        )
    )
    return LinkFit(made, residuals, _settings(best))


def _settings(values: Mapping[str, float]) -> dict[str, object]:
    units = {BANDWIDTH: "GB/s", LATENCY: "us"}
    return {key: f"{value:.6f} {units[key]}" for key, value in values.items()}


def _alone(kind: str, size: int, npus: int) -> _core.Workload:
    program = _core.Program()
    program.collective(kind, [], kind, size, "")
    return _core.Workload.listed(kind, [program], [0] * npus, [], [], None, [])


def _run(workload: _core.Workload, platform: _core.Platform) -> float:
    return (
        _core.simulate(
            workload=workload,
            platform=platform,
            backend="analytical",
            fold=True,
            seed=0,
            detail=False,
            timeline=None,
            ranks=(),
            capture=None,
            progress=None,
        ).step_ps
        / PS_PER_US
    )
