"""Labels of residuals of collectives, and the interval of a collective on a platform.

| label | values |
| --- | --- |
| operation | the collective |
| size | up to 64 KiB, to 16 MiB, 16 MiB and above |
| GPU | the generation |
| network | within a node, or the kind of network between nodes |
| nodes | 1, 2, to 16, to 128, more |
| known | the preset was measured by others, only its kind was, or neither |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from .interval import Interval, Intervals
from .tables import of

BANDS = ("up to 64 KiB", "to 16 MiB", "16 MiB and above")
SMALL, LARGE = 2**16, 2**24

_GENERATIONS = (
    (r"V100", "Volta"),
    (r"A100|A800", "Ampere"),
    (r"GH200|H[12]00|H800|H20\b", "Hopper"),
    (r"G?B[23]00", "Blackwell"),
    (r"MI3[02]\d", "CDNA 3"),
    (r"MI35\d", "CDNA 4"),
)

RDMA = "RDMA"
WITHIN = "within a node"
_NETWORKS = (
    (r"^(?:alps|kestrel|perlmutter|polaris)", "Slingshot"),
    (r"^p[45]d?-", "EFA"),
    (r"^a3", "TCP"),
    (r"^mi3", "RDMA, RCCL"),
)
_SCALES = ((1, "1"), (2, "2"), (16, "to 16"), (128, "to 128"))

LIKENESS = {"operation": 0.5, "size": 0.05, "GPU": 0.5, "network": 0.3, "nodes": 0.5, "known": 0.3}
"""Weight of a residual whose label differs. Residuals of different sizes are nearly independent."""

MACHINE, KIND, NEITHER = "machine", "kind of machine", "neither"
"""How well a machine is known."""


def band(size: int) -> int:
    """Index into `BANDS` of a size in bytes."""
    return 0 if size <= SMALL else 1 if size < LARGE else 2


def generation(name: str) -> str:
    """The generation of a GPU; the name itself if it is of none that was measured."""
    found = (value for pattern, value in _GENERATIONS if re.search(pattern, name))
    return next(found, name or "not named")


def network(preset: str) -> str:
    """The kind of network of a preset; RDMA over InfiniBand or Ethernet where nothing else is
    known."""
    found = (value for pattern, value in _NETWORKS if re.search(pattern, preset))
    return next(found, RDMA)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collective runs."""

    gpu: str
    """Name of the GPU."""
    preset: str
    nodes: int
    """A rack whose GPUs share a switch is one."""
    known: str

    def labels(self, operation: str, size: int) -> Mapping[str, str]:
        """The labels of a collective; bytes as nccl-tests counts them."""
        scale = next((name for most, name in _SCALES if self.nodes <= most), "more")
        return {
            "operation": operation,
            "size": BANDS[band(size)],
            "GPU": generation(self.gpu),
            "network": network(self.preset) if self.nodes > 1 else WITHIN,
            "nodes": scale,
            "known": self.known,
        }

    def interval(self, operation: str, size: int, without: str = "") -> Interval:
        """The interval around the predicted time, if need be without the residuals of a source."""
        return _interval(without, *self.labels(operation, size).items())


def place(described: Mapping[str, object]) -> Place:
    """The place of a platform, from its description."""
    npu, fabric = described.get("npu"), described.get("fabric")
    gpu = str(npu.get("name") or "") if isinstance(npu, Mapping) else ""
    dims = fabric.get("dims") if isinstance(fabric, Mapping) else None
    sizes = [int(each["size"]) for each in dims or []]
    nodes = 1
    for size in sizes[1:]:
        nodes *= size
    preset = str(described.get("name") or "").removesuffix("-fabric")
    measured = str(described.get("measured") or "none") != "none"
    seen = {each.labels.get("GPU") for each in of("collectives").residuals}
    known = MACHINE if measured else KIND if generation(gpu) in seen else NEITHER
    return Place(gpu, preset, nodes, known)


@cache
def _interval(without: str, *labels: tuple[str, str]) -> Interval:
    """The same for every size of a band."""
    table = _without(without) if without else of("collectives")
    return table.interval(dict(labels))


@cache
def _without(source: str) -> Intervals:
    return of("collectives").without(source)
