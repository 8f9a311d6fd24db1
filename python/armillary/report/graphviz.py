"""A fabric as a file for Graphviz: every node by its name, in tiers, every cable with its speed.

Plain text in the DOT language (https://graphviz.org/doc/info/lang.html). Names stand in quotes with
what DOT reads in them escaped, so that any name is taken as it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import GB, PS_PER_NS
from .escapes import visible
from .quantity import bandwidth, number, time
from .svg import LINE, NPU, PAPER, SWITCH


def dot(name: str, wiring: Mapping[str, Any]) -> str:
    """The DOT file of a network called `name`, of what `Platform.wiring` says."""
    return "\n".join([*_head(name), *_nodes(wiring["nodes"]), *_cables(wiring), "}", ""])


def _head(name: str) -> Iterator[str]:
    yield f"graph {quoted(name)} {{"
    yield "  graph [rankdir=BT, ranksep=1.2];"
    yield '  node [shape=box, style="rounded,filled", fontname="Arial", fontsize=11,'
    yield f'        color="{PAPER}", fontcolor="{PAPER}", fillcolor="{SWITCH}"];'
    yield f'  edge [fontname="Arial", fontsize=9, color="{LINE}"];'


def _nodes(nodes: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Nodes of a tier share a rank."""
    tiers: dict[int, list[str]] = defaultdict(list)
    for name, tier in nodes:
        tiers[tier].append(quoted(name))
    for tier, names in sorted(tiers.items()):
        yield f"  subgraph {quoted(f'tier {tier}')} {{"
        yield "    rank=same;"
        if tier == 0:
            yield f'    node [fillcolor="{NPU}"];'
        yield from (f"    {name};" for name in names)
        yield "  }"


def _cables(wiring: Mapping[str, Any]) -> Iterator[str]:
    names = [quoted(name) for name, _ in wiring["nodes"]]
    cables = wiring["cables"]
    most = max((cable["bandwidth"] for cable in cables), default=1.0) or 1.0
    for cable in cables:
        forth, back = cable["forth"], cable["back"]
        links = max(forth, back)
        speed = bandwidth(cable["bandwidth"] / GB)
        label = speed if links == 1 else f"{number(links)} x {speed}"
        said = [time(cable["latency_ps"] / PS_PER_NS), cable["kind"]]
        attributes = {
            "label": quoted(label),
            "tooltip": quoted(", ".join(filter(None, said))),
            "penwidth": f"{0.6 + 2.4 * cable['bandwidth'] / most:.2f}",
        }
        if not forth or not back:
            attributes["dir"] = "forward" if forth else "back"
        elif forth != back:
            attributes["label"] = quoted(f"{number(forth)} and {number(back)} x {speed}")
        written = ", ".join(f"{key}={value}" for key, value in attributes.items())
        one, other = cable["ends"]
        yield f"  {names[one]} -- {names[other]} [{written}];"


def quoted(name: str) -> str:
    """A name as DOT reads it back."""
    shown = visible(name).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{shown}"'
