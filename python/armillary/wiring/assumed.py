"""Assumptions of importers where a file has no value. Values have a source, and users can give
them.

NCCL's own numbers of what a link carries are in its `src/graph/topo.h` (069a3d4f): GB/s in one
direction, `SM60_NVLINK_BW` and so on. RCCL's are in its file of that name: `GFX94X_XGMI_WIDTH`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import InputError, Problem
from .gpus import GPUS, Gpu, known

_TOPO_H = "NCCL's src/graph/topo.h"
NVLINK = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}
"""GB/s of an NVLink in one direction, by the compute capability from which on it holds."""
_PCIE = {60: (3, 12.0), 70: (3, 12.0), 80: (4, 24.0), 86: (4, 24.0), 90: (5, 48.0), 100: (5, 48.0)}
"""Generation of PCIe, and GB/s of 16 lanes as NCCL counts them."""
_CARD = {60: 12.5, 70: 12.5, 80: 25.0, 86: 12.5, 90: 50.0, 100: 50.0}
"""GB/s of the network card of a DGX of the same age."""
_XGMI = {
    "gfx906": (24.0, 46.0),
    "gfx908": (24.0, 46.0),
    "gfx90a": (36.0, 50.0),
    "gfx940": (48.0, 64.0),
    "gfx941": (48.0, 64.0),
    "gfx942": (48.0, 64.0),
    "gfx950": (48.0, 76.5),
}
"""GB/s of an xGMI link in one direction by the GPU's architecture: as RCCL counts it, and nominal
(AMD's data sheets of MI50, MI100, MI250X, MI300X and MI355X)."""
_AGES = {"gfx906": 80, "gfx908": 80, "gfx90a": 80}
"""Compute capability of NVIDIA's GPUs of the same age and PCIe; of others it is `_LATER`."""
_LATER = 90
_LATENCIES = {
    "nvlink_latency": ("100 ns", "docs/models/libraries.md, latencies: a wire and half a switch"),
    "xgmi_latency": ("200 ns", "no source; as in the preset mi300x-8"),
    "c2c_latency": ("100 ns", "no source; as an NVLink"),
    "pcie_latency": ("150 ns", "no source; PCIe switches forward in 100 to 150 ns"),
    "cpu_latency": ("150 ns", "no source"),
    "cable_latency": ("125 ns", "docs/models/libraries.md, latencies: a cable and half a switch"),
}
_BANDWIDTH = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)? ?([kMGT]?i?)(B/s|b/s|bps)")
_TIME = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)? ?(ps|ns|us|ms|s)")
_COUNT = re.compile(r"\d|[1-5]\d|6[0-4]")
_ALL_OF_A_GPU = ("nvlinks", "pcie")
"""Data required for a GPU that is not in the list."""


@dataclass
class Assumed:
    """Values that the user gave (`given`, by name) and the name of the GPU, if it is known.

    `used` are the names of values that were assumed, with value and source, in order of use.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    gpu: str | None = None
    used: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        problems = [_mistyped(name, value) for name, value in self.given.items()]
        found = [problem for problem in problems if problem is not None]
        if found := [*self._unknown_gpu(), *found]:
            raise InputError(found)

    def _unknown_gpu(self) -> list[Problem]:
        if self.gpu is None or known(self.gpu):
            return []
        needed = [name for name in _ALL_OF_A_GPU if name not in self.given]
        if self.given.get("nvlinks", "0") != "0" and "nvlink" not in self.given:
            needed.append("nvlink")
        if not needed:
            self.asked |= {*_ALL_OF_A_GPU, "nvlink"}
            return []
        values = " ".join(f"--assume {name}={_EXAMPLES[name]}" for name in needed)
        allowed = f"{', '.join(GPUS)}; another GPU with {values}"
        return [Problem("", f"--gpu {self.gpu}", "unknown GPU", allowed)]

    @cached_property
    def product(self) -> Gpu | None:
        """The GPU that the user named. One that is not in the list is described by values."""
        if self.gpu is None:
            return None
        return known(self.gpu) or Gpu(_LATER, int(self.given["nvlinks"]))

    @property
    def capability(self) -> int | None:
        """Compute capability of the GPU that the user named."""
        return None if self.product is None else self.product.capability

    @property
    def nvlinks(self) -> int | None:
        """The number of NVLinks of each GPU, if the user gave it."""
        self.asked.add("nvlinks")
        return int(self.given["nvlinks"]) if "nvlinks" in self.given else None

    def nvlink(self, capability: int, links: int) -> tuple[str, str]:
        """Bandwidth of `links` NVLinks of a GPU together, and a note."""
        generation = generation_of(capability)
        source = f"{_TOPO_H}: SM{generation}"
        one, note = self._value("nvlink", f"{NVLINK[generation]:g} GB/s", source)
        return times(one, links), f"{links} x {one}{note}"

    def xgmi(self, gcn: str, links: int) -> tuple[str, str] | None:
        """Bandwidth of `links` xGMI links of an AMD GPU, and a note; nothing if unknown."""
        self.asked.add("xgmi")
        if "xgmi" not in self.given and gcn not in _XGMI:
            return None
        speed, nominal = _XGMI.get(gcn, (0.0, 0.0))
        source = f"RCCL's src/graph/topo.h: {gcn}, nominal {nominal:g} GB/s"
        one, note = self._value("xgmi", f"{speed:g} GB/s", source)
        return times(one, links), f"{links} x {one}{note}"

    def c2c(self, gpu: Gpu) -> tuple[str, str]:
        """Bandwidth of NVLink-C2C between a GPU and its CPU, and a note."""
        return self._value("c2c", f"{gpu.c2c:g} GB/s", gpu.c2c_source)

    def pcilink(self) -> tuple[str, str]:
        """Bandwidth between the parts of one PCIe switch, and a note."""
        return self._value("pcilink", "5000 GB/s", f"{_TOPO_H}: LOC_BW, inside a switch")

    def pcie(self, capability: int, lanes: int = 16) -> tuple[str, str]:
        """Bandwidth of the lanes of a device in a machine of that age, and a note."""
        number, speed = _PCIE[generation_of(capability)]
        source = f"{_TOPO_H}: PCIe {number}, {lanes} lanes"
        return self._value("pcie", f"{speed * lanes / 16:g} GB/s", source)

    def cpu(self, speed: float | None, source: str) -> tuple[str, str] | None:
        """Bandwidth between two CPUs, and a note; nothing where it is not known."""
        self.asked.add("cpu")
        if speed is None and "cpu" not in self.given:
            return None
        return self._value("cpu", f"{speed or 0:g} GB/s", source)

    def card(self, capability: int | None) -> tuple[str, str]:
        """Bandwidth of a network card, and a note."""
        speed = _CARD[generation_of(capability or 80)]
        return self._value("card", f"{speed:g} GB/s", "the card of a DGX of that age")

    def latency(self, kind: str) -> str:
        """The latency of a link of `nvlink`, `xgmi`, `c2c`, `pcie`, `cpu` or `cable`."""
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


_EXAMPLES = {"nvlinks": "0", "nvlink": "'25 GB/s'", "pcie": "'24 GB/s'"}


def _mistyped(name: str, value: str) -> Problem | None:
    """A value that is not of the kind of its name."""
    form, allowed = _BANDWIDTH, 'a bandwidth, such as "50 GB/s"'
    if name.endswith("_latency"):
        form, allowed = _TIME, 'a time, such as "500 ns"'
    elif name == "nvlinks":
        form, allowed = _COUNT, "a number of links, 0 to 64"
    if form.fullmatch(value):
        return None
    return Problem("", f"--assume {name}", f"{value!r} is not a value", allowed)


def age_of(gcn: str) -> int:
    """The compute capability of NVIDIA's GPUs of the same age as an AMD architecture."""
    return _AGES.get(gcn, _LATER)


def generation_of(capability: int) -> int:
    """The generation that a compute capability belongs to: 89 to 86, 75 to 70, 103 to 100."""
    return max((known for known in NVLINK if known <= capability), default=min(NVLINK))


def times(bandwidth: str, count: int) -> str:
    """A bandwidth times `count`, as text."""
    found = re.fullmatch(r"([\d.eE+-]+?) ?([a-zA-Z/]+)", bandwidth)
    if found is None:
        return bandwidth
    return f"{round(float(found[1]) * count, 6):g} {found[2]}"
