"""Lower bounds: what no algorithm on a group, and no schedule of a step, can be faster than.

A collective is cut between machines of the inner dimensions: what each must send over its outer links, over their
bandwidth. The latency bound is the longest way between two members. The bound is the larger of the two.
Sources: Patarasuk and Yuan, JPDC 2009 (all-reduce); Chan et al., Concurrency and Computation 2007 (the other kinds).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..schema import Collective, Report
from .network import Dimension, dimensions


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
    """The bound of a row; None where the network has no dimensions, a switch reduces, or nothing says how it goes."""
    network = dimensions(report)
    used = {phase["dim"]: phase["ranks"] for phase in row["phases"]}
    if (
        not network
        or not used
        or any(phase["algorithm"] == "" or phase["algorithm"].startswith("NVLS") for phase in row["phases"])
    ):
        return None
    sizes = [used[dim] for dim in sorted(used)]
    dims = [network[dim] for dim in sorted(used)]
    if prod(sizes) != row["ranks"]:
        return _of_any_group(row, network)
    return Bound(_bandwidth(row, sizes, dims), _latency(row, sizes, dims))


def bytes_out(kind: str, size: int, machines: int, inner: int) -> float:
    """Bytes each NPU must send (or receive) over the links between `machines` of `inner` NPUs; `size` as traces do.

    Never more than any algorithm needs, on the mean over the NPUs of the machine that needs most.
    """
    share = (machines - 1) / machines
    needed = {
        "all_reduce": 2 * share * size / inner,
        "reduce_scatter": share * size / inner,
        "scatter": share * size / inner,
        "all_to_all": share * size,
        "all_gather": (machines - 1) * size,
        "gather": (machines - 1) * size,
        "broadcast": size / inner,
        "reduce": size / inner,
    }
    return needed.get(kind, 0.0)


def _bandwidth(row: Collective, sizes: list[int], dims: list[Dimension]) -> float:
    cuts = []
    for at in range(len(dims)):
        inner, machines = prod(sizes[:at]), prod(sizes[at:])
        outer = sum(dim.npu for dim in dims[at:])
        cuts.append(bytes_out(row["kind"], row["bytes"], machines, inner) / outer if outer else 0.0)
    return max(cuts)


def _latency(row: Collective, sizes: list[int], dims: list[Dimension]) -> float:
    return sum(dim.diameter(size) * dim.latency_ns for size, dim in zip(sizes, dims, strict=True))


def _of_any_group(row: Collective, network: list[Dimension]) -> Bound:
    """Of a group that lies anywhere: all links of an NPU at once, one link's latency."""
    everything = sum(dim.npu for dim in network)
    needed = bytes_out(row["kind"], row["bytes"], row["ranks"], 1)
    return Bound(needed / everything if everything else 0.0, min(dim.latency_ns for dim in network))


def step(report: Report) -> list[tuple[str, float]]:
    """Lower bounds of the step, largest first: what, and ns.

    The busiest rank's computing; its operations at the peak of its NPU, where they were counted; the bytes that the
    run sent over each dimension at the bandwidth of all its links.
    """
    bounds = [("computing of the busiest rank", max((c["compute_ns"] for c in report["classes"]), default=0.0))]
    summary = report["config"]["workload"].get("summary") or {}
    peak = report["config"]["platform"]["npu"]["peak_flops"]
    most = max((each["operations"] for each in summary.get("classes") or []), default=0)
    if most and peak:
        bounds.append(("operations of the busiest rank at its NPU's peak", most / peak * 1e9))
    for dim in report["dimensions"]:
        bounds.append((f"all bytes over all links of {dim['name']}", dim["utilisation"] * report["step_time_ns"]))
    return sorted((bound for bound in bounds if bound[1] > 0), key=lambda bound: -bound[1])
