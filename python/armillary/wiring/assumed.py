"""What a file does not say and an importer needs. Values have a source, and users can give them.

NCCL's own numbers of what a link carries are in its `src/graph/topo.h` (069a3d4f): GB/s in one
direction, `SM60_NVLINK_BW` and so on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import InputError, Problem

_TOPO_H = "NCCL's src/graph/topo.h"
NVLINK = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}
"""GB/s of an NVLink in one direction, by the compute capability from which on it holds."""
MOST_NVLINKS = {60: 4, 70: 6, 80: 12, 86: 4, 90: 18, 100: 18}
"""NVLinks of a GPU, by the same."""
_PCIE = {60: (3, 12.0), 70: (3, 12.0), 80: (4, 24.0), 86: (4, 24.0), 90: (5, 48.0), 100: (5, 48.0)}
"""Generation of PCIe, and GB/s of 16 lanes as NCCL counts them."""
_CARD = {60: 12.5, 70: 12.5, 80: 25.0, 86: 12.5, 90: 50.0, 100: 50.0}
"""GB/s of the network card of a DGX of the same age."""
GPUS = {
    "P100": 60,
    "V100": 70,
    "A100": 80,
    "A800": 80,
    "A10": 86,
    "A40": 86,
    "A6000": 86,
    "H100": 90,
    "H200": 90,
    "H800": 90,
    "GH200": 90,
    "B200": 100,
    "GB200": 100,
    "B300": 100,
    "GB300": 100,
}
"""Compute capability by name of a GPU."""
_LATENCIES = {
    "nvlink_latency": ("100 ns", "docs/models/libraries.md, latencies: a wire and half a switch"),
    "pcie_latency": ("150 ns", "no source; PCIe switches forward in 100 to 150 ns"),
    "cpu_latency": ("150 ns", "no source"),
    "cable_latency": ("125 ns", "docs/models/libraries.md, latencies: a cable and half a switch"),
}
_BANDWIDTH = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)? ?([kMGT]?i?)(B/s|b/s|bps)")
_TIME = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)? ?(ps|ns|us|ms|s)")


@dataclass
class Assumed:
    """Values that the user gave (`given`, by name) and the GPU, if it is known.

    `used` are the names of values that were assumed, with value and source, in order of use.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    gpu: str | None = None
    used: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        problems = []
        if self.gpu is not None and self.gpu.upper() not in GPUS:
            problems.append(Problem("", f"--gpu {self.gpu}", "unknown GPU", ", ".join(GPUS)))
        for name, value in self.given.items():
            time = name.endswith("_latency")
            if not (_TIME if time else _BANDWIDTH).fullmatch(value):
                allowed = 'a time, such as "500 ns"' if time else 'a bandwidth, such as "50 GB/s"'
                problems.append(
                    Problem("", f"--assume {name}", f"{value!r} is not a value", allowed)
                )
        if problems:
            raise InputError(problems)

    @property
    def capability(self) -> int | None:
        """Compute capability of the GPU that the user named."""
        return None if self.gpu is None else GPUS[self.gpu.upper()]

    def nvlink(self, capability: int, links: int) -> tuple[str, str]:
        """What `links` NVLinks of a GPU carry together, and a note."""
        generation = generation_of(capability)
        one, note = self._value(
            "nvlink", f"{NVLINK[generation]:g} GB/s", f"{_TOPO_H}: SM{generation}"
        )
        return times(one, links), f"{links} x {one}{note}"

    def pcie(self, capability: int) -> tuple[str, str]:
        """What 16 lanes carry in a machine of that age, and a note."""
        number, speed = _PCIE[generation_of(capability)]
        return self._value("pcie", f"{speed:g} GB/s", f"{_TOPO_H}: PCIe {number}, 16 lanes")

    def cpu(self, speed: float, source: str) -> tuple[str, str]:
        """What two CPUs send each other, and a note."""
        return self._value("cpu", f"{speed:g} GB/s", source)

    def card(self, capability: int | None) -> tuple[str, str]:
        """What a network card sends, and a note."""
        speed = _CARD[generation_of(capability or 80)]
        return self._value("card", f"{speed:g} GB/s", "the card of a DGX of that age")

    def latency(self, kind: str) -> str:
        """The latency of a link of `nvlink`, `pcie`, `cpu` or `cable`."""
        name = f"{kind}_latency"
        return self._value(name, *_LATENCIES[name])[0]

    def named(self, name: str) -> str | None:
        """A value that the user gave for links of this name."""
        self.asked.add(name)
        return self.given.get(name)

    def problems(self) -> list[Problem]:
        """Values that the user gave and the file does not need."""
        spare = [name for name in self.given if name not in self.asked]
        allowed = ", ".join(sorted(self.asked)) or "nothing: the file says it all"
        return [
            Problem("", f"--assume {name}", "the file needs no such value", allowed)
            for name in spare
        ]

    def _value(self, name: str, default: str, source: str) -> tuple[str, str]:
        self.asked.add(name)
        if name in self.given:
            return self.given[name], ""
        self.used[name] = (default, source)
        return default, " (assumed)"


def generation_of(capability: int) -> int:
    """The generation that a compute capability belongs to: 89 to 86, 75 to 70, 103 to 100."""
    return max((known for known in NVLINK if known <= capability), default=min(NVLINK))


def times(bandwidth: str, count: int) -> str:
    """A bandwidth times `count`, as text."""
    found = re.fullmatch(r"([\d.eE+-]+?) ?([a-zA-Z/]+)", bandwidth)
    if found is None:
        return bandwidth
    return f"{round(float(found[1]) * count, 6):g} {found[2]}"
