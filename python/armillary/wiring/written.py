"""The platform file of an imported network: plain YAML with a comment for each assumed value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from .assumed import Assumed
from .node import Link, Node


def platform_file(
    node: Node, name: str, made: str, assumed: Assumed, count: int, rails: bool
) -> str:
    """The text of a platform of `count` such nodes; `made` says how. With `rails`, the cards of one
    number are joined by a switch of their own, else all cards by one."""
    joined = _joined(node, assumed, count, rails) if count > 1 else node
    return "\n".join([*_head(node, name, made, assumed), *_body(joined, node, count), ""])


def _head(node: Node, name: str, made: str, assumed: Assumed) -> Iterator[str]:
    yield from _comment(f"{made}: {node.source}.")
    for remark in (*node.warnings, *node.remarks):
        yield from _comment(remark)
    if assumed.used:
        yield "# Assumed, since the file does not say it; --assume NAME=VALUE changes a value:"
        for key, (value, source) in assumed.used.items():
            yield from _comment(f"  {key} = {value}: {source}")
    yield f"name: {_quoted(name)}"
    yield f"source: {_quoted(node.source)}"


def _comment(text: str) -> Iterator[str]:
    """A comment of one line; names in it can't end the line."""
    yield "# " + "".join(letter if letter.isprintable() else "?" for letter in text)


def _joined(node: Node, assumed: Assumed, count: int, rails: bool) -> Node:
    """Nodes side by side, their cards joined by switches."""
    found = Node(node.source)
    latency = assumed.latency("cable")
    top = 1 + max(node.switches.values(), default=0)
    for number in range(count):
        before = f"n{number}."
        found.npus += [before + npu for npu in node.npus]
        found.switches.update({before + name: tier for name, tier in node.switches.items()})
        found.links += [
            Link(
                before + link.a, before + link.b, link.bandwidth, link.latency, link.kind, link.note
            )
            for link in node.links
        ]
    for place, port in enumerate(node.ports):
        switch = f"rail{place}" if rails else "network"
        found.switches[switch] = top
        found.links += [
            Link(f"n{number}.{port.name}", switch, port.bandwidth, latency, "network", port.note)
            for number in range(count)
        ]
    return found


def _body(joined: Node, node: Node, count: int) -> Iterator[str]:
    if count > 1:
        yield "# Collectives run within nodes, then between them."
        yield f"logical: [{len(node.npus)}, {count}]"
    yield "graph:"
    yield "  npus:"
    yield from (f"  - {_quoted(npu)}" for npu in joined.npus)
    if joined.switches:
        yield "  switches:"
        tiers = {tier: place for place, tier in enumerate(sorted(set(joined.switches.values())), 1)}
        for name, tier in joined.switches.items():
            yield f"  - {{name: {_quoted(name)}, tier: {tiers[tier]}}}"
    yield "  links:"
    for link in joined.links:
        yield f"  - {_mapping(link)}{_remark(link.note)}"


def _mapping(link: Link) -> str:
    keys: Sequence[tuple[str, Any]] = (
        ("between", f"[{_quoted(link.a)}, {_quoted(link.b)}]"),
        ("bandwidth", link.bandwidth),
        ("latency", link.latency),
        ("kind", _quoted(link.kind)),
    )
    return "{" + ", ".join(f"{key}: {value}" for key, value in keys) + "}"


def _remark(note: str) -> str:
    return f"  {next(_comment(note))}" if note else ""


def _quoted(text: str) -> str:
    """A text as YAML reads it back: a JSON string is one."""
    return json.dumps(text)
