"""NCCL's topology of a node, as `NCCL_TOPO_DUMP_FILE` writes it and `NCCL_TOPO_FILE` reads it.

A tree of `system`, `cpu`, `pci`, `gpu` and `nic`; a `gpu` lists its NVLinks, or as RCCL writes it
its xGMI links, by the PCI address at their other end. What a link carries is what NCCL takes it
for: `src/graph/xml.cc` and `topo.cc`, `ncclTopoAddPci` (a PCIe lane) and `ncclTopoNVLinkBw` (an
NVLink). All NVSwitches of a node are one switch there, and so they are here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from operator import attrgetter

from ..errors import InputError, Problem
from . import nccl_cpus, nccl_links
from .assumed import Assumed, age_of
from .nccl_parts import Gpu, Reading, check_names
from .node import Node, Port
from .xml import Element, parse

HELP = "a file that NCCL or RCCL wrote to NCCL_TOPO_DUMP_FILE"
_LANES = {2.5: 15, 5: 30, 8: 60, 16: 120, 32: 240, 64: 480}
"""Mb/s of a lane in hundreds by GT/s, as NCCL counts them: 16 lanes of 8 GT/s are 12 GB/s."""
_EMULATED = 1.0
"""GB/s below which the link of a bridge is emulated: virtual machines show 2.5 GT/s, 1 lane."""
_GPU_CLASSES = ("0x03", "0x12")
_GCN = {"910": "gfx90a"}
"""Architectures that older files of RCCL write as a number of their own."""


@dataclass(frozen=True)
class _Place:
    """Where a device is: what it is joined to, its CPU and host, and the wire that leads there."""

    parent: str
    cpu: str
    host: str
    prefix: str
    bridged: bool = False
    wire: tuple[Element, ...] = ()
    """Bridges with a single device below them."""


def is_nccl(text: bytes) -> bool:
    """Whether a file looks like XML."""
    return text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def read(text: bytes, file: str, assumed: Assumed) -> Node:
    """The node that an NCCL topology describes. Raises `InputError` listing every problem."""
    root = parse(text, file, HELP)
    if root.tag != "system":
        message = f"<{root.tag}> is not a topology of NCCL"
        raise InputError([Problem(file, f"line {root.line}", message, "<system>")])
    return _Tree(Reading(file, assumed, Node("topology of NCCL"))).node(root)


@dataclass
class _Tree:
    reading: Reading
    gpus: list[Gpu] = field(default_factory=list)
    near: set[str] = field(default_factory=set)
    """Network cards that share a PCIe switch with a GPU."""
    joined: set[tuple[str, str]] = field(default_factory=set)
    """Hosts and addresses of PCIe switches that `pcilink` elements name."""
    bridges: dict[tuple[str, str], str] = field(default_factory=dict)
    """Names of PCIe switches by host and address."""

    def node(self, root: Element) -> Node:
        reading = self.reading
        check_names(reading, root)
        reading.stop()
        cpus = {f"cpu{place}": cpu for place, cpu in enumerate(root.each("cpu"))}
        hosts = list(dict.fromkeys(cpu.attributes.get("host_hash", "") for cpu in cpus.values()))
        links = self._pcilinks(cpus)
        for name, cpu in cpus.items():
            self._cpu(cpu, name, hosts)
        if not self.gpus:
            reading.refuse(root, "has no GPU", "<gpu> elements, or PCI devices of class 0x03")
        reading.stop()
        names = self._ordered()
        self._join(names)
        nccl_links.join(reading, dict(zip(names, self.gpus, strict=True)))
        self._join_switches(links)
        nccl_cpus.join(reading, cpus, self.gpus)
        far = [port.name for port in reading.found.ports if port.name not in self.near]
        reading.found.far = far if self.near else []
        reading.stop()
        return reading.found

    def _join(self, names: list[str]) -> None:
        """GPUs to their PCIe; NVLink-C2C takes the place of PCIe that leads to the same CPU."""
        latency = self.reading.assumed.latency("pcie")
        for gpu, name in zip(self.gpus, names, strict=True):
            self.reading.found.npus.append(name)
            if gpu.c2c is None or gpu.parent != gpu.cpu:
                self.reading.link((name, gpu.parent), gpu.pcie, latency, "pcie")

    def _pcilinks(self, cpus: dict[str, Element]) -> list[tuple[str, str, str, Element]]:
        """Host, both addresses and element of each link between PCIe switches."""
        found = []
        for cpu in cpus.values():
            host = cpu.attributes.get("host_hash", "")
            for pci in cpu.walk():
                for link in pci.each("pcilink"):
                    one = pci.attributes.get("busid", "").lower()
                    other = link.attributes.get("target", "").lower()
                    found.append((host, one, other, link))
                    self.joined |= {(host, one), (host, other)}
        return found

    def _join_switches(self, links: list[tuple[str, str, str, Element]]) -> None:
        done = set()
        for host, *ends, element in links:
            names = tuple(sorted(self.bridges.get((host, end), "") for end in ends))
            if "" in names or names[0] == names[1]:
                target = element.attributes.get("target", "")
                self.reading.warn(
                    f"A pcilink leads to {target!r}, which is not a PCIe switch of this file."
                )
            elif names not in done:
                done.add(names)
                latency = self.reading.assumed.latency("pcie")
                speed = self.reading.assumed.pcilink()
                self.reading.link((names[0], names[1]), speed, latency, "pcilink")

    def _cpu(self, cpu: Element, name: str, hosts: list[str]) -> None:
        self.reading.found.switches[name] = 2
        host = cpu.attributes.get("host_hash", "")
        prefix = f"h{hosts.index(host)}." if len(hosts) > 1 else ""
        for element in cpu.inside:
            self._below(element, _Place(name, name, host, prefix))

    def _below(self, element: Element, place: _Place) -> None:
        """A PCI device and all below it, joined to a place."""
        if element.tag == "nic":
            self._nic(element, place, self._pcie(element, place))
        if element.tag != "pci":
            return
        kind, busid = element.attributes.get("class", ""), element.attributes.get("busid", "")
        gpus = list(element.each("gpu"))
        if len(gpus) > 1:
            message = f"has {len(gpus)} GPUs: parts of a GPU (MLOPart), or several ranks on one"
            self.reading.refuse(element, message, "one <gpu> in each <pci>")
        elif gpus or (kind.startswith(_GPU_CLASSES) and not element.inside):
            self._gpu(element, gpus[0] if gpus else None, place)
        for nic in element.each("nic"):
            self._nic(nic, place, self._pcie(element, place))
        if kind.startswith("0x02") and not element.inside:
            name = f"{place.prefix}nic-{busid}"
            speed = self.reading.assumed.card(self._age())
            self._card(name, speed, element, place, self._pcie(element, place))
        if inside := [each for each in element.inside if each.tag == "pci"]:
            self._bridge(element, inside, place)

    def _bridge(self, element: Element, inside: list[Element], place: _Place) -> None:
        """A PCIe switch; one with a single device below it is no more than a piece of wire."""
        busid = element.attributes.get("busid", "").lower()
        if len(inside) == 1 and (place.host, busid) not in self.joined:
            wire = (*place.wire, element)
            self._below(inside[0], replace(place, wire=wire))
            return
        name = f"{place.prefix}pcie-{busid or element.line}"
        found = self.reading.found
        if name in found.switches:
            message = f"two PCI devices are at {busid!r}"
            self.reading.refuse(element, message, "each address once")
            return
        found.switches[name] = 1
        self.bridges[place.host, busid] = name
        gpus, cards = len(self.gpus), len(found.ports)
        for each in inside:
            self._below(each, _Place(name, place.cpu, place.host, place.prefix, True))
        if len(self.gpus) > gpus:
            self.near |= {port.name for port in found.ports[cards:]}
        latency = self.reading.assumed.latency("pcie")
        self.reading.link((name, place.parent), self._pcie(element, place), latency, "pcie")

    def _gpu(self, pci: Element, gpu: Element | None, place: _Place) -> None:
        reading, busid = self.reading, pci.attributes.get("busid", "").lower()
        found = Gpu(pci, busid, place.host, place.parent, place.cpu, ("", ""))
        if gpu is not None:
            found.rank, found.dev = reading.whole(gpu, "rank"), reading.whole(gpu, "dev")
            found.gcn = _architecture(gpu)
            # RCCL writes the number of compute units there.
            sm = None if found.gcn else reading.whole(gpu, "sm")
            found.capability = age_of(found.gcn) if found.gcn else sm
            found.links = [each for each in gpu.inside if each.tag in ("nvlink", "xgmi")]
            found.c2c = next(gpu.each("c2c"), None)
        found.capability = found.capability or reading.assumed.capability
        if any((each.host, each.busid) == (place.host, busid) for each in self.gpus):
            reading.refuse(pci, f"two PCI devices are at {busid!r}", "each address once")
            return
        self.gpus.append(found)
        found.pcie = self._pcie(pci, place)

    def _nic(self, nic: Element, place: _Place, pcie: tuple[str, str]) -> None:
        for net in nic.each("net"):
            if net.attributes.get("net") == "0":
                continue  # A part of a fused card, which the file lists, too.
            said = net.attributes.get("name") or f"net{net.attributes.get('dev', '')}"
            speed = self.reading.whole(net, "speed")
            known = (f"{speed / 8000:g} GB/s", "") if speed else None
            speeds = known or self.reading.assumed.card(self._age())
            self._card(f"{place.prefix}{said}", speeds, net, place, pcie)

    def _card(
        self,
        name: str,
        speed: tuple[str, str],
        element: Element,
        place: _Place,
        pcie: tuple[str, str],
    ) -> None:
        found = self.reading.found
        if name in found.switches:
            message = f"two network cards are called {name!r}"
            self.reading.refuse(element, message, "each name once")
            return
        found.switches[name] = 3
        found.ports.append(Port(name, *speed))
        latency = self.reading.assumed.latency("pcie")
        self.reading.link((name, place.parent), pcie, latency, "pcie")

    def _age(self) -> int | None:
        known = (gpu.capability for gpu in self.gpus if gpu.capability)
        return next(known, self.reading.assumed.capability)

    def _pcie(self, element: Element, place: _Place) -> tuple[str, str]:
        """Bandwidth of the PCIe link of a device, with the wire that leads to it, and a note where
        it is assumed."""
        own = self._speed(element)
        if own is None:
            return self.reading.assumed.pcie(self._age() or 80)
        wires = [speed for each in place.wire if (speed := self._speed(each)) is not None]
        if any(speed < _EMULATED for speed in wires):
            text = f"PCIe bridges of less than {_EMULATED:g} GB/s are taken for those of a virtual "
            self.reading.warn(f"{text}machine, and do not count.")
        slowest = min([own, *(speed for speed in wires if speed >= _EMULATED)])
        return f"{slowest:g} GB/s", ""

    def _speed(self, element: Element) -> float | None:
        said = element.attributes.get("link_speed", "")
        width = self.reading.whole(element, "link_width") or 0
        found = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", said)
        lane = _LANES.get(float(found[1])) if found else None
        return width * lane / 80 if lane is not None and 0 < width <= 32 else None

    def _ordered(self) -> list[str]:
        """Sorts the GPUs by rank or device where that says one order; their names."""
        for key in ("rank", "dev"):
            values = [getattr(gpu, key) for gpu in self.gpus]
            if None not in values and len(set(values)) == len(values):
                self.gpus.sort(key=attrgetter(key))
                break
        return [f"gpu{place}" for place in range(len(self.gpus))]


def _architecture(gpu: Element) -> str:
    """The architecture of an AMD GPU: `gfx942`, also where the file says `942`."""
    said = gpu.attributes.get("gcn", "").split(":")[0]
    known = _GCN.get(said, said)
    return f"gfx{known}" if known.isdigit() else known
