"""A platform as a picture: an NPU, and from the inside out what each dimension of the network makes
of the one before.

Here: the SVG. A stacked network is a row of panels, each node of a panel being all of the panel
before it; a graph is its nodes and links. Not here: numbers beyond bandwidth, latency, memory and
counts (`run_page.py` has a table)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import cos, pi, sin

from ..blocks import BLOCKS
from ..units import GB, PS_PER_NS
from .page import Drawing
from .quantity import bandwidth, number, operations, size, time
from .reading import Dim, Link, Machine, Npu

_PANEL = 168
_HEIGHT = 236
_PANELS = 5
"""In a row; more go on below."""
_RADIUS = 58
_SHOWN = 8
"""Nodes drawn of a dimension that has more."""
_LARGEST = 64
"""Nodes of a graph up to which it is drawn: a larger picture would be unreadable."""
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_NODE, _LINE, _SWITCH = "#0072b2", "#8a8f98", "#e69f00"


def picture(machine: Machine) -> Drawing:
    """The platform of a report as a drawing called `platform`."""
    graph = "dims" not in machine["fabric"]
    svg = _graph(machine) if graph else _stacked(machine)
    title = f"{machine['name']}: {number(machine['npus'])} NPUs"
    note = "" if graph else "Each node of a dimension stands for everything to its left."
    return Drawing("platform", title, svg, note)


def _stacked(machine: Machine) -> str:
    dims = machine["fabric"]["dims"]
    panels = ["".join(_npu(machine["npu"])), *_panels(dims)]
    columns, rows = min(len(panels), _PANELS), -(-len(panels) // _PANELS)
    placed = [
        f'<g transform="translate({i % _PANELS * _PANEL},{i // _PANELS * _HEIGHT})">{panel}</g>'
        for i, panel in enumerate(panels)
    ]
    return _svg(columns * _PANEL, rows * _HEIGHT, "".join(placed))


def _panels(dims: Sequence[Dim]) -> Iterator[str]:
    """One a dimension, and how far its nodes are zoomed out."""
    npus = 1
    for place, dim in enumerate(dims, 1):
        npus *= dim["size"]
        yield "".join([*_zoom(), *_block(dim, place == 1), *_captions(dim, place, npus)])


def _npu(npu: Npu) -> Iterator[str]:
    yield _box(_PANEL / 2 - 34, 66, 68, 68, _NODE, 6)
    yield _text(_PANEL / 2, 105, "NPU", 15, "white", bold=True)
    yield _text(_PANEL / 2, 168, npu.get("name") or "NPU", 13, bold=True)
    peak, capacity, speed = (
        npu.get("peak_flops"),
        npu.get("memory_capacity_bytes"),
        npu.get("memory_bandwidth"),
    )
    lines = [f"{operations(peak)}/s" if peak else "", size(capacity) if capacity else ""]
    lines.append(f"{bandwidth(speed / GB)} memory" if speed else "")
    for i, line in enumerate(filter(None, lines)):
        yield _text(_PANEL / 2, 186 + 16 * i, line, 12)


def _zoom() -> Iterator[str]:
    """From the panel before to the first node of this one."""
    x, y = _spots(1)[0]
    for edge in (40, 160):
        yield _line(-14, edge, _PANEL / 2 + x - 8, 100 + y, "#d5d8dc", 1)


def _block(dim: Dim, innermost: bool) -> Iterator[str]:
    """Nodes and links of one dimension, at most `_SHOWN` of them."""
    count = min(dim["size"], _SHOWN)
    spots = [(_PANEL / 2 + x, 100 + y) for x, y in _spots(count)]
    hidden = count - 1 if dim["size"] > _SHOWN else -1
    """Where dots stand for the nodes that are not drawn."""
    yield from _links(dim["block"], spots)
    for i, (x, y) in enumerate(spots):
        if i == hidden:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="white"/>'
            yield _text(x, y + 4, "...", 15, bold=True)
        elif innermost:
            yield _box(x - 9, y - 9, 18, 18, _NODE, 3)
        else:
            yield _box(x - 11, y - 11, 22, 22, "white", 5, _NODE)
            yield from (
                _box(x - 6 + 7 * a, y - 6 + 7 * b, 5, 5, _NODE, 1) for a in (0, 1) for b in (0, 1)
            )


def _links(block: str, spots: Sequence[tuple[float, float]]) -> Iterator[str]:
    count = len(spots)
    how = BLOCKS[block]
    if how.paths == "switched":
        for x, y in spots:
            yield _line(_PANEL / 2, 100, x, y, _LINE, 2)
        yield _box(_PANEL / 2 - 17, 88, 34, 24, _SWITCH, 4)
    elif how.paths == "relayed":
        for i in range(count if count > 2 and how.closes else count - 1):
            yield _line(*spots[i], *spots[(i + 1) % count], _LINE, 2)
    else:
        for i in range(count):
            yield from (_line(*spots[i], *spots[j], _LINE, 1) for j in range(i))


def _captions(dim: Dim, place: int, npus: int) -> Iterator[str]:
    name = {"FullyConnected": "Fully connected"}.get(dim["block"], dim["block"])
    yield _text(_PANEL / 2, 24, f"{number(npus)} NPUs", 12)
    yield _text(_PANEL / 2, 186, f"{place}  {name}({number(dim['size'])})", 13, bold=True)
    yield _text(_PANEL / 2, 204, f"{bandwidth(dim['link_bandwidth'] / GB)} a link", 12)
    yield _text(_PANEL / 2, 220, time(dim["link_latency_ps"] / PS_PER_NS), 12)


def _spots(count: int) -> list[tuple[float, float]]:
    """Places on a circle from the left on, clockwise."""
    turn = [pi + 2 * pi * i / count for i in range(count)]
    return [(_RADIUS * cos(angle), _RADIUS * sin(angle)) for angle in turn]


def _graph(machine: Machine) -> str:
    fabric = machine["fabric"]
    nodes, links = fabric.get("nodes", []), fabric.get("links", [])
    if not nodes and "generator" in fabric:
        cables = sum(each["cables"] for each in fabric["cables"])
        text = (
            f"{fabric['generator']}: {number(machine['npus'])} NPUs, "
            f"{number(fabric['switches'])} switches and {number(cables)} cables"
        )
        return _svg(560, 40, _text(8, 25, text, 14, anchor="start"))
    npus = min(machine["npus"], len(nodes))
    if not nodes or len(nodes) > _LARGEST or _beyond(links, len(nodes)):
        switches = len(nodes) - npus
        text = (
            f"a graph of {number(npus)} NPUs, {number(switches)} switches and "
            f"{number(len(links))} links"
        )
        return _svg(560, 40, _text(8, 25, text, 14, anchor="start"))
    tiers = fabric.get("tiers")
    if tiers and max(tiers) > 0 and len(tiers) == len(nodes):
        width, height, at = _in_rows(tiers)
    else:
        radius = 110 if len(nodes) <= 16 else 190
        width, height = 2 * radius + 160, 2 * radius + 110
        at = _around(npus, radius, width, height) + _around(
            len(nodes) - npus, radius / 2.4, width, height
        )
    parts = [
        *_graph_links(links, at),
        *_graph_nodes(nodes, npus, at),
        *_graph_captions(links, width, height),
    ]
    return _svg(width, height, "".join(parts))


def _beyond(links: Sequence[Link], nodes: int) -> bool:
    """Whether a link ends at a node that is not there."""
    return any(not (0 <= link["from"] < nodes and 0 <= link["to"] < nodes) for link in links)


def _around(count: int, radius: float, width: float, height: float) -> list[tuple[float, float]]:
    if count == 1:
        radius = 0
    turn = [pi + 2 * pi * i / max(count, 1) for i in range(count)]
    return [(width / 2 + radius * cos(a), (height - 40) / 2 + radius * sin(a)) for a in turn]


def _in_rows(tiers: Sequence[int]) -> tuple[float, float, list[tuple[float, float]]]:
    """Width, height and places of nodes: NPUs in the lowest row, each tier above the one before."""
    rows = [tiers.count(tier) for tier in range(max(tiers) + 1)]
    width, height = max(160.0, 56.0 * max(rows)), 90.0 * len(rows) + 60
    seen = [0] * len(rows)
    places = []
    for tier in tiers:
        step = width / rows[tier]
        places.append((step * (seen[tier] + 0.5), 90.0 * (len(rows) - tier) - 40))
        seen[tier] += 1
    return width, height, places


def _graph_links(links: Sequence[Link], at: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Both directions of a link are one line, as wide as the links of its ends together are
    fast."""
    totals: dict[tuple[int, int], float] = {}
    for link in links:
        ends = (min(link["from"], link["to"]), max(link["from"], link["to"]))
        totals[ends] = totals.get(ends, 0.0) + link["bandwidth"]
    most = max(totals.values(), default=1.0)
    for (a, b), total in totals.items():
        yield _line(*at[a], *at[b], _LINE, 1 + 3 * total / most)


def _graph_nodes(
    nodes: Sequence[str], npus: int, at: Sequence[tuple[float, float]]
) -> Iterator[str]:
    for i, (name, (x, y)) in enumerate(zip(nodes, at, strict=True)):
        yield _box(x - 24, y - 11, 48, 22, _NODE if i < npus else _SWITCH, 4)
        yield _text(
            x,
            y + 4,
            name if len(name) <= 8 else f"{name[:7]}.",
            11,
            "white" if i < npus else "black",
        )


def _graph_captions(links: Sequence[Link], width: float, height: float) -> Iterator[str]:
    speeds = sorted({link["bandwidth"] / GB for link in links}, reverse=True)
    delays = sorted({link["latency_ps"] / PS_PER_NS for link in links})
    if links:
        yield _text(width / 2, height - 28, f"links of {_span([bandwidth(s) for s in speeds])}", 12)
        yield _text(width / 2, height - 12, f"latency {_span([time(d) for d in delays])}", 12)


def _span(words: Sequence[str]) -> str:
    return ", ".join(words) if len(words) <= 3 else f"{words[0]} to {words[-1]}"


def _svg(width: float, height: float, body: str) -> str:
    view = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    frame = f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="{_FONT}">{frame}{body}</svg>'
    )


def _box(
    x: float, y: float, width: float, height: float, fill: str, round_: int, edge: str = "none"
) -> str:
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_}"'
    return f'<rect {shape} fill="{fill}" stroke="{edge}" stroke-width="1.5"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:.1f}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    points: int,
    colour: str = "#1d1d1f",
    bold: bool = False,
    anchor: str = "middle",
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{points}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}"{weight}>{escape(text)}</text>'
