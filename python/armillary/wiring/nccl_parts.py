"""Shared parts of the readers of NCCL's topology: the state, and the allowed elements."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from .assumed import Assumed
from .node import Link, Node
from .xml import Element

_INSIDE = {
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "pcilink"),
    "gpu": ("nvlink", "xgmi", "c2c"),
    "nic": ("net", "gin", "rma"),
}
"""Children and attributes that each element may have: NCCL's and RCCL's `src/graph/xml.cc`."""
_IDENTITY = "busid class vendor device subsystem_vendor subsystem_device"
_ATTRIBUTES = {
    "pci": f"{_IDENTITY} link_speed link_width",
    "gpu": "dev sm rank gdr mlopart gcn arch cudacompcap",
    "nvlink": "target count tclass",
    "xgmi": "target count tclass",
    "c2c": "bw count",
    "pcilink": "target",
    "cpu": "host_hash numaid affinity affinity_offset arch vendor familyid modelid",
}
"""Attributes of the elements that carry a link."""


@dataclass
class Gpu:
    """A GPU of the file: its place and its links.

    `host` distinguishes the hosts of one file, `gcn` is the architecture of an AMD GPU."""

    element: Element
    busid: str
    host: str
    parent: str
    cpu: str
    pcie: tuple[str, str]
    rank: int | None = None
    dev: int | None = None
    capability: int | None = None
    gcn: str = ""
    links: list[Element] = field(default_factory=list)
    """`nvlink` and `xgmi` elements of the GPU."""
    c2c: Element | None = None


@dataclass
class Reading:
    """A file that is being read: the node found so far, and every problem."""

    file: str
    assumed: Assumed
    found: Node
    problems: list[Problem] = field(default_factory=list)

    def link(self, ends: tuple[str, str], speed: tuple[str, str], latency: str, kind: str) -> None:
        """A link between two names. `speed` is a bandwidth and a note."""
        bandwidth, note = speed
        self.found.links.append(Link(*ends, bandwidth, latency, kind, note.strip()))

    def whole(self, element: Element, key: str) -> int | None:
        """A whole number; nothing where it is missing or below zero."""
        said = element.attributes.get(key)
        if said is None or said == "":
            return None
        if not re.fullmatch(r"-?\d{1,9}", said):
            self.refuse(element, f"{key} is {said[:40]!r}", "a whole number")
            return None
        return int(said) if int(said) >= 0 else None

    def refuse(self, element: Element, message: str, allowed: str) -> None:
        """Notes a problem at an element."""
        place = f"line {element.line}: <{element.tag}>"
        self.problems.append(Problem(self.file, place, message, allowed))

    def warn(self, text: str) -> None:
        """Notes what the user must see, once."""
        if text not in self.found.warnings:
            self.found.warnings.append(text)

    def stop(self) -> None:
        """Raises the problems that were noted."""
        if self.problems:
            raise InputError(self.problems)


def check_names(reading: Reading, root: Element) -> None:
    """Refuses elements that are not known, as they could be links, and warns of attributes."""
    allowed = _INSIDE.get(root.tag, ())
    for element in root.inside:
        if element.tag in allowed:
            check_names(reading, element)
            continue
        message = f"unknown element in <{root.tag}>"
        known = ", ".join(f"<{tag}>" for tag in allowed) or "nothing"
        reading.refuse(element, message, f"{known}; delete the element if it is not a link")
    known_here = _ATTRIBUTES.get(root.tag)
    for name in root.attributes if known_here else ():
        if name not in (known_here or "").split():
            reading.warn(f"The attribute {name} of <{root.tag}> is unknown and was not read.")
