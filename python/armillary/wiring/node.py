"""One node of a cluster, or a whole fabric, as an importer found it: data only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Link:
    """A link both ways between two names. Each value has a note where it is assumed."""

    a: str
    b: str
    bandwidth: str
    latency: str
    kind: str
    note: str = ""


@dataclass(frozen=True)
class Port:
    """A network card by name, what it can send (a bandwidth), and a note where that is assumed."""

    name: str
    bandwidth: str
    note: str = ""


@dataclass
class Node:
    """NPUs by rank, switches with their tier, links, and the network cards among the switches.

    `far` are network cards that share no PCIe switch with a GPU, while others do. `source` says
    what was read, `remarks` what the reader left out or took for granted, `warnings` what may make
    the platform another machine.
    """

    source: str
    npus: list[str] = field(default_factory=list)
    switches: dict[str, int] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    far: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
