"""From a specification, YAML or a mapping, to the task. All problems go to its source;
docs/guides/design.md explains the keys.

Not here: YAML (`sweep/source.py`), the language of constraints (`constraints.py`), tables of costs
(`cost.py`), workloads (`jobs.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from .. import backends, declared, documents
from ..declared import (
    Allowed,
    Amount,
    Made,
    Note,
    Seconds,
    Several,
    Short,
    Source,
    Within,
    Wrong,
    shown,
)
from ..documents import Path_
from ..errors import InputError
from ..estimate import topology
from ..estimate.topology import BLOCKS, Space, StackDimension, Topology
from ..sweep.source import Backend, read
from ..units import UNITS, base, counted, split
from . import constraints, cost_file, jobs, libra, memory_prices, timing
from .cost import CostTable
from .task import BandwidthRange, Objective, Task

Progress = Callable[[float], None]
_MOST_NPUS = 2**24
_MOST_STACKS = 1_000_000
_BUDGET = 20
"""Designs that are simulated at most, where the specification does not say."""
_MOST_SIMULATED = 10_000
_BUDGETS = f"0 to {_MOST_SIMULATED:,} designs, or a time such as 90 s"
_NO_TOTAL = "a step only gets shorter and cost is linear: the best network would be the smallest"


def _time(raw: object) -> str:
    """A time from 0 on, as it is written."""
    parted = split(raw) if isinstance(raw, str) else None
    if parted is None or UNITS[parted[1]][0] != "s" or parted[0] < 0:
        raise Wrong(f"{shown(raw)} is not a time")
    return str(raw)


def _limits(raw: object) -> tuple[int | None, float | None]:
    """Designs that may be simulated, or the seconds for that."""
    parted = split(raw) if isinstance(raw, str) else None
    if parted is not None and UNITS[parted[1]][0] == "s" and parted[0] > 0:
        return None, float(base(str(raw)) or 0)
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw <= _MOST_SIMULATED:
        raise Wrong(f"invalid budget for simulations: {shown(raw)}")
    return raw, None


def _block(raw: object) -> str:
    found = topology.block(str(raw))
    if found is None:
        raise Wrong(f"invalid block: {shown(raw)}", ", ".join(BLOCKS))
    return found


_TIMES = "such as 500 ns"
_Time = Annotated[str, Made(_time), Allowed(_TIMES)]
_Bandwidths = Annotated[tuple[Amount, ...], Several()]


@dataclass(frozen=True, slots=True)
class _Technology:
    name: str
    least: Amount | None = None
    most: Amount | None = None
    latency: _Time | None = None


@dataclass(frozen=True, slots=True)
class _Bandwidth:
    total: Amount | None = None
    most: Amount | None = None
    dimensions: Annotated[
        tuple[object, ...], Allowed("a bandwidth or {least, most} a dimension")
    ] = ()


@dataclass(frozen=True, slots=True)
class _Space:
    dimensions: Annotated[
        tuple[Annotated[int, Within(1, 5)], ...],
        Several(),
        Within(1, 1000),
        Allowed("a list from 1 to 5"),
    ] = (1, 2, 3, 4)
    blocks: Annotated[tuple[Annotated[str, Made(_block)], ...], Several(), Within(1, 1000)] = tuple(
        BLOCKS
    )
    sizes: object = None
    largest: Annotated[
        Mapping[str, Annotated[int, Within(2, _MOST_NPUS)]],
        Allowed("blocks and NPUs, {FullyConnected: 16}"),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Specification:
    name: Note = ""
    npus: Annotated[int, Within(2, _MOST_NPUS)] | None = None
    npu: Annotated[Mapping[str, object], Allowed("keys of a platform file")] = field(
        default_factory=dict
    )
    settings: Annotated[Mapping[str, object], Allowed("keys of a platform file")] = field(
        default_factory=dict
    )
    workloads: object = None
    topologies: object = None
    technologies: Annotated[
        tuple[Annotated[_Technology, Short("name")], ...] | None,
        Allowed("names, or mappings of name, least, most, latency"),
    ] = None
    bandwidth: Annotated[_Bandwidth, Short("total")] = field(default_factory=_Bandwidth)
    latency: Annotated[tuple[_Time, ...], Several(), Within(1, 1000), Allowed(_TIMES)] = ("500 ns",)
    cost: object = None
    constraints: Annotated[tuple[object, ...], Allowed(constraints.HELP)] = ()
    objective: Objective = "step_time"
    time_bound: Seconds | None = None
    model: Annotated[
        Literal["full", "paper"], Allowed("full, or paper: without latencies and chunks")
    ] = "full"
    top: Annotated[int, Within(1, 10_000)] = 10
    simulate: Annotated[int, Within(0, 1000)] = 3
    budget: Annotated[tuple[int | None, float | None], Made(_limits), Allowed(_BUDGETS)] = (
        None,
        None,
    )
    backends: Annotated[tuple[Backend, ...], Several()] = (backends.DEFAULT,)
    sweep: _Bandwidths = ()
    most: Annotated[int, Within(1, _MOST_STACKS)] = 100_000


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
    """Reads what a declaration can't say; all problems go to the source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.spec = declared.read(_Specification, source) or _Specification()
        self.stack: tuple[str, ...] = ()
        """Cost dimensions of a network file of LIBRA."""

    def task(self, progress: Progress | None) -> Task:
        spec = self.spec
        settings: dict[str, object] = {"scheduler.chunks": 64, **spec.settings}
        settings |= {"npu": spec.npu} if spec.npu else {}
        spaces = self.topologies()
        npus = spaces[0].first.npus if spaces else 0
        costs = self.costs()
        order, caps, latencies = self.technologies(costs)
        spaces, left_out = self.buildable(spaces, costs, order)
        written = self.written(costs, order)
        self.check_objective(costs, written)
        ranges, (budget, seconds) = self.ranges(), self.budget()
        if any(b <= a for a, b in pairwise(spec.sweep)):
            self.source.fault(("sweep",), "does not ascend", "bandwidths from small to large")
        if spec.objective == "cost" and spec.time_bound is None and not self.bounded_workloads():
            self.source.fault(
                ("objective",),
                "cost needs a time_bound",
                "time_bound: 2 s, for all workloads or for one",
            )
        self.source.finish()
        pace = self.pace(settings, npus)
        pool = memory_prices.pool(self.source, costs, settings, npus)
        paper = spec.model == "paper"
        choices, notes = jobs.choices(
            self.source, npus, settings, spec.time_bound, spaces[0].first, paper, progress
        )
        memory_prices.known(self.source, costs, choices)
        self.source.finish()
        total, most = spec.bandwidth.total, spec.bandwidth.most
        return Task(
            name=spec.name or Path(self.source.file).stem,
            npus=npus,
            choices=choices,
            spaces=spaces,
            total=total or most,
            total_is_most=most is not None,
            caps=caps,
            written=written,
            objective=spec.objective,
            costs=costs,
            order=order,
            latencies=latencies,
            settings=settings,
            pace=pace,
            notes=(*left_out, *notes),
            origin=self.source.file,
            ranges=ranges,
            latency=spec.latency,
            paper=paper,
            backends=spec.backends,
            sweep=spec.sweep,
            top=spec.top,
            simulate=spec.simulate,
            budget=budget,
            seconds=seconds,
            most=spec.most,
            pool=pool,
        )

    def budget(self) -> tuple[int, float | None]:
        """How many designs may be simulated, and for how many seconds."""
        count, seconds = self.spec.budget
        least = self.spec.simulate
        if seconds is not None:
            return _MOST_SIMULATED, seconds
        if count is not None and count < least:
            allowed = f"{least} to {_MOST_SIMULATED:,} designs, or a time such as 90 s"
            said = f"invalid budget for simulations: {count}"
            self.source.fault(("budget",), said, allowed)
        return max(_BUDGET, least) if count is None else count, None

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

    def pace(self, settings: dict[str, object], npus: int) -> tuple[int, float, float]:
        """Chunks and delays in the settings. Raises `InputError` with everything found so far."""
        try:
            return timing.pace(settings, npus)
        except InputError as error:
            raise InputError([*self.source.problems, *error.problems]) from None

    def topologies(self) -> tuple[Space, ...]:
        raw = self.spec.topologies
        if isinstance(raw, dict):
            found_space = declared.read(_Space, self.source, ("topologies",), raw)
            return () if found_space is None else self.space(found_space)
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
        wanted = self.spec.npus
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

    def space(self, given: _Space) -> tuple[Space, ...]:
        """Every topology of the NPUs that the mapping allows."""
        npus = self.spec.npus
        if npus is None:
            if "npus" not in self.source.values:
                self.source.fault(("npus",), "is missing", f"2 to {_MOST_NPUS}")
            return ()
        strange = [each for each in given.largest if topology.block(each) is None]
        for each in strange:
            said = f"{each!r} is not a block"
            self.source.fault(("topologies", "largest", each), said, ", ".join(BLOCKS))
        blocks = tuple(dict.fromkeys(given.blocks))
        largest = {topology.block(name) or "": size for name, size in given.largest.items()}
        sizes = self.sizes(given, npus)
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

    def sizes(self, given: _Space, npus: int) -> list[tuple[int, ...]]:
        if given.sizes is None:
            return [
                each
                for d in sorted(set(given.dimensions))
                for each in topology.factorisations(npus, d)
            ]
        listed = given.sizes if isinstance(given.sizes, list) else []
        wrong = [each for each in listed if not _is_sizes(each, npus)]
        if wrong or not listed:
            self.source.fault(
                ("topologies", "sizes"),
                f"invalid sizes of dimensions: {(wrong or [given.sizes])[0]!r}",
                f"lists of one to five whole numbers from 2 with the product {npus}",
            )
        return [tuple(each) for each in listed if each not in wrong]

    def costs(self) -> CostTable | None:
        raw = self.spec.cost
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
        given = self.spec.technologies
        if given is None:
            return tuple(named), {}, {}
        order, caps, latencies = [], {}, {}
        for index, each in enumerate(given):
            if known is not None and each.name not in known:
                said = f"{each.name!r} is not a technology of the table"
                self.source.fault(("technologies", index), said, ", ".join(known))
                continue
            order.append(each.name)
            if each.least is not None or each.most is not None:
                caps[each.name] = BandwidthRange(each.least or 0.0, each.most)
            if each.latency is not None:
                latencies[each.name] = each.latency
        return tuple(order), caps, latencies

    def ranges(self) -> tuple[BandwidthRange, ...]:
        """The bandwidths of the dimensions: a range, or a single value."""
        found = []
        for index, each in enumerate(self.spec.bandwidth.dimensions):
            path: Path_ = ("bandwidth", "dimensions", index)
            if isinstance(each, dict):
                some = declared.read(BandwidthRange, self.source, path, each)
                found.append(some or BandwidthRange())
            else:
                value = declared.read_value(Amount, self.source, path, each, 0.0)
                found.append(BandwidthRange(value, value))
        return tuple(found)

    def written(
        self, costs: CostTable | None, order: Sequence[str]
    ) -> tuple[constraints.Written, ...]:
        known = {each.name for each in costs.technologies} if costs else set(order)
        found: list[constraints.Written] = []
        for index, text in enumerate(self.spec.constraints):
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

    def check_objective(
        self, costs: CostTable | None, written: Sequence[constraints.Written]
    ) -> None:
        """Refuses an objective without the prices or limits that it needs."""
        spec, value = self.spec, self.spec.objective
        if value != "step_time" and costs is None and spec.cost is None:
            self.source.fault(
                ("objective",),
                f"{value} needs prices",
                f"cost: {' or '.join(cost_file.tables())}, or a table",
            )
        raw = self.source.values.get("bandwidth")
        if isinstance(raw, dict) and {"total", "most"} <= raw.keys():
            self.source.fault(("bandwidth",), "has both a total and a most", "one of them")
        if any("bandwidth" in each.place for each in self.source.problems):
            return
        total = spec.bandwidth.total or spec.bandwidth.most
        bounded = total is not None or bool(written) or spec.technologies is not None
        if value in ("step_time", "pareto") and not bounded and not spec.bandwidth.dimensions:
            self.source.fault(
                ("bandwidth",),
                "is missing: without a limit, more bandwidth is always better",
                "300 GB/s for each NPU",
            )
        if value == "performance_per_cost" and spec.bandwidth.total is None and not written:
            self.source.fault(
                ("bandwidth",),
                f"has no fixed total: {_NO_TOTAL}",
                "total: 300 GB/s, or constraints",
            )

    def bounded_workloads(self) -> bool:
        """Whether some workload has a time bound of its own."""
        raw = self.spec.workloads
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
