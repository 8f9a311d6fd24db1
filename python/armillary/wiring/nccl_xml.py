"""NCCL's topology of a node, as `NCCL_TOPO_DUMP_FILE` writes it and `NCCL_TOPO_FILE` reads it.

A tree of `system`, `cpu`, `pci`, `gpu` and `nic`; a `gpu` lists its NVLinks by the PCI address at
their other end. What a link carries is what NCCL takes it for: `src/graph/xml.cc` and `topo.cc`,
`ncclTopoAddPci` (a PCIe lane) and `ncclTopoNVLinkBw` (an NVLink). All NVSwitches of a node are one
switch there, and so they are here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import attrgetter

from ..errors import InputError, Problem
from .assumed import Assumed
from .node import Link, Node, Port
from .xml import Element, parse

HELP = "a file that NCCL wrote to NCCL_TOPO_DUMP_FILE"
_LANES = {2.5: 15, 5: 30, 8: 60, 16: 120, 32: 240, 64: 480}
"""Mb/s of a lane in hundreds by GT/s, as NCCL counts them: 16 lanes of 8 GT/s are 12 GB/s."""
_INTEL = ((207, 40.0), (143, 22.0), (85, 10.0), (0, 6.0))
"""GB/s between two Intel CPUs from a model on (`ERP`, `SRP`, `SKL`, `BDW_QPI_BW`)."""
_SWITCH = "nvswitch"
_NO_TARGET = re.compile(r"f+:ff:ff\.[0-9a-f]")


@dataclass
class _Gpu:
    """A GPU of the file: where it stands, what it is joined to by NVLink."""

    element: Element
    busid: str
    parent: str
    pcie: tuple[str, str]
    cpu: str
    rank: int | None = None
    dev: int | None = None
    capability: int | None = None
    nvlinks: list[Element] = field(default_factory=list)


def is_nccl(text: bytes) -> bool:
    """Whether a file looks like XML."""
    return text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def read(text: bytes, file: str, assumed: Assumed) -> Node:
    """The node that an NCCL topology describes. Raises `InputError` listing every problem."""
    root = parse(text, file, HELP)
    if root.tag != "system":
        message = f"<{root.tag}> is not a topology of NCCL"
        raise InputError([Problem(file, f"line {root.line}", message, "<system>")])
    return _Reader(file, assumed).node(root)


@dataclass
class _Reader:
    file: str
    assumed: Assumed
    found: Node = field(default_factory=lambda: Node("topology of NCCL"))
    gpus: list[_Gpu] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    near: set[str] = field(default_factory=set)
    """Network cards that share a PCIe switch with a GPU."""

    def node(self, root: Element) -> Node:
        cpus = [self._cpu(cpu, place) for place, cpu in enumerate(root.each("cpu"))]
        if not self.gpus:
            self._refuse(root, "has no GPU", "<gpu> elements, or PCI devices of class 0x03")
        self._stop()
        names = self._ordered()
        for gpu, name in zip(self.gpus, names, strict=True):
            self.found.npus.append(name)
            latency = self.assumed.latency("pcie")
            self._link(name, gpu.parent, *gpu.pcie, latency, "pcie")
        self._nvlinks(dict(zip((gpu.busid for gpu in self.gpus), names, strict=True)))
        self._between(cpus, root)
        far = [port.name for port in self.found.ports if port.name not in self.near]
        self.found.far = far if self.near else []
        self._stop()
        return self.found

    def _cpu(self, cpu: Element, place: int) -> str:
        name = f"cpu{place}"
        self.found.switches[name] = 2
        for element in cpu.inside:
            self._below(element, name, name, False)
        return name

    def _below(self, element: Element, parent: str, cpu: str, bridged: bool) -> None:
        """A PCI device and all below it, joined to `parent`."""
        if element.tag == "nic":
            self._nic(element, parent, self._pcie(element), bridged)
        if element.tag != "pci":
            return
        kind, busid = element.attributes.get("class", ""), element.attributes.get("busid", "")
        gpu, nics = next(element.each("gpu"), None), list(element.each("nic"))
        if gpu is not None or (kind.startswith("0x03") and not element.inside):
            self._gpu(element, gpu, busid.lower(), parent, cpu)
        for nic in nics:
            self._nic(nic, parent, self._pcie(element), bridged)
        if kind.startswith("0x02") and not element.inside:
            self._card(f"nic-{busid}", self.assumed.card(self._age()), parent, element, bridged)
        inside = [each for each in element.inside if each.tag == "pci"]
        if inside:
            self._bridge(element, inside, busid, parent, cpu, bridged)

    def _bridge(
        self,
        element: Element,
        inside: list[Element],
        busid: str,
        parent: str,
        cpu: str,
        bridged: bool,
    ) -> None:
        """A PCIe switch; one with a single device below it is no more than a piece of wire."""
        if len(inside) == 1:
            self._below(inside[0], parent, cpu, bridged)
            return
        name = f"pcie-{busid or element.line}"
        if name in self.found.switches:
            self._refuse(element, f"two PCI devices are at {busid!r}", "each address once")
            return
        self.found.switches[name] = 1
        gpus, cards = len(self.gpus), len(self.found.ports)
        for each in inside:
            self._below(each, name, cpu, True)
        if len(self.gpus) > gpus:
            self.near |= {port.name for port in self.found.ports[cards:]}
        self._link(name, parent, *self._pcie(element), self.assumed.latency("pcie"), "pcie")

    def _gpu(self, pci: Element, gpu: Element | None, busid: str, parent: str, cpu: str) -> None:
        found = _Gpu(pci, busid, parent, ("", ""), cpu)
        if gpu is not None:
            found.rank, found.dev = self._whole(gpu, "rank"), self._whole(gpu, "dev")
            found.capability = self._whole(gpu, "sm")
            found.nvlinks = list(gpu.each("nvlink"))
        found.capability = found.capability or self.assumed.capability
        if any(each.busid == busid for each in self.gpus):
            self._refuse(pci, f"two PCI devices are at {busid!r}", "each address once")
            return
        found.pcie = self._pcie(pci)
        self.gpus.append(found)

    def _nic(self, nic: Element, parent: str, pcie: tuple[str, str], bridged: bool) -> None:
        for net in nic.each("net"):
            name = net.attributes.get("name") or f"net{net.attributes.get('dev', '')}"
            speed = self._whole(net, "speed")
            known = (f"{speed / 8000:g} GB/s", "") if speed else self.assumed.card(self._age())
            self._card(name, known, parent, net, bridged, pcie)

    def _card(
        self,
        name: str,
        speed: tuple[str, str],
        parent: str,
        element: Element,
        bridged: bool,
        pcie: tuple[str, str] | None = None,
    ) -> None:
        if name in self.found.switches:
            self._refuse(element, f"two network cards are called {name!r}", "each name once")
            return
        self.found.switches[name] = 3
        self.found.ports.append(Port(name, *speed))
        joined = pcie or self._pcie(element)
        self._link(name, parent, *joined, self.assumed.latency("pcie"), "pcie")

    def _age(self) -> int | None:
        return next(
            (gpu.capability for gpu in self.gpus if gpu.capability), self.assumed.capability
        )

    def _pcie(self, element: Element) -> tuple[str, str]:
        """What the PCIe link of a device carries, and a note where that is assumed."""
        said = element.attributes.get("link_speed", "")
        width = self._whole(element, "link_width") or 0
        found = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", said)
        lane = _LANES.get(float(found[1])) if found else None
        if lane is None or not 0 < width <= 32:
            return self.assumed.pcie(self._age() or 80)
        return f"{width * lane / 80:g} GB/s", ""

    def _ordered(self) -> list[str]:
        """Sorts the GPUs by rank or device where that says one order; their names."""
        for key in ("rank", "dev"):
            values = [getattr(gpu, key) for gpu in self.gpus]
            if None not in values and len(set(values)) == len(values):
                self.gpus.sort(key=attrgetter(key))
                break
        return [f"gpu{place}" for place in range(len(self.gpus))]

    def _nvlinks(self, names: dict[str, str]) -> None:
        pairs: dict[tuple[str, str], tuple[int, int]] = {}
        missing = 0
        for gpu in self.gpus:
            name, switched = names[gpu.busid], 0
            for nvlink in gpu.nvlinks:
                count = self._whole(nvlink, "count")
                if count is None or not 0 < count <= 64:
                    self._refuse(nvlink, f"count is {nvlink.attributes.get('count')!r}", "1 to 64")
                    continue
                target = nvlink.attributes.get("target", "").lower()
                kind = nvlink.attributes.get("tclass", "")
                if target in names and target != gpu.busid:
                    ends = (min(name, names[target]), max(name, names[target]))
                    known = pairs.get(ends, (0, 0))[0]
                    pairs[ends] = (max(known, count), gpu.capability or 80)
                elif kind.startswith("0x0680") or _NO_TARGET.fullmatch(target):
                    switched += count
                elif kind.startswith("0x06"):
                    pairs[name, gpu.cpu] = (count, gpu.capability or 80)
                else:
                    missing += count
            if switched:
                self.found.switches[_SWITCH] = 1
                self._nvlink(name, _SWITCH, switched, gpu.capability or 80)
        for (one, other), (count, capability) in sorted(pairs.items()):
            self._nvlink(one, other, count, capability)
        if missing:
            self.found.remarks.append(
                f"{missing} NVLinks lead to devices that are not in the file."
            )
        if not pairs and _SWITCH not in self.found.switches:
            self.found.remarks.append(
                "The file names no NVLinks. Files made for NCCL_TOPO_FILE leave them out; what "
                "NCCL writes to NCCL_TOPO_DUMP_FILE has them."
            )

    def _nvlink(self, one: str, other: str, count: int, capability: int) -> None:
        bandwidth, note = self.assumed.nvlink(capability, count)
        self._link(one, other, bandwidth, note, self.assumed.latency("nvlink"), "nvlink")

    def _between(self, cpus: list[str], root: Element) -> None:
        """CPUs are joined to each other."""
        models = [self._whole(cpu, "modelid") or 0 for cpu in root.each("cpu")]
        amd = any(cpu.attributes.get("vendor") == "AuthenticAMD" for cpu in root.each("cpu"))
        speed = 16.0 if amd else next(gb for model, gb in _INTEL if max(models, default=0) >= model)
        for i, one in enumerate(cpus):
            for other in cpus[:i]:
                between, note = self.assumed.cpu(speed, "NCCL's src/graph/topo.h, by CPU")
                self._link(other, one, between, note.strip(), self.assumed.latency("cpu"), "cpu")

    def _link(
        self, one: str, other: str, bandwidth: str, note: str, latency: str, kind: str
    ) -> None:
        self.found.links.append(Link(one, other, bandwidth, latency, kind, note.strip()))

    def _whole(self, element: Element, key: str) -> int | None:
        """A whole number; nothing where it is missing or below zero."""
        said = element.attributes.get(key)
        if said is None or said == "":
            return None
        if not re.fullmatch(r"-?\d{1,9}", said):
            self._refuse(element, f"{key} is {said[:40]!r}", "a whole number")
            return None
        return int(said) if int(said) >= 0 else None

    def _refuse(self, element: Element, message: str, allowed: str) -> None:
        place = f"line {element.line}: <{element.tag}>"
        self.problems.append(Problem(self.file, place, message, allowed))

    def _stop(self) -> None:
        if self.problems:
            raise InputError(self.problems)
