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
from .search import ParameterSearch, outliers
from .single_operation import alone, fitted, times

BANDWIDTH, LATENCY = "links[0].bandwidth", "links[0].latency"
_UNITS = {BANDWIDTH: "GB/s", LATENCY: "us"}


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
        return times(self._workloads, core)

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
            _workload(table, size, self.platform.npus)
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
    made = tuple(
        fitted(key, _UNITS[key], given[key], best[key], search.interval(key, best, 1.005))
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
    return {key: f"{value:.6f} {_UNITS[key]}" for key, value in values.items()}


def _workload(table: MeasuredTable, size: int, npus: int) -> _core.Workload:
    program = _core.Program()
    amount = nccl.measured_bytes(table.collective, size, table.ranks)
    program.collective(table.collective, [], table.collective, amount, "")
    return alone(table.collective, program, npus)
