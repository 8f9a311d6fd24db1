"""What a network costs, and what power it takes: prices as data, and how parts are counted.

Here: tables (`costs/*.yml`, or a user's), parts of a block, costs by part and dimension. Not here:
which bandwidths are worth their price (`optimal.py`, `front.py`).

N NPUs with bandwidth b each in a dimension have, in GB/s:

| block | links, counted in pairs | links, counted by direction | NICs | switch |
| --- | --- | --- | --- | --- |
| Ring | N b; N b / 2 for two NPUs | N b | | |
| FullyConnected | N b / 2 | N b | | |
| Switch | N b | N b | N b | N b (radix x GB/s) |

Pairs: paper 2021, Fig. 12, where one link joins NPU and switch both ways; b of a Ring is that of
each of its links, all of which carry one collective in one direction. Directions: LIBRA's program,
where a Ring has two links of b / 2 an NPU."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import documents
from ..documents import Path_
from ..errors import InputError, Problem
from ..sweep.quantity import UNITS, base, split
from ..sweep.source import Source, read
from . import whole
from .topology import Dimension, Topology
from .whole import Offer

COSTS = Path(__file__).resolve().parent.parent / "costs"
"""Folder of the tables."""
PARTS = ("link", "nic", "switch")
LINKS = ("pairs", "directions")
MOST_LINKS = 64
"""Links of an NPU where a table does not say."""
_GB = 1e9


@dataclass(frozen=True, slots=True)
class Technology:
    """What the parts of a dimension cost: dollars, and watts where known, for a GB/s."""

    name: str
    dollars: Mapping[str, float]
    """By part; a part that is not named costs nothing."""
    watts: Mapping[str, float] = field(default_factory=dict)
    speeds: tuple[float, ...] = ()
    """Links on sale, bytes a second, ascending; empty where any bandwidth is sold."""
    most: int = MOST_LINKS
    """Links that an NPU has room for."""
    radix: int | None = None
    """Ports of the largest switch on sale; nothing where any is."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a bill."""

    dimension: int
    """From 0, innermost first."""
    technology: str
    part: str
    amount: float
    """GB/s, radix x GB/s for switches."""
    dollars: float
    watts: float | None
    """Nothing where the table says none."""


@dataclass(frozen=True, slots=True)
class CostTable:
    """Prices by technology, innermost first."""

    name: str
    source: str
    links: str
    """How links are counted, one of `LINKS`."""
    technologies: tuple[Technology, ...]

    def technology(self, name: str) -> Technology:
        """The technology of that name."""
        return next(each for each in self.technologies if each.name == name)

    def stack(self, dimensions: int, order: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Technologies of so many dimensions: those of `order`, or of the table, the outermost ones
        if there are more.

        A single one stands for all; with too few the innermost is repeated.
        """
        names = order or tuple(each.name for each in self.technologies)
        inner = (names[0],) * max(0, dimensions - len(names))
        return inner + names[max(0, len(names) - dimensions) :]

    def offers(self, topology: Topology, stack: tuple[str, ...]) -> tuple[Offer, ...]:
        """What is on sale for each dimension; empty where the technologies sell any bandwidth."""
        sold = [self.technology(name) for name in stack]
        if not all(each.speeds for each in sold):
            return ()
        return tuple(
            whole.offer(dimension, each.speeds, each.most)
            for dimension, each in zip(topology.dimensions, sold, strict=True)
        )

    def lacks(self, dimension: Dimension, name: str) -> str:
        """What a dimension needs that is not on sale: ports of a switch, or links of an NPU; empty
        where it has all."""
        unit = self.technology(name)
        if dimension.block == "Switch" and unit.radix is not None and dimension.size > unit.radix:
            return (
                f"{dimension} needs a switch of {dimension.size:,} ports, {name} has {unit.radix:,}"
            )
        if unit.speeds and whole.ports(dimension) > unit.most:
            return f"{dimension} needs {whole.ports(dimension):,} links of an NPU, {name} has room for {unit.most:,}"
        return ""

    def price(self, topology: Topology, stack: tuple[str, ...]) -> list[float]:
        """Dollars for a byte a second of an NPU's bandwidth in each dimension, all NPUs
        together."""
        return [
            sum(
                amount * self.technology(name).dollars.get(part, 0.0)
                for part, amount in parts(each, topology.npus, self.links).items()
            )
            / _GB
            for each, name in zip(topology.dimensions, stack, strict=True)
        ]

    def bill(
        self, topology: Topology, stack: tuple[str, ...], bandwidth: list[float]
    ) -> list[Item]:
        """Every part of every dimension; `bandwidth` in bytes a second."""
        return list(self._items(topology, stack, bandwidth))

    def _items(
        self, topology: Topology, stack: tuple[str, ...], bandwidth: list[float]
    ) -> Iterator[Item]:
        for index, (each, name, given) in enumerate(
            zip(topology.dimensions, stack, bandwidth, strict=True)
        ):
            unit = self.technology(name)
            for part, share in parts(each, topology.npus, self.links).items():
                amount = share * given / _GB
                watts = unit.watts.get(part, 0.0) * amount if unit.watts else None
                yield Item(index, name, part, amount, unit.dollars.get(part, 0.0) * amount, watts)


def parts(dimension: Dimension, npus: int, links: str) -> dict[str, float]:
    """How much of each part there is for one unit of an NPU's bandwidth, over all NPUs; see the
    table above."""
    if dimension.block == "Switch":
        return {"link": float(npus), "nic": float(npus), "switch": float(npus)}
    once = dimension.block == "FullyConnected" or dimension.size == 2
    return {"link": npus / 2 if links == "pairs" and once else float(npus)}


def tables() -> list[str]:
    """Names of the tables that come with Armillary."""
    return sorted(path.stem for path in COSTS.glob("*.yml"))


def load(name: str | os.PathLike[str] | Mapping[str, Any]) -> CostTable:
    """The table `name`, the table file or cost model of LIBRA at the path `name`, or a table as a
    mapping.

    Keys: `source`, `links` (`pairs` or `directions`), `technologies` (by name: `link`, `nic`,
    `switch` in dollars for a GB/s, and `watts`, a mapping of the same parts; `speeds`, links on
    sale; `most`, links that an NPU has room for; `radix`, ports of the largest switch). Raises
    `InputError` listing every problem."""
    if isinstance(name, Mapping):
        return parse(Source(dict(name), "cost"), (), "cost")
    path = COSTS / f"{os.fspath(name)}.yml"
    if "/" in os.fspath(name) or not documents.is_file(path):
        path = Path(name)
    if not documents.is_file(path):
        near = difflib.get_close_matches(os.fspath(name), tables(), n=3) or tables()
        raise InputError(
            [
                Problem(
                    os.fspath(name),
                    "",
                    "there is no such table of costs",
                    f"{', '.join(near)}, a file",
                )
            ]
        )
    from . import libra

    source = read(path)
    return (
        libra.cost_model(source, path.stem)
        if libra.is_cost_model(source.values)
        else parse(source, (), path.stem)
    )


def parse(source: Source, at: Path_, name: str) -> CostTable:
    """The table that stands at `at` of a source. Raises `InputError` listing every problem of the
    source."""
    values: Any = source.values
    for key in at:
        values = values[key]
    _keys(source, at, values, ("source", "links", "technologies"))
    links = values.get("links", "pairs")
    if links not in LINKS:
        source.fault((*at, "links"), f"{links!r} is no way to count links", ", ".join(LINKS))
    listed = values.get("technologies")
    if not isinstance(listed, dict) or not listed:
        source.fault(
            (*at, "technologies"), "names no technology", "a mapping, such as {any: {link: 2}}"
        )
        listed = {}
    found = [
        _technology(source, (*at, "technologies", key), str(key), each)
        for key, each in listed.items()
    ]
    if any(each.speeds for each in found) and not all(each.speeds for each in found):
        bare = ", ".join(each.name for each in found if not each.speeds)
        source.fault(
            (*at, "technologies"),
            f"whole links are sold, but {bare} has no speeds",
            "speeds for all, or none",
        )
    source.finish()
    return CostTable(name, str(values.get("source", "")), str(links), tuple(found))


def _technology(source: Source, at: Path_, name: str, values: object) -> Technology:
    if not isinstance(values, dict):
        source.fault(at, f"{values!r} is no mapping", "link, nic, switch and watts")
        return Technology(name, {})
    _keys(source, at, values, (*PARTS, "watts", "speeds", "most", "radix"))
    watts = values.get("watts", {})
    if not isinstance(watts, dict):
        source.fault((*at, "watts"), f"{watts!r} is no mapping", ", ".join(PARTS))
        watts = {}
    _keys(source, (*at, "watts"), watts, PARTS)
    speeds = _speeds(source, (*at, "speeds"), values.get("speeds", []))
    most = _count(source, (*at, "most"), values.get("most", MOST_LINKS), 1)
    radix = _count(source, (*at, "radix"), values["radix"], 2) if "radix" in values else None
    dollars, power = _amounts(source, at, values), _amounts(source, (*at, "watts"), watts)
    return Technology(name, dollars, power, speeds, most or MOST_LINKS, radix)


def _speeds(source: Source, at: Path_, values: object) -> tuple[float, ...]:
    found = set()
    for index, each in enumerate(values if isinstance(values, list) else [values]):
        parted = split(each) if isinstance(each, str) else None
        if parted is None or UNITS[parted[1]][0] != "B/s" or parted[0] <= 0:
            source.fault((*at, index), f"{each!r} is no speed of a link", "such as 400 Gb/s")
        else:
            found.add(float(base(str(each)) or 0))
    return tuple(sorted(found))


def _count(source: Source, at: Path_, value: object, least: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**6:
        source.fault(at, f"{value!r} is no count", f"a whole number from {least} to 1,000,000")
        return None
    return value


def _amounts(source: Source, at: Path_, values: Mapping[str, object]) -> dict[str, float]:
    found = {}
    for part in PARTS:
        value = values.get(part, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e12:
            source.fault((*at, part), f"{value!r} is no amount for a GB/s", "a number from 0 on")
        elif part in values:
            found[part] = float(value)
    return found


def _keys(
    source: Source, at: Path_, values: Mapping[str, object], allowed: tuple[str, ...]
) -> None:
    for key in values:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=2)
            source.fault((*at, str(key)), "is no key here", ", ".join(near or allowed))
