"""Fits a library's parameters to measured times, and says which of them the measurements tell.

The error is the mean of `|ln(predicted / measured)|` over all points, which single outliers move little; it is lowered
a parameter at a time by factors that shrink from 1.25 to 1.01. An interval is where a parameter alone may lie: for
errors of this form (Laplace's distribution) the likelihood ratio at 95 % is `n (error / least error - 1) <= 1.92`. A
parameter whose interval reaches three times or a third of its value, or that changes nothing, is left as the platform
has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import nccl
from ..errors import InputError, Problem
from ..platform import Platform
from .logs import Table

_RATIO = 1.92
_WIDE = 3.0
_STEPS = (1.25, 1.12, 1.05, 1.02, 1.01)
_OUTLIER = 3 * 1.4826
"""Standard deviations of a normal distribution, from the median of absolute deviations."""

_PROTOCOLS = ("LL", "LL128", "Simple")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of a `library`."""

    key: str
    unit: str
    """`us`, or empty for a part."""
    given: float
    fitted: float
    low: float
    high: float
    found: bool
    """Whether the measurements tell it."""


@dataclass(frozen=True, slots=True)
class Residual:
    """One measured point: bytes, us."""

    table: Table
    size: int
    measured_us: float
    given_us: float
    fitted_us: float
    outlier: bool

    @property
    def log(self) -> float:
        """ln(fitted / measured)."""
        return math.log(self.fitted_us / self.measured_us)


@dataclass(frozen=True)
class Fit:
    """A platform's library after calibration."""

    platform: str
    parameters: tuple[Parameter, ...]
    residuals: tuple[Residual, ...]
    nodes: tuple[int, ...]
    """Numbers of nodes that were measured."""

    @cached_property
    def settings(self) -> dict[str, str]:
        """All parameters, as overrides of the platform."""
        return _settings({p.key: p.fitted for p in self.parameters}, {p.key: p.unit for p in self.parameters})

    def error(self, which: Callable[[Residual], float]) -> float:
        """Geometric mean error in percent of `which` (fitted or given us) against measured."""
        logs = [abs(math.log(which(r) / r.measured_us)) for r in self.residuals]
        return 100 * (math.exp(sum(logs) / len(logs)) - 1)

    def notes(self) -> list[str]:
        """What the measurements leave open."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        unknown = [p.key.removeprefix("library.") for p in self.parameters if not p.found]
        if unknown:
            yield f"not told by these logs, left as {self.platform} has them: {', '.join(unknown)}"
        if max(self.nodes) == 1 and any(p.key.startswith("library.network") for p in self.parameters):
            yield f"no log has more than one node: more nodes are extrapolated with the network of {self.platform}"
        elif max(self.nodes) == 2:
            yield "trees over more than two nodes were not measured: more nodes are extrapolated"


def calibrate(name: str, tables: Sequence[Table], settings: Mapping[str, object] | None = None) -> Fit:
    """Fits the library of the platform `name` (with `settings`) to `tables`.

    Raises `InputError` when the platform has no library or can't have as many NPUs as a table has ranks.
    """
    search = _Search(name, dict(settings or {}), tables)
    start = search.parameters()
    values = {key: value for key, (value, _) in start.items()}
    given = search.times(values)
    moving = [key for key in values if search.matters(key, values)]
    best = search.descend(values, moving)
    intervals = {key: search.interval(key, best) for key in moving}
    found = {key: low > best[key] / _WIDE and high < best[key] * _WIDE for key, (low, high) in intervals.items()}
    kept = {key: best[key] if found.get(key) else value for key, value in values.items()}
    kept = search.descend(kept, [key for key in moving if found[key]])
    parameters = [
        Parameter(key, unit, value, kept[key], *intervals.get(key, (0.0, math.inf)), found.get(key, False))
        for key, (value, unit) in start.items()
    ]
    return Fit(name, tuple(parameters), search.residuals(given, search.times(kept)), search.nodes())


class _Search:
    def __init__(self, name: str, settings: dict[str, object], tables: Sequence[Table]) -> None:
        self._name, self._settings, self._tables = name, settings, tables
        self._points = [(table, size, time) for table in tables for size, time in table.points]
        self._platforms({})

    def _platforms(self, values: Mapping[str, str]) -> dict[int, Platform]:
        counts = sorted({table.ranks for table in self._tables})
        loaded = {n: Platform.load(self._name, {**self._settings, **values, "npus": n}) for n in counts}
        if not all(platform.has_library for platform in loaded.values()):
            help_ = "a platform with a library, such as dgx-h100; docs/libraries.md says what it holds"
            raise InputError([Problem(self._name, "library", "has no library to calibrate", help_)])
        return loaded

    def nodes(self) -> tuple[int, ...]:
        loaded = self._platforms({})
        dims = [platform.describe()["fabric"].get("dims", []) for platform in loaded.values()]
        return tuple(sorted({each[1]["size"] if len(each) > 1 else 1 for each in dims}))

    def parameters(self) -> dict[str, tuple[float, str]]:
        """Every parameter that may be fitted: value and unit."""
        shown = Platform.load(self._name, self._settings).describe()["library"]
        return dict(_flat("library", shown))

    def times(self, values: Mapping[str, float]) -> list[float]:
        """Predicted us, a point each."""
        units = {key: unit for key, (_, unit) in self._start.items()}
        platforms = self._platforms(_settings(values, units))
        return [_predicted(platforms[table.ranks], table, size) for table, size, _ in self._points]

    @cached_property
    def _start(self) -> dict[str, tuple[float, str]]:
        return self.parameters()

    def loss(self, values: Mapping[str, float]) -> float:
        times = zip(self.times(values), self._points, strict=True)
        return sum(abs(math.log(ours / point[2])) for ours, point in times) / len(self._points)

    def matters(self, key: str, values: Mapping[str, float]) -> bool:
        here = self.times(values)
        return any(self.times({**values, key: values[key] * factor}) != here for factor in (0.5, 2.0))

    def descend(self, values: Mapping[str, float], moving: Sequence[str]) -> dict[str, float]:
        best, least = dict(values), self.loss(values)
        for step in _STEPS:
            for _ in range(4):
                before = least
                for key in moving:
                    for factor in (step, 1 / step):
                        best, least = self._walk(best, least, key, factor)
                if before - least < 1e-5:
                    break
        return best

    def _walk(self, best: dict[str, float], least: float, key: str, factor: float) -> tuple[dict[str, float], float]:
        while True:
            tried = {**best, key: best[key] * factor}
            loss = self.loss(tried) if _allowed(key, tried[key]) else math.inf
            if loss >= least - 1e-7:
                return best, least
            best, least = tried, loss

    def interval(self, key: str, best: Mapping[str, float]) -> tuple[float, float]:
        most = self.loss(best) * (1 + _RATIO / len(self._points))

        def end(factor: float) -> float:
            value = best[key]
            while value < best[key] * _WIDE and value > best[key] / _WIDE:
                further = value * factor
                if not _allowed(key, further) or self.loss({**best, key: further}) > most:
                    return value
                value = further
            return value

        return end(1 / 1.03), end(1.03)

    def residuals(self, given: Sequence[float], fitted: Sequence[float]) -> tuple[Residual, ...]:
        logs = [math.log(ours / point[2]) for ours, point in zip(fitted, self._points, strict=True)]
        middle = sorted(logs)[len(logs) // 2]
        spread = sorted(abs(log - middle) for log in logs)[len(logs) // 2]
        most = max(_OUTLIER * spread, 0.1)
        return tuple(
            Residual(table, size, time, before, after, abs(log - middle) > most)
            for (table, size, time), before, after, log in zip(self._points, given, fitted, logs, strict=True)
        )


def _predicted(platform: Platform, table: Table, size: int) -> float:
    count = nccl.element_count(table.collective, size, table.ranks, 4)
    wanted = nccl.npu_bytes(table.collective, count, 4, table.ranks)
    found = platform._core.library_choice(table.collective, wanted)
    if found is None:
        message = f"{table.collective} is not done by the library there"
        raise InputError([Problem(platform.name, f"collectives.{table.collective}", message, "auto")])
    return max(found[2] / 1e6, 1e-6)


def _flat(path: str, shown: Mapping[str, object]) -> Iterator[tuple[str, tuple[float, str]]]:
    """Times and parts of a described library, by the key that sets them."""
    for key, value in shown.items():
        if isinstance(value, dict):
            yield from _flat(f"{path}.{key}", value)
            continue
        for suffix, scale, unit in (("_ps", 1e6, "us"), ("_ppm", 1e6, "")):
            if key.endswith(suffix) and value:
                name = f"{path}.{key.removesuffix(suffix)}"
                many = value if isinstance(value, list) else [value]
                for at, one in enumerate(many):
                    yield (f"{name}[{at}]" if isinstance(value, list) else name), (one / scale, unit)


def _allowed(key: str, value: float) -> bool:
    """Parts of a bandwidth are at most all of it; a ring may lose more than that while it fills."""
    part = any(word in key for word in ("efficiency", "share", "tree", "pairs"))
    return value > 1e-5 and (not part or value <= 1)


def _settings(values: Mapping[str, float], units: Mapping[str, str]) -> dict[str, str]:
    """As `--set` takes them; entries of a list together."""
    single: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    for key, value in values.items():
        text = f"{value:.6f} {units[key]}".strip()
        name, bracket, _ = key.partition("[")
        if bracket:
            lists.setdefault(name, []).append(text)
        else:
            single[name] = text
    return {**single, **{name: f"[{', '.join(entries)}]" for name, entries in lists.items()}}
