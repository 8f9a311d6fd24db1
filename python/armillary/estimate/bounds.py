"""Lower bounds: times that no algorithm on a group and no schedule of a step can beat.

A collective is cut between machines of the inner dimensions: what each must send over its outer
links, over their bandwidth. The latency bound is the longest way between two members. The bound is
the larger of the two. A step is cut alike: what all its collectives must send, over the links of
all NPUs. The bytes that a run sent over a dimension bound nothing, for another order of dimensions
or another algorithm sends them over others: they are `loads`. Sources: Patarasuk and Yuan, JPDC
2009 (all-reduce); Chan et al., Concurrency and Computation 2007 (the other kinds)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..schema import Collective, Report
from ..units import PPM
from .carried_bytes import of_a_byte
from .network_dimensions import NetworkDimension, dimensions
from .report_detail import detail

_IN_NETWORK = "in_network"
_ROOTED = {"broadcast": 1, "reduce": 1, "gather": 0, "scatter": 0}
"""Kinds whose ranks do not all send alike: whether all machines but one must, or one alone."""


@dataclass(frozen=True)
class Bound:
    """A lower bound of a collective's time, in ns."""

    bandwidth_ns: float
    latency_ns: float

    @property
    def ns(self) -> float:
        """No algorithm is faster."""
        return max(self.bandwidth_ns, self.latency_ns)


def collective(report: Report, row: Collective) -> Bound | None:
    """The bound of a row; None where the network has no dimensions, a switch reduces, or nothing
    says how it goes."""
    network = dimensions(report)
    grid = _grid(row, network)
    if grid is None:
        return None
    sizes, dims = grid
    return (
        _of_any_group(row, network)
        if prod(sizes) != row["ranks"]
        else of_grid(row["kind"], row["bytes"], sizes, dims)
    )


def of_all(report: Report, kind: str, size: int) -> Bound | None:
    """The bound of a collective over all NPUs of a report's platform; None on graphs and where
    switches reduce."""
    network = [dim for dim in dimensions(report) if dim.size > 1]
    chosen = report["config"]["platform"]["collectives"].get(kind) or {}
    if not network or _IN_NETWORK in (chosen.get("algorithms") or []):
        return None
    return of_grid(kind, size, [dim.size for dim in network], network)


def of_grid(kind: str, size: int, sizes: Sequence[int], dims: Sequence[NetworkDimension]) -> Bound:
    """The bound of a collective over a grid of `sizes` ranks in dimensions `dims`, innermost
    first."""
    cuts = []
    for at in range(len(dims)):
        outer = sum(dim.npu for dim in dims[at:])
        cuts.append(
            bytes_out(kind, size, prod(sizes[at:]), prod(sizes[:at])) / outer if outer else 0.0
        )
    latency = sum(
        dim.diameter(size) * dim.latency_ns for size, dim in zip(sizes, dims, strict=True)
    )
    return Bound(max(cuts, default=0.0), latency)


def _grid(
    row: Collective, network: list[NetworkDimension]
) -> tuple[list[int], list[NetworkDimension]] | None:
    """Sizes and dimensions of a row's phases; None where there are none or not only NPUs reduce."""
    used = {phase["dim"]: phase["ranks"] for phase in row["phases"]}
    if (
        not network
        or not used
        or any(
            phase["algorithm"] == "" or phase["algorithm"].startswith("NVLS")
            for phase in row["phases"]
        )
    ):
        return None
    return [used[dim] for dim in sorted(used)], [network[dim] for dim in sorted(used)]


def bytes_out(kind: str, size: int, machines: int, inner: int) -> float:
    """Bytes each NPU must send (or receive) over the links between `machines` of `inner` NPUs;
    `size` as traces do.

    Never more than any algorithm needs, on the mean over the NPUs of the machine that needs most:
    all of them can share what its root sends or receives."""
    _, needed = of_a_byte(kind, ((inner, None), (machines, None)))
    return size * needed / (inner if kind in _ROOTED else 1)


def _of_any_group(row: Collective, network: list[NetworkDimension]) -> Bound:
    """Bound of a group at any place: all links of an NPU send at once, with the latency of one
    link."""
    everything = sum(dim.npu for dim in network)
    needed = bytes_out(row["kind"], row["bytes"], row["ranks"], 1)
    return Bound(needed / everything if everything else 0.0, min(dim.latency_ns for dim in network))


def step(report: Report) -> list[tuple[str, float]]:
    """Lower bounds of the step, largest first: what, and ns. They hold for every schedule and
    algorithm of this work.

    The busiest rank's computing; its operations at the peak of its NPU, where they were counted;
    the bytes that the collectives and messages must send, over the links of all NPUs."""
    bounds = [
        ("computing of the busiest rank", _computing(report)),
        ("operations of the busiest rank at its NPU's peak", peak(report)),
    ]
    network = dimensions(report)
    for at in range(len(network)):
        links = sum(dim.npu for dim in network[at:])
        needed = sum(
            row["count"] * _needed(row, network, at) for row in detail(report)["collectives"]
        )
        names = ", ".join(dim.name for dim in network[at:])
        where = "what collectives and messages must send, over all links"
        over = (
            where
            if at == 0
            else f"what collectives must send beyond {network[at - 1].name}, over all links "
            f"of {names}"
        )
        bounds.append((over, needed / report["ranks"] / links if links else 0.0))
    return sorted((bound for bound in bounds if bound[1] > 0), key=lambda bound: -bound[1])


def loads(report: Report) -> list[tuple[str, float]]:
    """Time for which a run kept the links of each dimension busy, largest first: name, ns."""
    found = [
        (dim["name"], dim["utilisation"] * report["step_time_ns"]) for dim in report["dimensions"]
    ]
    return sorted((load for load in found if load[1] > 0), key=lambda load: -load[1])


def _computing(report: Report) -> float:
    """Computing time of the busiest rank, as if communication never slowed it down; 0 where that
    slowdown is unknown."""
    npu = report["config"]["platform"]["npu"]
    if npu.get("memory_contention"):
        return 0.0
    slowdown: float = _settings(npu).get("comm_overlap_slowdown_ppm", 0) / PPM
    return (1.0 - slowdown) * max((each["compute_ns"] for each in report["classes"]), default=0.0)


def peak(report: Report) -> float:
    """Time of the operations of the busiest rank, each at the peak rate of its number format, ns; 0
    where that is not known."""
    return max((each["at_peak_ns"] or 0.0 for each in report["classes"]), default=0.0)


def _settings(npu: Mapping[str, Any]) -> Mapping[str, Any]:
    return npu.get("compute_settings") or {}


def _needed(row: Collective, network: list[NetworkDimension], at: int) -> float:
    """Bytes that the mean member must send over the links of dimensions from `at` on; 0 where that
    is not known."""
    if row["kind"] == "send":
        return float(row["bytes"]) if at == 0 else 0.0
    grid = _grid(row, network)
    if grid is None:
        return 0.0
    sizes, _ = grid
    used = sorted({phase["dim"] for phase in row["phases"]})
    inner = prod(size for size, dim in zip(sizes, used, strict=True) if dim < at)
    whole = prod(sizes) == row["ranks"]
    if not whole and at:
        return 0.0
    machines = row["ranks"] // (inner if whole else 1)
    sent = (
        bytes_out(row["kind"], row["bytes"], machines, inner if whole else 1)
        if machines > 1
        else 0.0
    )
    sending = machines - 1 if _ROOTED.get(row["kind"], 0) else 1
    return sent * sending / machines if row["kind"] in _ROOTED else sent
