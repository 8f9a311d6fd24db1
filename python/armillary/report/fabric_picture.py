"""The fabric of a platform as a picture: its nodes and links, small enough to read, and after a run
the load of the links.

Here: looks, hover texts, captions and legend. Not here: which nodes are drawn as one
(`crates/topology/src/sketch`), where things stand (`fabric_layout.py`, `fabric_lattice.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..schema import Picture, PictureCable, PictureCell, PictureSort
from ..units import counted
from . import load_colours
from .fabric_lattice import in_groups, on_circle, on_grid
from .fabric_layout import Box, Layout, in_tiers
from .quantity import bandwidth, number, share, size, time
from .svg import INK, NPU, PAPER, SWITCH, box, document, said_text, text, titled

_LAYOUTS = {"tiers": in_tiers, "grid": on_grid, "groups": in_groups, "circle": on_circle}
_MARGIN = 116.0
"""Room at the left for the names of tiers."""
_MANY = 90
"""Strokes from which on they are thinner."""
_DASHES = "5 3"
"""Strokes of links that have failed."""
_CAPTIONS = 6
"""Sorts of links that are listed below a picture."""


def draw(
    picture: Picture, title: str, step_ns: float | None = None, bin_ns: float | None = None
) -> str:
    """The picture as SVG. `step_ns` is the step that the load of links is a share of, if they have
    a load, and `bin_ns` the width of the bins of their load over time."""
    laid = _LAYOUTS[picture["layout"]](picture)
    loaded = bool(step_ns) and any(cable["busy_ns"] is not None for cable in picture["cables"])
    step = step_ns if loaded else None
    captions = _captions(picture)
    left = _MARGIN if laid.rows else 24.0
    needed = max(
        [7.0 * len(line) for line in captions] + [load_colours.LEGEND_WIDTH if loaded else 0]
    )
    width = max(left + laid.width + 24, needed + 48)
    if not laid.rows:
        left = max(left, (width - laid.width) / 2)
    timed = load_colours.timed(step, bin_ns) if step and bin_ns else ""
    body = [
        f'<g transform="translate({left:.1f},0)"{timed}>',
        *_frames(laid),
        *_strokes(picture, laid, step),
    ]
    body += [*_boxes(picture, laid), "</g>", *_rows(picture, laid)]
    y = laid.height + 22
    for line in captions:
        body.append(text(24, y, line, 12, INK, anchor="start"))
        y += 17
    if loaded:
        body += load_colours.legend(24, y + 4)
        y += 24
    said = f"{_summary(picture)} {' '.join(f'{line}.' for line in captions)}"
    return document(width, y + 4, "".join(body), title, said)


def _summary(picture: Picture) -> str:
    tiers: dict[int, int] = {}
    for cell in picture["cells"]:
        tiers[cell["tier"]] = tiers.get(cell["tier"], 0) + cell["count"]
    switches = sum(count for tier, count in tiers.items() if tier > 0)
    return f"{counted(tiers.get(0, 0), 'NPU')} and {counted(switches, 'switch')}."


def _frames(laid: Layout) -> Iterator[str]:
    for left, top, width, height, name in laid.frames:
        yield box(left, top, width, height, "none", 6, "#d5d8dc", 1)
        yield text(left + 6, top - 4, name, 11, INK, anchor="start")


def _strokes(picture: Picture, laid: Layout, step: float | None) -> Iterator[str]:
    """The quiet links first, so that none hides a busier one."""
    cables = picture["cables"]
    most = max((cable["fastest_gb_per_s"] for cable in cables), default=1.0)
    thin, thick = (0.8, 1.7) if len(laid.strokes) <= _MANY else (0.6, 0.8)
    drawn = []
    for stroke in laid.strokes:
        found = [cables[i] for i in stroke.cables]
        busiest = max(found, key=lambda cable: cable["busy_ns"] or 0.0)
        part = None if step is None else (busiest["busy_ns"] or 0.0) / step
        width = thin + thick * max(cable["fastest_gb_per_s"] for cable in found) / most
        title = _hover(picture, found, busiest, step)
        gone = all(cable["failed"] == cable["links"] for cable in found)
        colour = load_colours.FAILED if gone else load_colours.colour(part)
        dashes = f' stroke-dasharray="{_DASHES}"' if any(cable["failed"] for cable in found) else ""
        over_time = (
            ""
            if gone or step is None
            else load_colours.over_time([cable["sends"] for cable in found])
        )
        path = (
            f'<path d="{stroke.path}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:.1f}"{dashes}{over_time}><title>{title}</title></path>'
        )
        drawn.append((part or 0.0, path))
    drawn.sort(key=lambda each: each[0])
    yield from (path for _, path in drawn)


def _hover(
    picture: Picture, found: Sequence[PictureCable], busiest: PictureCable, step: float | None
) -> str:
    """Text that a reader sees when pointing at links."""
    ends = [_name(picture["cells"][busiest[end]]) for end in ("a", "b")]
    said = f"{ends[0]} - {ends[1]}" if ends[0] != ends[1] else f"inside {ends[0]}"
    if len(found) > 1:
        said = f"{said} and {number(len(found) - 1)} more"
    links = sum(cable["links"] for cable in found)
    said += f": {counted(links, 'one-way link')} of {_speed(found)}"
    if failed := sum(cable["failed"] for cable in found):
        said += f", {number(failed)} failed"
    if step is not None:
        busy = busiest["busy_ns"] or 0.0
        which = "the busiest sends" if links > 1 else "sends"
        said += f"; {which} for {time(busy)}, {share(busy / step)} of the step"
        said += f", at most {size(max(cable['bytes'] or 0 for cable in found))}"
    return said_text(said)


def _speed(found: Sequence[PictureCable] | Sequence[PictureSort]) -> str:
    slow = bandwidth(min(cable["slowest_gb_per_s"] for cable in found))
    fast = bandwidth(max(cable["fastest_gb_per_s"] for cable in found))
    near = time(min(cable["least_latency_ns"] for cable in found))
    far = time(max(cable["most_latency_ns"] for cable in found))
    speeds = fast if slow == fast else f"{slow} to {fast}"
    return f"{speeds}, {far}" if near == far else f"{speeds}, {near} to {far}"


def _name(cell: PictureCell) -> str:
    if cell["count"] == 1:
        return cell["name"]
    return f"{cell['name']} to {cell['last']} ({number(cell['count'])})"


def _boxes(picture: Picture, laid: Layout) -> Iterator[str]:
    for cell, spot in zip(picture["cells"], laid.boxes, strict=True):
        failed = f", {number(cell['failed'])} failed" if cell["failed"] else ""
        yield titled("".join(_box(cell, spot)), _name(cell) + failed)


def _box(cell: PictureCell, spot: Box) -> Iterator[str]:
    fill = NPU if cell["tier"] == 0 else SWITCH
    left, top = spot.x - spot.width / 2, spot.y - spot.height / 2
    round_ = min(4.0, spot.width / 4)
    if cell["count"] > 1:
        # A second edge: several nodes behind one another.
        yield box(left + 3, top - 3, spot.width, spot.height, PAPER, round_, fill, 1)
    if cell["failed"] == cell["count"]:
        fill = load_colours.FAILED
    yield box(left, top, spot.width, spot.height, fill, round_, PAPER, 1)
    if spot.named:
        said = f"x {number(cell['count'])}" if cell["count"] > 1 else cell["name"]
        yield text(spot.x, spot.y + 3.5, _short(said, int(spot.width / 5.6)), 10, PAPER)


def _short(name: str, room: int) -> str:
    """The name, or its beginning and its number."""
    while len(name) > room and re.match(r"\w+\.\D", name):
        name = name.split(".", 1)[1]
    if len(name) <= room:
        return name
    digits = re.search(r"\d*$", name)
    tail = f".{digits[0]}" if digits else "."
    return f"{name[: max(room - len(tail), 0)]}{tail}"[:room]


def _rows(picture: Picture, laid: Layout) -> Iterator[str]:
    """Names and numbers of tiers, at the left."""
    for y, found in laid.rows:
        cells = [picture["cells"][cell] for cell in found]
        count = sum(cell["count"] for cell in cells)
        yield text(24, y - 1, _sort(cells), 12, INK, True, "start")
        yield text(24, y + 14, number(count), 12, INK, anchor="start")


def _sort(cells: Sequence[PictureCell]) -> str:
    """Common name of the nodes of a tier, without numbers."""
    if cells[0]["tier"] == 0:
        return "NPUs"
    words = {
        " ".join(re.findall(r"[^\W\d_]{3,}", each[end]))
        for each in cells
        for end in ("name", "last")
    }
    found = words.pop() if len(words) == 1 else ""
    return found[-14:] if found else f"tier {cells[0]['tier']}"


def _captions(picture: Picture) -> list[str]:
    """One line for each sort of links: number, speed, latency."""
    sorts = picture["sorts"]
    lines = [
        f"{sort['name']}: {counted(sort['links'], 'one-way link')} of {_speed([sort])}"
        for sort in sorts[:_CAPTIONS]
    ]
    if len(sorts) > _CAPTIONS:
        lines.append(f"{counted(len(sorts) - _CAPTIONS, 'further sort')} of links")
    if any(cell["count"] > 1 for cell in picture["cells"]):
        lines.append("A double box stands for several nodes, its lines for the links of all")
    if any(cable["failed"] for cable in picture["cables"]):
        lines.append("Dashed links and magenta nodes have failed")
    return lines
