"""A measured table on a platform: what the platform's library would take, with parameters changed
by key.

Not here: which change fits best (`search`), what is left of the measurements then (`corrections`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from .. import nccl
from ..errors import InputError, Problem
from ..platform import Platform
from ..units import PPM, PS_PER_US
from .logs import MeasuredTable

_PREFIX = "library."


@dataclass(frozen=True)
class Case:
    """Measurements and the platform with the same number of NPUs, without corrections of its
    own."""

    table: MeasuredTable
    platform: Platform
    given: Platform | None = None
    """The platform with its own corrections, where it has any."""

    def __post_init__(self) -> None:
        if not self.platform.has_library:
            help_ = "a platform with a library, such as dgx-h100; see docs/models/libraries.md"
            raise InputError(
                [Problem(self.platform.name, "library", "has no library to calibrate", help_)]
            )

    @cached_property
    def _wanted(self) -> list[int]:
        kind, ranks = self.table.collective, self.table.ranks
        return [nccl.measured_bytes(kind, size, ranks) for size, _ in self.table.points]

    @property
    def measured(self) -> list[float]:
        """us, a point each."""
        return [time for _, time in self.table.points]

    def times(self, values: Mapping[str, float]) -> list[float]:
        """Predicted us of each point, with parameters (`library.node.step_latency[0]`: us, or
        parts) set to `values`."""
        return self._times(self.platform, values)

    def times_before(self) -> list[float]:
        """Predicted us of each point on the platform as it was given."""
        return self._times(self.given or self.platform, {})

    def _times(self, platform: Platform, values: Mapping[str, float]) -> list[float]:
        changes = list(zip(_names(tuple(values)), values.values(), strict=True))
        kind = self.table.collective
        found = platform._core.library_times(changes, kind, self._wanted)
        if found is None:
            message = f"the library does not run {kind} there"
            raise InputError([Problem(platform.name, f"collectives.{kind}", message, "auto")])
        return [max(time, 1e-6) for time in found]

    def at(self, points: Sequence[tuple[int, float]]) -> Case:
        """The same with other points."""
        return replace(self, table=replace(self.table, points=tuple(points)))

    @cached_property
    def place(self) -> tuple[int, int]:
        """Members in a node, and nodes."""
        sizes = [dim["size"] for dim in self.platform.describe()["fabric"].get("dims", [])]
        return (
            (self.platform.npus, 1) if not sizes else (sizes[0], sizes[1] if len(sizes) > 1 else 1)
        )


@cache
def _names(keys: tuple[str, ...]) -> tuple[str, ...]:
    """As the library has them."""
    return tuple(key.removeprefix(_PREFIX) for key in keys)


def parameters(platform: Platform) -> dict[str, tuple[float, str]]:
    """Every time and part of the library by its key: value, and unit (`us`, or nothing for a
    part)."""
    return dict(_flat("library", platform.describe()["library"]))


def _flat(path: str, shown: Mapping[str, object]) -> Iterator[tuple[str, tuple[float, str]]]:
    for key, value in shown.items():
        if isinstance(value, dict):
            yield from _flat(f"{path}.{key}", value)
            continue
        for suffix, scale, unit in (("_ps", PS_PER_US, "us"), ("_ppm", PPM, "")):
            if key.endswith(suffix) and value:
                name = f"{path}.{key.removesuffix(suffix)}"
                many = value if isinstance(value, list) else [value]
                for at, one in enumerate(many):
                    yield (
                        (f"{name}[{at}]" if isinstance(value, list) else name),
                        (one / scale, unit),
                    )


def overrides(values: Mapping[str, float], units: Mapping[str, str]) -> dict[str, str]:
    """Parameters as settings of a platform; entries of a list together."""
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


def cases(name: str, tables: Sequence[MeasuredTable], settings: Mapping[str, object]) -> list[Case]:
    """The tables on the platform `name`, resized to their ranks."""
    ranks = dict.fromkeys(table.ranks for table in tables)
    given = {npus: Platform.load(name, {**settings, "npus": npus}) for npus in ranks}
    bare = {npus: without_corrections(platform) for npus, platform in given.items()}
    return [Case(table, bare[table.ranks], given[table.ranks]) for table in tables]


def without_corrections(platform: Platform) -> Platform:
    """The platform with the bare model of its library."""
    library = platform.describe()["library"]
    return (
        platform.changed({"library.corrections": "[]"})
        if library and library["corrections"]
        else platform
    )
