"""Last step of every importer: it leaves out devices that no NPU's messages pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from .node import Node


def without_dead_ends(node: Node, kept: Collection[str] = ()) -> None:
    """Removes switches with one neighbour or none, again and again; those of `kept` stay."""
    near: dict[str, set[str]] = defaultdict(set)
    for link in node.links:
        near[link.a].add(link.b)
        near[link.b].add(link.a)
    left = [name for name in node.switches if len(near[name]) < 2 and name not in kept]
    while left:
        name = left.pop()
        if name not in node.switches:
            continue
        del node.switches[name]
        for other in near.pop(name, set()):
            near[other].discard(name)
            if other in node.switches and other not in kept and len(near[other]) < 2:
                left.append(other)
    there = {*node.npus, *node.switches}
    node.links = [link for link in node.links if link.a in there and link.b in there]


def without_cards(node: Node, unused: Collection[str]) -> None:
    """Removes network cards by name, and their links."""
    node.ports = [port for port in node.ports if port.name not in unused]
    node.switches = {name: tier for name, tier in node.switches.items() if name not in unused}
    node.links = [link for link in node.links if not {link.a, link.b} & set(unused)]
