"""Cost and power of a network: prices as data, and how parts are counted.

Here: parts of a block, costs by part and dimension. Not here: reading a table (`cost_file.py`),
which bandwidths are worth their price (`optimal.py`, `pareto_front.py`).

N NPUs with bandwidth b each in a dimension have, in GB/s:

| block | links, counted in pairs | links, counted by direction | NICs | switch |
| --- | --- | --- | --- | --- |
| Ring | N b; N b / 2 for two NPUs | N b | | |
| FullyConnected | N b / 2 | N b | | |
| Switch | N b | N b | N b | N b (radix x GB/s) |

Pairs: paper 2021, Fig. 12, where one link joins NPU and switch both ways; b of a Ring is that of
each of its links: all links carry one collective in one direction. Directions: LIBRA's program,
where a Ring has two links of b / 2 an NPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..estimate.topology import StackDimension, Topology
from ..units import GB
from . import whole_links
from .whole_links import Offer

PARTS = ("link", "nic", "switch")
Links = Literal["pairs", "directions"]
"""Ways to count links."""
MOST_LINKS = 64
"""Links of an NPU where a table does not say."""


@dataclass(frozen=True, slots=True)
class Technology:
    """Cost of the parts of a dimension: dollars, and watts where known, for a GB/s."""

    name: str
    dollars: Mapping[str, float]
    """Dollars for each part; a part that is not named costs nothing."""
    watts: Mapping[str, float] = field(default_factory=dict)
    speeds: tuple[float, ...] = ()
    """Links on sale, bytes a second, ascending; empty where any bandwidth is sold."""
    most: int = MOST_LINKS
    """Links that an NPU has room for."""
    radix: int | None = None
    """Ports of the largest switch on sale; nothing where any is."""


@dataclass(frozen=True, slots=True)
class CostItem:
    """One line of a bill."""

    dimension: int
    """Index of the dimension from 0, innermost first."""
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
    links: Links
    technologies: tuple[Technology, ...]
    memory: Mapping[str, float] = field(default_factory=dict)
    """Prices of memory (`memory_cost.MEMORY`); empty where the table has none."""

    def technology(self, name: str) -> Technology:
        """The technology of that name."""
        return next(each for each in self.technologies if each.name == name)

    def stack(self, dimensions: int, order: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Technologies of this number of dimensions: those of `order` or of the table. If there are
        more, the outermost ones.

        A single one stands for all; with too few the innermost is repeated.
        """
        names = order or tuple(each.name for each in self.technologies)
        inner = (names[0],) * max(0, dimensions - len(names))
        return inner + names[max(0, len(names) - dimensions) :]

    def offers(self, topology: Topology, stack: tuple[str, ...]) -> tuple[Offer, ...]:
        """Bandwidths on sale for each dimension; empty where the technologies sell any
        bandwidth."""
        sold = [self.technology(name) for name in stack]
        if not all(each.speeds for each in sold):
            return ()
        return tuple(
            whole_links.offer(dimension, each.speeds, each.most)
            for dimension, each in zip(topology.dimensions, sold, strict=True)
        )

    def lacks(self, dimension: StackDimension, name: str) -> str:
        """Parts that a dimension needs and that are not on sale: ports of a switch, or links of an
        NPU; empty where it has all."""
        unit = self.technology(name)
        if dimension.block == "Switch" and unit.radix is not None and dimension.size > unit.radix:
            return (
                f"{dimension} needs a switch of {dimension.size:,} ports, {name} has {unit.radix:,}"
            )
        if unit.speeds and whole_links.ports(dimension) > unit.most:
            return (
                f"{dimension} needs {whole_links.ports(dimension):,} links of an NPU, {name} has "
                f"room for {unit.most:,}"
            )
        return ""

    def price(self, topology: Topology, stack: tuple[str, ...]) -> list[float]:
        """Dollars for a byte a second of an NPU's bandwidth in each dimension, all NPUs
        together."""
        return [
            sum(
                amount * self.technology(name).dollars.get(part, 0.0)
                for part, amount in parts(each, topology.npus, self.links).items()
            )
            / GB
            for each, name in zip(topology.dimensions, stack, strict=True)
        ]

    def bill(
        self, topology: Topology, stack: tuple[str, ...], bandwidth: list[float]
    ) -> list[CostItem]:
        """Every part of every dimension; `bandwidth` in bytes a second."""
        return list(self._items(topology, stack, bandwidth))

    def _items(
        self, topology: Topology, stack: tuple[str, ...], bandwidth: list[float]
    ) -> Iterator[CostItem]:
        for index, (each, name, given) in enumerate(
            zip(topology.dimensions, stack, bandwidth, strict=True)
        ):
            unit = self.technology(name)
            for part, share in parts(each, topology.npus, self.links).items():
                amount = share * given / GB
                watts = unit.watts.get(part, 0.0) * amount if unit.watts else None
                yield CostItem(
                    index, name, part, amount, unit.dollars.get(part, 0.0) * amount, watts
                )


def parts(dimension: StackDimension, npus: int, links: str) -> dict[str, float]:
    """How much of each part there is for one unit of an NPU's bandwidth, over all NPUs; see the
    table above."""
    if dimension.block == "Switch":
        return {"link": float(npus), "nic": float(npus), "switch": float(npus)}
    once = dimension.block == "FullyConnected" or dimension.size == 2
    return {"link": npus / 2 if links == "pairs" and once else float(npus)}
