"""From a specification, YAML or a mapping, to the task. All problems go to its source;
docs/guides/design.md explains the keys.

Not here: YAML (`sweep/source.py`), the language of constraints (`constraints.py`), tables of costs
(`cost.py`), workloads (`jobs.py`)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from .. import backends, documents
from ..declared import Source
from ..documents import Path_
from ..errors import InputError
from ..estimate import topology
from ..estimate.topology import BLOCKS, Space, StackDimension, Topology
from ..sweep.source import read
from ..units import UNITS, base, counted, split
from . import constraints, cost_file, jobs, libra, memory_prices, timing
from .cost import CostTable
from .task import OBJECTIVES, BandwidthRange, Task

KEYS = (
    "name",
    "npus",
    "npu",
    "settings",
    "workloads",
    "topologies",
    "technologies",
    "bandwidth",
    "latency",
    "cost",
    "constraints",
    "objective",
    "time_bound",
    "model",
    "top",
    "simulate",
    "budget",
    "backends",
    "sweep",
    "most",
)
Progress = Callable[[float], None]
_SPACE = ("dimensions", "blocks", "sizes", "largest")
_MOST_NPUS = 2**24
_MOST_STACKS = 1_000_000
_BUDGET = 20
"""Designs that are simulated at most, where the specification does not say."""
_MOST_SIMULATED = 10_000
_NO_TOTAL = "a step only gets shorter and cost is linear: the best network would be the smallest"


def task(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Task:
    """Reads a specification; `overrides` replace its top-level values; `settings` among
    them are added to its own. Raises `InputError` listing
    every problem."""
    source = read(spec)
    given, own = dict(overrides or {}), source.values.get("settings")
    if "settings" in given and isinstance(own, dict):
        given["settings"] = {**own, **given["settings"]}
    source.values.update(given)
    return _Reader(source).task(progress)


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source, self.values = source, source.values
        self.stack: tuple[str, ...] = ()
        """Cost dimensions of a network file of LIBRA."""

    def task(self, progress: Progress | None) -> Task:
        self.keys((), self.values, KEYS)
        settings = self.settings()
        spaces = self.topologies()
        npus = spaces[0].first.npus if spaces else 0
        costs = self.costs()
        order, caps, latencies = self.technologies(costs)
        spaces, left_out = self.buildable(spaces, costs, order)
        total, at_most = self.total()
        written = self.written(costs, order)
        objective = self.objective(costs, total, written)
        ranges, latency, paper, backends, sweep = (
            self.ranges(),
            self.latency(),
            self.paper(),
            self.backends(),
            self.sweep(),
        )
        top, simulated = self.count("top", 10, 1, 10_000), self.count("simulate", 3, 0, 1000)
        most = self.count("most", 100_000, 1, _MOST_STACKS)
        budget, seconds = self.budget(simulated)
        limit = (
            self.quantity(("time_bound",), self.values["time_bound"], "s")
            if "time_bound" in self.values
            else None
        )
        if objective == "cost" and limit is None and not self.bounded_workloads():
            self.source.fault(
                ("objective",),
                "cost needs a time_bound",
                "time_bound: 2 s, for all workloads or for one",
            )
        self.source.finish()
        pace = self.pace(settings, npus)
        pool = memory_prices.pool(self.source, costs, settings, npus)
        choices, notes = jobs.choices(
            self.source, npus, settings, limit, spaces[0].first, paper, progress
        )
        memory_prices.known(self.source, costs, choices)
        self.source.finish()
        return Task(
            name=str(self.values.get("name") or Path(self.source.file).stem),
            npus=npus,
            choices=choices,
            spaces=spaces,
            total=total,
            total_is_most=at_most,
            caps=caps,
            written=written,
            objective=objective,
            costs=costs,
            order=order,
            latencies=latencies,
            settings=settings,
            pace=pace,
            notes=(*left_out, *notes),
            origin=self.source.file,
            ranges=ranges,
            latency=latency,
            paper=paper,
            backends=backends,
            sweep=sweep,
            top=top,
            simulate=simulated,
            budget=budget,
            seconds=seconds,
            most=most,
            pool=pool,
        )

    def keys(self, path: Path_, values: Mapping[str, Any], allowed: Sequence[str]) -> None:
        for key in values:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=2)
                self.source.fault((*path, str(key)), "unknown key", ", ".join(near or allowed))

    def quantity(self, path: Path_, value: object, unit: str) -> float | None:
        """A positive amount of `unit`, `B/s` or `s`."""
        text = value if isinstance(value, str) else ""
        parted = split(text)
        if parted is None or UNITS[parted[1]][0] != unit or parted[0] <= 0:
            example = "300 GB/s" if unit == "B/s" else "1.5 s"
            self.source.fault(
                path, f"{value!r} is not an amount above 0 with a unit", f"such as {example}"
            )
            return None
        return float(base(text) or 0)

    def count(self, key: str, default: int, least: int, most: int) -> int:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.source.fault((key,), f"invalid count: {value!r}", f"{least} to {most}")
            return default
        return value

    def budget(self, least: int) -> tuple[int, float | None]:
        """How many designs may be simulated, and for how many seconds."""
        raw = self.values.get("budget", max(_BUDGET, least))
        parted = split(raw) if isinstance(raw, str) else None
        if parted is not None and UNITS[parted[1]][0] == "s" and parted[0] > 0:
            return _MOST_SIMULATED, float(base(str(raw)) or 0)
        if isinstance(raw, bool) or not isinstance(raw, int) or not least <= raw <= _MOST_SIMULATED:
            allowed = f"{least} to {_MOST_SIMULATED:,} designs, or a time such as 90 s"
            self.source.fault(("budget",), f"invalid budget for simulations: {raw!r}", allowed)
            return max(_BUDGET, least), None
        return raw, None

    def buildable(
        self, spaces: tuple[Space, ...], costs: CostTable | None, order: tuple[str, ...]
    ) -> tuple[tuple[Space, ...], tuple[str, ...]]:
        """The topologies that can be built of what the table of costs sells, and a note on the
        others."""
        if costs is None or not spaces:
            return spaces, ()
        kept, lacking = [], ""
        for each in spaces:
            stack = costs.stack(len(each.sizes), order)
            some = []
            for size, name, blocks in zip(each.sizes, stack, each.blocks, strict=True):
                sold = [costs.lacks(StackDimension(block, size), name) for block in blocks]
                lacking = lacking or next((said for said in sold if said), "")
                some.append(
                    tuple(block for block, said in zip(blocks, sold, strict=True) if not said)
                )
            kept.append(Space(each.sizes, tuple(some)))
        found = tuple(each for each in kept if each.count)
        gone = sum(each.count for each in spaces) - sum(each.count for each in found)
        if not found:
            self.source.fault(
                ("topologies",),
                f"none can be built: {lacking}",
                "smaller dimensions, other technologies",
            )
            return spaces, ()
        return found, (f"{gone:,} topologies can't be built, such as: {lacking}",) if gone else ()

    def settings(self) -> dict[str, object]:
        """Keys of a platform file: `settings` and `npu`."""
        found: dict[str, object] = {"scheduler.chunks": 64}
        for key in ("settings", "npu"):
            raw = self.values.get(key, {})
            if not isinstance(raw, dict):
                self.source.fault((key,), f"{raw!r} is not a mapping", "keys of a platform file")
            elif key == "npu" and raw:
                found["npu"] = raw
            elif key == "settings":
                found |= {str(name): each for name, each in raw.items()}
        return found

    def pace(self, settings: dict[str, object], npus: int) -> tuple[int, float, float]:
        """Chunks and delays in the settings. Raises `InputError` with everything found so far."""
        try:
            return timing.pace(settings, npus)
        except InputError as error:
            raise InputError([*self.source.problems, *error.problems]) from None

    def topologies(self) -> tuple[Space, ...]:
        raw = self.values.get("topologies")
        if isinstance(raw, dict):
            return self.space(raw)
        listed = [raw] if isinstance(raw, str) else raw
        if not isinstance(listed, list) or not listed:
            said = "is missing" if raw is None else f"{raw!r} is not a topology"
            help_ = (
                "R(8)_SW(128), a list, a network file of LIBRA, or a mapping of dimensions, "
                "blocks, sizes, largest"
            )
            self.source.fault(("topologies",), said, help_)
            return ()
        found = [
            each
            for i, one in enumerate(listed)
            if (each := self.one(("topologies", i), one)) is not None
        ]
        npus = {each.npus for each in found}
        wanted = self.values.get("npus")
        if len(npus) > 1 or (npus and wanted is not None and wanted not in list(npus)):
            said = "have " + ", ".join(f"{each} ({each.npus})" for each in found) + " NPUs"
            self.source.fault(("topologies",), said, f"all {wanted}" if wanted else "all the same")
        return tuple(
            Space(each.sizes, tuple((name,) for name in each.blocks))
            for each in dict.fromkeys(found)
        )

    def one(self, path: Path_, text: object) -> Topology | None:
        if isinstance(text, str) and text.endswith((".yml", ".yaml")):
            try:
                network = libra.network(Path(self.source.folder, text))
                self.stack = network.stack
                return network.topology
            except InputError as error:
                self.source.problems.extend(error.problems)
                return None
        found = topology.parse(text) if isinstance(text, str) else None
        if found is not None and found.npus > _MOST_NPUS:
            self.source.fault(path, f"{text!r} has {found.npus:,} NPUs", f"up to {_MOST_NPUS:,}")
            return None
        if found is None:
            self.source.fault(
                path,
                f"{text!r} is not a topology",
                "one to five of Ring(n), FullyConnected(n), Switch(n), n from 2",
            )
        return found

    def space(self, raw: Mapping[str, Any]) -> tuple[Space, ...]:
        """Every topology of the NPUs that the mapping allows."""
        self.keys(("topologies",), raw, _SPACE)
        npus = self.values.get("npus")
        if isinstance(npus, bool) or not isinstance(npus, int) or not 2 <= npus <= _MOST_NPUS:
            self.source.fault(
                ("npus",),
                "is missing" if npus is None else f"invalid count: {npus!r}",
                f"2 to {_MOST_NPUS}",
            )
            return ()
        blocks = self.blocks(raw.get("blocks", list(BLOCKS)))
        largest = self.largest(raw.get("largest", {}))
        sizes = self.sizes(raw, npus)
        count = sum(len(blocks) ** len(each) for each in sizes)
        if count > _MOST_STACKS:
            self.source.fault(
                ("topologies",),
                f"are {count:,}",
                f"up to {_MOST_STACKS:,}: fewer dimensions or blocks",
            )
            return ()
        some = [topology.space(each, blocks, largest) for each in sizes]
        found = tuple(each for each in some if each.count)
        if not found and not self.source.problems:
            self.source.fault(
                ("topologies",),
                f"there is none of {counted(npus, 'NPU')}",
                "other dimensions, or larger blocks",
            )
        return found

    def sizes(self, raw: Mapping[str, Any], npus: int) -> list[tuple[int, ...]]:
        if "sizes" in raw:
            listed = raw["sizes"] if isinstance(raw["sizes"], list) else []
            wrong = [each for each in listed if not _is_sizes(each, npus)]
            if wrong or not listed:
                said = f"invalid sizes of dimensions: {(wrong or [raw['sizes']])[0]!r}"
                self.source.fault(
                    ("topologies", "sizes"),
                    said,
                    f"lists of one to five whole numbers from 2 with the product {npus}",
                )
            return [tuple(each) for each in listed if each not in wrong]
        dims = raw.get("dimensions", [1, 2, 3, 4])
        dims = [dims] if isinstance(dims, int) else dims
        if (
            not isinstance(dims, list)
            or not dims
            or not all(type(d) is int and 1 <= d <= 5 for d in dims)
        ):
            self.source.fault(
                ("topologies", "dimensions"),
                f"invalid numbers of dimensions: {dims!r}",
                "a list from 1 to 5",
            )
            return []
        return [each for d in sorted(set(dims)) for each in topology.factorisations(npus, d)]

    def blocks(self, raw: object) -> tuple[str, ...]:
        listed = raw if isinstance(raw, list) else [raw]
        found = [topology.block(str(each)) for each in listed]
        if not found or None in found:
            self.source.fault(
                ("topologies", "blocks"), f"invalid blocks: {raw!r}", ", ".join(BLOCKS)
            )
        return tuple(dict.fromkeys(each for each in found if each))

    def largest(self, raw: object) -> dict[str, int]:
        if not isinstance(raw, dict) or not all(
            topology.block(str(key)) and type(value) is int and value >= 2
            for key, value in raw.items()
        ):
            self.source.fault(
                ("topologies", "largest"),
                f"invalid limit: {raw!r}",
                "blocks and NPUs, {FullyConnected: 16}",
            )
            return {}
        return {topology.block(str(key)) or "": value for key, value in raw.items()}

    def costs(self) -> CostTable | None:
        raw = self.values.get("cost")
        if raw is None:
            return None
        try:
            if isinstance(raw, dict):
                return cost_file.parse(self.source, ("cost",), "cost")
            if not isinstance(raw, str):
                self.source.fault(
                    ("cost",), f"{raw!r} is not a table of costs", ", ".join(cost_file.tables())
                )
                return None
            relative = Path(self.source.folder, raw)
            return cost_file.load(relative if documents.is_file(relative) else raw)
        except InputError as error:
            self.source.problems.extend(
                each for each in error.problems if each not in self.source.problems
            )
            return None

    def technologies(
        self, costs: CostTable | None
    ) -> tuple[tuple[str, ...], dict[str, BandwidthRange], dict[str, str]]:
        """Order, limits and latencies of the technologies, innermost first."""
        known = [each.name for each in costs.technologies] if costs else None
        named = list(self.stack) if known and set(self.stack) <= set(known) else []
        raw = self.values.get("technologies", named)
        if not isinstance(raw, list):
            self.source.fault(
                ("technologies",),
                f"{raw!r} is not a list",
                "names, or mappings of name, least, most, latency",
            )
            raw = []
        order, caps, latencies = [], {}, {}
        for index, each in enumerate(raw):
            at: Path_ = ("technologies", index)
            given = (
                {"name": each} if isinstance(each, str) else each if isinstance(each, dict) else {}
            )
            self.keys(at, given, ("name", "least", "most", "latency"))
            name = given.get("name")
            if not isinstance(name, str) or (known is not None and name not in known):
                self.source.fault(at, f"{each!r} has no technology", ", ".join(known or ["a name"]))
                continue
            order.append(name)
            if "least" in given or "most" in given:
                caps[name] = self.range(at, given)
            if "latency" in given and self.time((*at, "latency"), given["latency"]):
                latencies[name] = str(given["latency"])
        return tuple(order), caps, latencies

    def range(self, path: Path_, values: Mapping[str, Any]) -> BandwidthRange:
        least = (
            self.quantity((*path, "least"), values["least"], "B/s") if "least" in values else None
        )
        most = self.quantity((*path, "most"), values["most"], "B/s") if "most" in values else None
        return BandwidthRange(least or 0.0, most)

    def time(self, path: Path_, value: object) -> bool:
        parted = split(value) if isinstance(value, str) else None
        if parted is None or UNITS[parted[1]][0] != "s" or parted[0] < 0:
            self.source.fault(path, f"{value!r} is not a time", "such as 500 ns")
            return False
        return True

    def latency(self) -> tuple[str, ...]:
        raw = self.values.get("latency", "500 ns")
        listed = raw if isinstance(raw, list) else [raw]
        good = [each for index, each in enumerate(listed) if self.time(("latency", index), each)]
        return tuple(map(str, good)) or ("500 ns",)

    def total(self) -> tuple[float | None, bool]:
        """The bandwidth of an NPU, and whether less will do."""
        raw = self.values.get("bandwidth")
        if raw is None:
            return None, False
        given = {"total": raw} if isinstance(raw, str) else raw
        if not isinstance(given, dict):
            self.source.fault(
                ("bandwidth",),
                f"{raw!r} is not a bandwidth",
                "300 GB/s, or a mapping of total or most, dimensions",
            )
            return None, False
        self.keys(("bandwidth",), given, ("total", "most", "dimensions"))
        if "total" in given and "most" in given:
            self.source.fault(("bandwidth",), "has both a total and a most", "one of them")
        key = "total" if "total" in given else "most"
        if key not in given:
            return None, False
        path: Path_ = ("bandwidth", key) if isinstance(raw, dict) else ("bandwidth",)
        return self.quantity(path, given[key], "B/s"), key == "most"

    def ranges(self) -> tuple[BandwidthRange, ...]:
        raw = self.values.get("bandwidth")
        listed = raw.get("dimensions", []) if isinstance(raw, dict) else []
        if not isinstance(listed, list):
            self.source.fault(
                ("bandwidth", "dimensions"),
                f"{listed!r} is not a list",
                "a bandwidth or {least, most} a dimension",
            )
            return ()
        found = []
        for index, each in enumerate(listed):
            path: Path_ = ("bandwidth", "dimensions", index)
            if isinstance(each, dict):
                self.keys(path, each, ("least", "most"))
                found.append(self.range(path, each))
            else:
                value = self.quantity(path, each, "B/s")
                found.append(BandwidthRange(value or 0.0, value))
        return tuple(found)

    def written(
        self, costs: CostTable | None, order: Sequence[str]
    ) -> tuple[constraints.Written, ...]:
        raw = self.values.get("constraints", [])
        if not isinstance(raw, list):
            self.source.fault(("constraints",), f"{raw!r} is not a list", constraints.HELP)
            return ()
        known = {each.name for each in costs.technologies} if costs else set(order)
        found: list[constraints.Written] = []
        for index, text in enumerate(raw):
            try:
                if not isinstance(text, str):
                    raise constraints.ConstraintError("it is not text")
                some = constraints.read(text)
                strange = sorted({name for each in some for name in each.technologies} - known)
                if strange:
                    raise constraints.ConstraintError(f"there is no technology {strange[0]}")
                if any(each.costs for each in some) and costs is None:
                    raise constraints.ConstraintError("there is no cost without a table of costs")
                found += some
            except constraints.ConstraintError as error:
                self.source.fault(("constraints", index), f"{text!r}: {error}", constraints.HELP)
        return tuple(found)

    def objective(
        self, costs: CostTable | None, total: float | None, written: Sequence[constraints.Written]
    ) -> str:
        value = str(self.values.get("objective", "step_time"))
        if value not in OBJECTIVES:
            self.source.fault(("objective",), f"unknown objective {value!r}", ", ".join(OBJECTIVES))
        elif value != "step_time" and costs is None and "cost" not in self.values:
            self.source.fault(
                ("objective",),
                f"{value} needs prices",
                f"cost: {' or '.join(cost_file.tables())}, or a table",
            )
        bounded = total is not None or bool(written) or "technologies" in self.values
        raw = self.values.get("bandwidth")
        if (
            value in ("step_time", "pareto")
            and not bounded
            and not (isinstance(raw, dict) and raw.get("dimensions"))
        ):
            self.source.fault(
                ("bandwidth",),
                "is missing: without a limit, more bandwidth is always better",
                "300 GB/s for each NPU",
            )
        if (
            value == "performance_per_cost"
            and (total is None or (isinstance(raw, dict) and "most" in raw))
            and not written
        ):
            self.source.fault(
                ("bandwidth",),
                f"has no fixed total: {_NO_TOTAL}",
                "total: 300 GB/s, or constraints",
            )
        return value

    def paper(self) -> bool:
        """Whether the model of a step is the paper's."""
        value = self.values.get("model", "full")
        if value not in ("full", "paper"):
            self.source.fault(
                ("model",),
                f"unknown model of a step {value!r}",
                "full, or paper: without latencies and chunks",
            )
        return bool(value == "paper")

    def backends(self) -> tuple[str, ...]:
        raw = self.values.get("backends", [backends.DEFAULT])
        listed = raw if isinstance(raw, list) else [raw]
        for each in listed:
            if not backends.is_known(each):
                allowed = ", ".join(backends.NAMES)
                self.source.fault(("backends",), f"unknown backend {each!r}", allowed)
        return tuple(map(str, listed))

    def sweep(self) -> tuple[float, ...]:
        raw = self.values.get("sweep", [])
        listed = raw if isinstance(raw, list) else [raw]
        values = [self.quantity(("sweep", index), each, "B/s") for index, each in enumerate(listed)]
        found = [each for each in values if each]
        if any(b <= a for a, b in pairwise(found)):
            self.source.fault(("sweep",), "does not ascend", "bandwidths from small to large")
        return tuple(found)

    def bounded_workloads(self) -> bool:
        """Whether some workload has a time bound of its own."""
        raw = self.values.get("workloads")
        return isinstance(raw, list) and any(
            isinstance(each, dict) and "time_bound" in each for each in raw
        )


def _is_sizes(value: object, npus: int) -> bool:
    if (
        not isinstance(value, list)
        or not 1 <= len(value) <= 5
        or not all(type(each) is int and each >= 2 for each in value)
    ):
        return False
    product = 1
    for each in value:
        product *= each
    return product == npus
