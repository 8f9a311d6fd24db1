"""A platform as a picture: its fabric, or an NPU and from the inside out what each dimension of the
network makes of the one before.

Here: the panels of a stacked network, each node of a panel being all of the panel before it; which
platforms have them and which are drawn node by node (`fabric_picture.py`). Not here: numbers beyond
bandwidth, latency, memory and counts (`run_page.py` has a table)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import cos, pi, sin
from typing import Any

import msgspec

from ..blocks import BLOCKS
from ..schema import Picture
from ..units import GB, PS_PER_NS, counted
from . import fabric_picture, load_colours
from .page import Drawing
from .quantity import bandwidth, number, operations, share, size, time
from .reading import Dim, Machine, Npu
from .svg import NPU, SWITCH, box, document, line, text

_PANEL = 168
_HEIGHT = 244
_PANELS = 5
"""Panels in a row; more go on below."""
_RADIUS = 58
_SHOWN = 8
"""Nodes drawn of a dimension that has more."""


def picture(
    machine: Machine,
    drawn: Picture | None,
    step_ns: float | None = None,
    busy_ns: Sequence[float | None] = (),
    sends: Sequence[str | None] = (),
    bin_ns: float | None = None,
) -> Drawing:
    """The platform of a report as a drawing called `platform`. After a run of `step_ns` links have
    the colour of their load; `busy_ns` is that of the busiest link of each dimension, and
    `sends` the percent of each bin of `bin_ns` in which it was sending, where links are known."""
    title = f"{machine['name']}: {counted(machine['npus'], 'NPU')}"
    if drawn is not None:
        return Drawing("platform", title, fabric_picture.draw(drawn, title, step_ns, bin_ns))
    if "dims" not in machine["fabric"]:
        return Drawing("platform", title, _counted(machine))
    dims = len(machine["fabric"]["dims"])
    over_time = [load_colours.over_time([each]) for each in sends]
    timed = load_colours.timed(step_ns, bin_ns) if step_ns and bin_ns else ""
    svg = _stacked(
        machine,
        title,
        _shares(machine, step_ns, busy_ns),
        over_time if len(over_time) == dims else [""] * dims,
        timed,
    )
    return Drawing(
        "platform", title, svg, "Each node of a dimension stands for everything to its left."
    )


def of_platform(described: Mapping[str, Any], drawn: Mapping[str, Any] | None) -> str:
    """The SVG of a platform, from `Platform.describe()` and `Platform.picture()`."""
    machine = msgspec.convert(described, Machine)
    sketch = None if drawn is None else msgspec.convert(drawn, Picture)
    return picture(machine, sketch).svg()


def _shares(
    machine: Machine, step_ns: float | None, busy_ns: Sequence[float | None]
) -> list[float | None]:
    """Share of the step in which the busiest link of each dimension sends."""
    dims = machine["fabric"]["dims"]
    if not step_ns or len(busy_ns) != len(dims):
        return [None] * len(dims)
    return [None if busy is None else busy / step_ns for busy in busy_ns]


def _counted(machine: Machine) -> str:
    """A graph of a report without a picture, in words."""
    fabric = machine["fabric"]
    nodes, links = fabric.get("nodes", []), fabric.get("links", [])
    if not nodes and "generator" in fabric:
        cables = sum(each["cables"] for each in fabric["cables"])
        said = (
            f"{fabric['generator']}: {counted(machine['npus'], 'NPU')}, "
            f"{number(fabric['switches'])} switches and {number(cables)} cables"
        )
    else:
        npus = min(machine["npus"], len(nodes))
        said = (
            f"a graph of {counted(npus, 'NPU')}, {counted(len(nodes) - npus, 'switch')} and "
            f"{counted(len(links), 'link')}"
        )
    return document(560, 40, text(8, 25, said, 14, anchor="start"))


def _stacked(
    machine: Machine,
    title: str,
    shares: Sequence[float | None],
    over_time: Sequence[str],
    timed: str,
) -> str:
    dims = machine["fabric"]["dims"]
    panels = ["".join(_npu(machine["npu"])), *_panels(dims, shares, over_time)]
    columns, rows = min(len(panels), _PANELS), -(-len(panels) // _PANELS)
    placed = [f"<g{timed}>"] if timed else []
    placed += [
        f'<g transform="translate({i % _PANELS * _PANEL},{i // _PANELS * _HEIGHT})">{panel}</g>'
        for i, panel in enumerate(panels)
    ]
    placed += ["</g>"] if timed else []
    width, height = float(columns * _PANEL), float(rows * _HEIGHT)
    if any(part is not None for part in shares):
        placed += load_colours.legend(16, height + 14)
        width, height = max(width, load_colours.LEGEND_WIDTH + 32), height + 34
    stack = ", ".join(f"{dim['block']}({dim['size']})" for dim in dims)
    return document(width, height, "".join(placed), title, f"Dimensions from inside: {stack}.")


def _panels(
    dims: Sequence[Dim], shares: Sequence[float | None], over_time: Sequence[str]
) -> Iterator[str]:
    """One a dimension, and how far its nodes are zoomed out."""
    npus = 1
    for place, (dim, part, sends) in enumerate(zip(dims, shares, over_time, strict=True), 1):
        npus *= dim["size"]
        drawn = [*_zoom(), *_block(dim, place == 1, load_colours.colour(part), sends)]
        yield "".join([*drawn, *_captions(dim, place, npus, part)])


def _npu(npu: Npu) -> Iterator[str]:
    yield box(_PANEL / 2 - 34, 66, 68, 68, NPU, 6)
    yield text(_PANEL / 2, 105, "NPU", 15, "white", bold=True)
    yield text(_PANEL / 2, 168, npu.get("name") or "NPU", 13, bold=True)
    peak, capacity, speed = (
        npu.get("peak_flops"),
        npu.get("memory_capacity_bytes"),
        npu.get("memory_bandwidth"),
    )
    facts = [f"{operations(peak)}/s" if peak else "", size(capacity) if capacity else ""]
    facts.append(f"{bandwidth(speed / GB)} memory" if speed else "")
    for i, fact in enumerate(filter(None, facts)):
        yield text(_PANEL / 2, 186 + 16 * i, fact, 12)


def _zoom() -> Iterator[str]:
    """Line from the panel before to the first node of this one."""
    x, y = _spots(1)[0]
    for edge in (40, 160):
        yield line(-14, edge, _PANEL / 2 + x - 8, 100 + y, "#d5d8dc", 1)


def _block(dim: Dim, innermost: bool, colour: str, sends: str) -> Iterator[str]:
    """Nodes and links of one dimension, at most `_SHOWN` of them."""
    count = min(dim["size"], _SHOWN)
    spots = [(_PANEL / 2 + x, 100 + y) for x, y in _spots(count)]
    hidden = count - 1 if dim["size"] > _SHOWN else -1
    """Where dots stand for the nodes that are not drawn."""
    links = "".join(_links(dim["block"], spots, colour))
    yield f"<g{sends}>{links}</g>" if sends else links
    for i, (x, y) in enumerate(spots):
        if i == hidden:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="white"/>'
            yield text(x, y + 4, "...", 15, bold=True)
        elif innermost:
            yield box(x - 9, y - 9, 18, 18, NPU, 3)
        else:
            yield box(x - 11, y - 11, 22, 22, "white", 5, NPU)
            yield from (
                box(x - 6 + 7 * a, y - 6 + 7 * b, 5, 5, NPU, 1) for a in (0, 1) for b in (0, 1)
            )


def _links(block: str, spots: Sequence[tuple[float, float]], colour: str) -> Iterator[str]:
    count = len(spots)
    how = BLOCKS[block]
    if how.paths == "switched":
        for x, y in spots:
            yield line(_PANEL / 2, 100, x, y, colour, 2)
        yield box(_PANEL / 2 - 17, 88, 34, 24, SWITCH, 4)
    elif how.paths == "relayed":
        for i in range(count if count > 2 and how.closes else count - 1):
            yield line(*spots[i], *spots[(i + 1) % count], colour, 2)
    else:
        for i in range(count):
            yield from (line(*spots[i], *spots[j], colour, 1) for j in range(i))


def _captions(dim: Dim, place: int, npus: int, part: float | None) -> Iterator[str]:
    name = {"FullyConnected": "Fully connected"}.get(dim["block"], dim["block"])
    yield text(_PANEL / 2, 24, counted(npus, "NPU"), 12)
    yield text(_PANEL / 2, 186, f"{place}  {name}({number(dim['size'])})", 13, bold=True)
    yield text(_PANEL / 2, 204, f"{bandwidth(dim['link_bandwidth'] / GB)} a link", 12)
    yield text(_PANEL / 2, 220, time(dim["link_latency_ps"] / PS_PER_NS), 12)
    if part is not None:
        yield text(_PANEL / 2, 235, f"busiest link {share(part)}", 12)


def _spots(count: int) -> list[tuple[float, float]]:
    """Places on a circle from the left on, clockwise."""
    turn = [pi + 2 * pi * i / count for i in range(count)]
    return [(_RADIUS * cos(angle), _RADIUS * sin(angle)) for angle in turn]
