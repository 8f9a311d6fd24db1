"""The links of the GPUs of an NCCL topology: NVLinks, AMD's xGMI, and NVLink-C2C to the CPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .nccl_parts import Gpu, Reading
from .xml import Element

SWITCH = "nvswitch"
_NO_TARGET = re.compile(r"f+:ff:ff\.[0-9a-f]")
_PCIE_ONLY = (75, 86, 89, 120, 121)
"""Compute capabilities of GPUs that have no NVLinks, or need a bridge for them."""
_XGMI = ("gfx94", "gfx95")
"""Architectures of AMD that are sold as nodes with xGMI only."""
_NO_LINKS = (
    "The file names no NVLinks or xGMI links. Files made for NCCL_TOPO_FILE leave them out; what "
    "NCCL writes to NCCL_TOPO_DUMP_FILE has them. --assume nvlinks=N gives each GPU N NVLinks to a "
    "switch; nvlinks=0 says that there are none."
)


@dataclass
class _Links:
    """Counts of links: between two names, and to the switch. `seen` has one for each direction."""

    pairs: dict[tuple[str, str], Gpu] = field(default_factory=dict)
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    switched: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)


def join(reading: Reading, gpus: dict[str, Gpu]) -> None:
    """Adds the links of GPUs, which are given by their names in the platform."""
    found = _Links()
    names = {(gpu.host, gpu.busid): name for name, gpu in gpus.items()}
    for name, gpu in gpus.items():
        for element in gpu.links:
            _count(reading, found, name, gpu, element, names)
        if gpu.c2c is not None:
            _c2c(reading, name, gpu.cpu, gpu.c2c)
    for name, count in found.switched.items():
        reading.found.switches[SWITCH] = 1
        _link(reading, (name, SWITCH), count, gpus[name])
    for ends, gpu in sorted(found.pairs.items(), key=lambda pair: pair[0]):
        _link(reading, ends, _agreed(reading, found, ends), gpu)
    if found.missing:
        targets = ", ".join(sorted(found.missing))
        text = f"{sum(found.missing.values())} links of GPUs lead to devices that are not in the "
        reading.warn(f"{text}file, and are left out: {targets}.")
    if not found.pairs and not found.switched and len(gpus) > 1:
        _without(reading, gpus)


def _count(
    reading: Reading,
    found: _Links,
    name: str,
    gpu: Gpu,
    element: Element,
    names: dict[tuple[str, str], str],
) -> None:
    count = reading.whole(element, "count")
    if count is None or not 0 < count <= 64:
        reading.refuse(element, f"count is {element.attributes.get('count')!r}", "1 to 64")
        return
    target = element.attributes.get("target", "").lower()
    kind = element.attributes.get("tclass", "")
    other = names.get((gpu.host, target))
    if other == name:
        reading.refuse(element, f"target is the GPU itself: {target}", "another device")
    elif other is not None:
        _pair(found, name, other, count, gpu)
    elif kind.startswith("0x0680") or _NO_TARGET.fullmatch(target):
        found.switched[name] = found.switched.get(name, 0) + count
    elif kind.startswith("0x06"):
        _pair(found, name, gpu.cpu, count, gpu)
    else:
        found.missing[target] = found.missing.get(target, 0) + count


def _pair(found: _Links, one: str, other: str, count: int, gpu: Gpu) -> None:
    found.pairs.setdefault((min(one, other), max(one, other)), gpu)
    found.seen[one, other] = found.seen.get((one, other), 0) + count


def _agreed(reading: Reading, found: _Links, ends: tuple[str, str]) -> int:
    """The number of links between two devices; both list them, and should agree."""
    counts = [found.seen[pair] for pair in (ends, ends[::-1]) if pair in found.seen]
    if len(set(counts)) > 1:
        one, other = ends
        text = f"{one} and {other} list {counts[0]} and {counts[1]} links between them"
        reading.warn(f"{text}; the larger number is taken.")
    return max(counts)


def _link(reading: Reading, ends: tuple[str, str], count: int, gpu: Gpu) -> None:
    kind = "xgmi" if any(link.tag == "xgmi" for link in gpu.links) else "nvlink"
    if kind == "nvlink":
        speed = reading.assumed.nvlink(gpu.capability or 80, count)
    else:
        known = reading.assumed.xgmi(gpu.gcn, count)
        if known is None:
            message = f"the speed of an xGMI link of gcn {gpu.gcn!r} is not known"
            reading.refuse(gpu.links[0], message, "--assume 'xgmi=50 GB/s' says it")
            return
        speed = known
    reading.link(ends, speed, reading.assumed.latency(kind), kind)


def _c2c(reading: Reading, name: str, cpu: str, element: Element) -> None:
    """NVLink-C2C; `bw` is that of one link, in MB/s."""
    speed, count = reading.whole(element, "bw"), reading.whole(element, "count")
    if not speed or not count:
        reading.refuse(element, "has no bw or no count", "MB/s of a link, and the number of links")
        return
    bandwidth = f"{speed * count / 1000:g} GB/s"
    reading.link((name, cpu), (bandwidth, ""), reading.assumed.latency("c2c"), "c2c")


def _without(reading: Reading, gpus: dict[str, Gpu]) -> None:
    """GPUs without any link to one another: what the user says counts."""
    count = reading.assumed.nvlinks
    if count is None:
        product = reading.assumed.product
        if not (product and not product.nvlinks) and any(map(_may_have_links, gpus.values())):
            reading.warn(_NO_LINKS)
        return
    if count:
        reading.found.switches[SWITCH] = 1
        for name, gpu in gpus.items():
            _link(reading, (name, SWITCH), count, gpu)


def _may_have_links(gpu: Gpu) -> bool:
    """Whether GPUs of this kind usually have links to one another."""
    return gpu.gcn.startswith(_XGMI) if gpu.gcn else gpu.capability not in _PCIE_ONLY
