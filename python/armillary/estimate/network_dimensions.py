"""The network of a report's platform, as explanations and bounds need it.

Model: NPUs in dimensions; a dimension has links of one bandwidth and latency. Explicit graphs and
logical dimensions have no such dimensions: only sums are given for them."""

from __future__ import annotations

from dataclasses import dataclass

from ..blocks import BLOCKS
from ..schema import Report
from ..units import PS_PER_NS


@dataclass(frozen=True)
class NetworkDimension:
    """One network dimension: bandwidths in bytes/ns (GB/s), latency of a link in ns."""

    name: str
    block: str
    size: int
    link: float
    npu: float
    latency_ns: float
    parallel: int
    """Links side by side that a link consists of; they have its bandwidth together."""

    def diameter(self, size: int) -> int:
        """Links between the two of `size` positions that are farthest apart."""
        return BLOCKS[self.block].diameter(size)

    @property
    def relays(self) -> bool:
        """Whether messages pass through NPUs in between."""
        return BLOCKS[self.block].paths == "relayed"


def dimensions(report: Report) -> list[NetworkDimension]:
    """Dimensions, innermost first; none on explicit graphs and where collectives run over logical
    ones."""
    platform = report["config"]["platform"]
    dims = platform["fabric"].get("dims")
    if dims is None or platform.get("logical") is not None:
        return []
    return [
        NetworkDimension(
            shown["name"],
            str(dim["block"]),
            dim["size"],
            shown["link_gb_per_s"],
            shown["npu_gb_per_s"],
            dim["link_latency_ps"] / PS_PER_NS,
            dim.get("links_side_by_side", 1),
        )
        for dim, shown in zip(dims, report["dimensions"], strict=True)
    ]
