"""Reading tables of costs: `costs/*.yml`, a user's own, LIBRA's cost models.

Not here: what a table says of a network (`cost.py`)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from .. import documents
from ..declared import Allowed, Amount, Keys, Note, Several, Source, Within, Wrong, read
from ..documents import Path_
from ..errors import InputError, Problem
from ..sweep import source as studies
from . import libra
from .cost import MOST_LINKS, PARTS, CostTable, Links, Technology
from .memory_cost import MEMORY

COSTS = Path(__file__).resolve().parent.parent / "costs"
"""Folder of the tables."""
_Price = Annotated[float, Within(0, 1e12), Allowed("a number from 0 on")]
"""Dollars or watts for a GB/s; of memory, dollars for a GB."""


@dataclass(frozen=True, slots=True)
class _Technology:
    link: _Price | None = None
    nic: _Price | None = None
    switch: _Price | None = None
    watts: Annotated[Mapping[str, _Price], Keys(PARTS)] = field(default_factory=dict)
    speeds: Annotated[tuple[Amount, ...], Several()] = ()
    """Links on sale."""
    most: Annotated[int, Within(1, 10**6)] = MOST_LINKS
    """Links that an NPU has room for."""
    radix: Annotated[int, Within(2, 10**6)] | None = None
    """Ports of the largest switch."""

    def named(self, name: str) -> Technology:
        """The technology of that name."""
        prices = {part: getattr(self, part) for part in PARTS}
        dollars = {part: price for part, price in prices.items() if price is not None}
        speeds = tuple(sorted(set(self.speeds)))
        return Technology(name, dollars, self.watts, speeds, self.most, self.radix)


@dataclass(frozen=True, slots=True)
class _Table:
    technologies: Annotated[
        Mapping[str, _Technology], Within(1, 10**6), Allowed("such as {any: {link: 2}}")
    ]
    source: Note = ""
    links: Links = "pairs"
    memory: Annotated[Mapping[str, _Price], Keys(MEMORY)] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bare = [name for name, each in self.technologies.items() if not each.speeds]
        if 0 < len(bare) < len(self.technologies):
            said = f"whole links are sold, but {', '.join(bare)} has no speeds"
            raise Wrong(said, "speeds for all, or none", "technologies")


def tables() -> list[str]:
    """Names of the tables that come with Armillary."""
    return sorted(path.stem for path in COSTS.glob("*.yml"))


def load(name: str | os.PathLike[str] | Mapping[str, Any]) -> CostTable:
    """The table `name`, the table file or cost model of LIBRA at the path `name`, or a table as a
    mapping.

    Keys: `source`, `links` (`pairs` or `directions`), `technologies` (by name: `link`, `nic`,
    `switch` in dollars for a GB/s, and `watts`, a mapping of the same parts; `speeds`, links on
    sale; `most`, links that an NPU has room for; `radix`, ports of the largest switch), `memory`
    (`local`, `pool` in dollars for a GB; `link`, `switch` of a pool in dollars for a GB/s). Raises
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
    source = studies.read(path)
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
    found = read(_Table, source, at, values)
    source.finish()
    assert found is not None
    technologies = tuple(each.named(key) for key, each in found.technologies.items())
    return CostTable(name, found.source, found.links, technologies, found.memory)
