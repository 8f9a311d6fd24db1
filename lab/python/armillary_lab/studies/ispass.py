"""ResNet-50 on the hierarchical torus of the ISPASS 2020 paper: what its studies share.

Not here: the platform (`systems/paper/paper-ispass-resnet.yml`), the layers
(`models/ispass-resnet-50.yml`, `resnet-50.yml`).

The paper trains 32 samples an NPU on a 256 x 256 array. The cycles its authors published for that
array are those of one sample: a 1 x 1 convolution of 64 channels over 56 x 56 positions has 3,456,
which is 3,136 positions and 320 to fill and drain. Both are run: the published cycles, and 32
samples by our own model of the array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from armillary.api import simulate
from armillary.platform import Platform
from armillary.workload import Workload, cnn, layerwise

PASSES = 2
"""Training iterations, as in Figs. 13 and 14."""

SETUP = (
    "Data-parallel ResNet-50, two iterations, enhanced (4-phase) all-reduce, LIFO, Tables III and "
    "IV; a cycle is 1 ns, 4 chunks a set (the authors' own torus file), T = 8 and P = 16 "
    "(section V-F). `published` runs the layers' cycles as the authors published them, `array` 32 "
    "samples on our 256 x 256 weight-stationary array."
)


@dataclass(frozen=True, slots=True)
class Torus:
    """A torus as the paper writes it: local x horizontal x vertical."""

    local: int
    horizontal: int
    vertical: int

    @property
    def npus(self) -> int:
        """NPUs in all."""
        return self.local * self.horizontal * self.vertical

    @property
    def topology(self) -> str:
        """Notation of platforms, in the order in which collectives cross the dimensions."""
        return f"Ring({self.local})_Ring({self.vertical})_Ring({self.horizontal})"

    def __str__(self) -> str:
        return f"{self.local}x{self.horizontal}x{self.vertical}"


def workload(kind: str, npus: int) -> Workload:
    """`published` cycles, or 32 samples as matrix multiplications for the `array`."""
    if kind == "published":
        return layerwise("ispass-resnet-50", dp=npus, passes=PASSES)
    return cnn("resnet-50", dp=npus, local_batch=32, passes=PASSES, elementwise=False)


def exposed(
    kind: str,
    torus: Torus,
    backend: str,
    scale: float = 1.0,
    settings: Mapping[str, object] | None = None,
) -> float:
    """Share of the time, in percent, in which compute waits for communication; compute power times
    `scale`, and `settings` of the platform changed."""
    shape = {"topology": torus.topology, "npu.compute.speedup": scale}
    platform = Platform.load("paper-ispass-resnet", settings=shape | dict(settings or {}))
    result = simulate(workload(kind, torus.npus), platform, backend=backend)
    classes = result.report["classes"]
    waited = sum(each["exposed_comm_ns"] * each["count"] for each in classes)
    return 100 * waited / (result.step_time_ns * torus.npus)
