"""Reading tables of costs: `costs/*.yml`, a user's own, LIBRA's cost models.

Not here: what a table says of a network (`cost.py`)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import documents
from ..documents import Path_
from ..errors import InputError, Problem
from ..sweep.source import Source, read
from ..units import UNITS, base, split
from . import libra
from .cost import LINKS, MOST_LINKS, PARTS, CostTable, Technology
from .memory_cost import MEMORY

COSTS = Path(__file__).resolve().parent.parent / "costs"
"""Folder of the tables."""


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
    _keys(source, at, values, ("source", "links", "technologies", "memory"))
    links = values.get("links", "pairs")
    if links not in LINKS:
        source.fault((*at, "links"), f"{links!r} is not a way to count links", ", ".join(LINKS))
    listed = values.get("technologies")
    if not isinstance(listed, dict) or not listed:
        source.fault(
            (*at, "technologies"), "has no technology", "a mapping, such as {any: {link: 2}}"
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
    memory = _memory(source, (*at, "memory"), values.get("memory", {}))
    source.finish()
    return CostTable(name, str(values.get("source", "")), str(links), tuple(found), memory)


def _memory(source: Source, at: Path_, values: object) -> dict[str, float]:
    if not isinstance(values, dict):
        source.fault(at, f"{values!r} is not a mapping", ", ".join(MEMORY))
        return {}
    _keys(source, at, values, MEMORY)
    return _amounts(source, at, values, MEMORY)


def _technology(source: Source, at: Path_, name: str, values: object) -> Technology:
    if not isinstance(values, dict):
        source.fault(at, f"{values!r} is not a mapping", "link, nic, switch and watts")
        return Technology(name, {})
    _keys(source, at, values, (*PARTS, "watts", "speeds", "most", "radix"))
    watts = values.get("watts", {})
    if not isinstance(watts, dict):
        source.fault((*at, "watts"), f"{watts!r} is not a mapping", ", ".join(PARTS))
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
            source.fault((*at, index), f"invalid speed of a link: {each!r}", "such as 400 Gb/s")
        else:
            found.add(float(base(str(each)) or 0))
    return tuple(sorted(found))


def _count(source: Source, at: Path_, value: object, least: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**6:
        source.fault(at, f"invalid count: {value!r}", f"a whole number from {least} to 1,000,000")
        return None
    return value


def _amounts(
    source: Source, at: Path_, values: Mapping[str, object], parts: tuple[str, ...] = PARTS
) -> dict[str, float]:
    found = {}
    for part in parts:
        value, unit = values.get(part, 0), "GB" if part in MEMORY[:2] else "GB/s"
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e12:
            source.fault(
                (*at, part), f"{value!r} is not an amount for a {unit}", "a number from 0 on"
            )
        elif part in values:
            found[part] = float(value)
    return found


def _keys(
    source: Source, at: Path_, values: Mapping[str, object], allowed: tuple[str, ...]
) -> None:
    for key in values:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=2)
            source.fault((*at, str(key)), "unknown key", ", ".join(near or allowed))
