"""Where the nodes and links of a fabric stand in its picture, tier by tier.

Here: what a layout is, and that of fabrics with tiers: NPUs lowest, every group of the tree below
what joins it. Not here: grids and circles (`fabric_lattice.py`), looks (`fabric_picture.py`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..schema import Picture, PictureCable, PictureCell

WIDEST = 960.0
"""Width of the part with nodes, in pixels."""
SMALL, NAMED = 14.0, 52.0
"""Width of a box without a name, and with a name."""
HEIGHT = 22.0
_GAP = 6.0
_ROW = 96.0


@dataclass(frozen=True)
class Box:
    """A node's box: its middle, its size, and whether it has room for a name."""

    x: float
    y: float
    width: float
    height: float
    named: bool


@dataclass(frozen=True)
class Stroke:
    """A path of SVG, and the cables that it stands for."""

    path: str
    cables: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A picture laid out: one box for each cell, the strokes for all cables, frames (left, top,
    width, height, name) around boxes that belong together, and names at the left of rows (height,
    cells of the row)."""

    width: float
    height: float
    boxes: Sequence[Box]
    strokes: Sequence[Stroke]
    frames: Sequence[tuple[float, float, float, float, str]] = ()
    rows: Sequence[tuple[float, Sequence[int]]] = ()


@dataclass
class _Group:
    """Connected cells below a tier: groups inside, and the cells of its own for each tier."""

    inside: dict[int, _Group] = field(default_factory=dict)
    own: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


def size_of(cell: PictureCell, named: bool) -> tuple[float, float]:
    """Width and height of the box of a cell."""
    if cell["count"] > 1:
        return 20.0 + 5.6 * len(f"{cell['count']:,}"), HEIGHT
    return (NAMED, HEIGHT) if named else (SMALL, SMALL)


def in_tiers(picture: Picture) -> Layout:
    """The layout of a fabric with tiers."""
    cells = picture["cells"]
    root, by_tier = _Group(), defaultdict(list)
    for index, cell in enumerate(cells):
        group = root
        for at in cell["at"]:
            group = group.inside.setdefault(at, _Group())
        group.own[cell["tier"]].append(index)
        by_tier[cell["tier"]].append(index)
    named = {tier: (NAMED + _GAP) * len(found) <= WIDEST for tier, found in by_tier.items()}
    widths = [size_of(cell, named[cell["tier"]])[0] for cell in cells]
    natural = _wide(root, widths)
    left = _Placing(widths, {})
    left.place(root, 0.0, natural)
    factor = min(1.0, WIDEST / natural)
    width = natural * factor
    ranks = {tier: place for place, tier in enumerate(sorted(by_tier))}
    level = {cells[cable["a"]]["tier"] for cable in picture["cables"] if _is_level(picture, cable)}
    top = max(ranks, default=0)
    bottom = (80 if top > 0 and top in level else 30) + _ROW * (len(ranks) - 1)
    boxes = []
    for index, cell in enumerate(cells):
        wide, high = size_of(cell, named[cell["tier"]])
        y = bottom - _ROW * ranks[cell["tier"]]
        shown = named[cell["tier"]] or cell["count"] > 1
        wide = wide if shown else max(3.0, wide * factor)
        boxes.append(Box(left.at[index] * factor, y, wide, high, shown))
    rows = [(bottom - _ROW * place, by_tier[tier]) for tier, place in ranks.items()]
    strokes = [
        Stroke(_path(picture, boxes, cable["a"], cable["b"], len(ranks) - 1), (i,))
        for i, cable in enumerate(picture["cables"])
    ]
    return Layout(width, bottom + (70 if 0 in level else 24), boxes, strokes, (), rows)


def _wide(group: _Group, widths: Sequence[float]) -> float:
    """Width of a group: that of the groups inside, or of its widest own row."""
    inside = [_wide(each, widths) for each in group.inside.values()]
    rows = [sum(widths[cell] + _GAP for cell in own) for own in group.own.values()]
    between = (
        2 * _GAP * (len(inside) - 1) if any(each.inside for each in group.inside.values()) else 0
    )
    return max([sum(inside) + between, *rows, SMALL])


@dataclass
class _Placing:
    """Places the cells of a group and of all groups inside over the room it has."""

    widths: Sequence[float]
    at: dict[int, float]

    def place(self, group: _Group, left: float, room: float) -> None:
        for own in group.own.values():
            self._row(own, left, room)
        inside = [group.inside[key] for key in sorted(group.inside)]
        needs = [_wide(each, self.widths) for each in inside]
        spare = (room - sum(needs)) / len(inside) if inside else 0.0
        for each, need in zip(inside, needs, strict=True):
            self.place(each, left + spare / 2, need)
            left += need + spare

    def _row(self, own: Sequence[int], left: float, room: float) -> None:
        spare = (room - sum(self.widths[cell] for cell in own)) / len(own)
        for cell in own:
            self.at[cell] = left + (spare + self.widths[cell]) / 2
            left += spare + self.widths[cell]


def _is_level(picture: Picture, cable: PictureCable) -> bool:
    """Whether a cable stays in its row."""
    cells, a, b = picture["cells"], cable["a"], cable["b"]
    return a != b and cells[a]["tier"] == cells[b]["tier"]


def _path(picture: Picture, boxes: Sequence[Box], a: int, b: int, top: int) -> str:
    """From the upper edge of the lower box to the lower edge of the upper one; an arc within a row;
    around a cell whose nodes are joined to each other."""
    if a == b:
        return outline(boxes[a])
    cells = picture["cells"]
    low, high = sorted((a, b), key=lambda cell: -boxes[cell].y)
    one, other = boxes[low], boxes[high]
    if one.y != other.y:
        start, end = one.y - one.height / 2, other.y + other.height / 2
        return f"M{one.x:.1f} {start:.1f}L{other.x:.1f} {end:.1f}"
    down = cells[a]["tier"] < max(top, 1)
    sign = 1 if down else -1
    start = one.y + sign * one.height / 2
    deep = start + sign * min(52.0, 12 + abs(one.x - other.x) * 0.22)
    return bow(one.x, start, other.x, start, (one.x + other.x) / 2, 2 * deep - start)


def bow(x1: float, y1: float, x2: float, y2: float, x: float, y: float) -> str:
    """A curve from end to end, drawn towards a point."""
    return f"M{x1:.1f} {y1:.1f}Q{x:.1f} {y:.1f} {x2:.1f} {y2:.1f}"


def outline(box: Box) -> str:
    """A path just outside of a box."""
    x, y = box.x - box.width / 2 - 2.5, box.y - box.height / 2 - 2.5
    wide, high = box.width + 5, box.height + 5
    return f"M{x:.1f} {y:.1f}h{wide:.1f}v{high:.1f}h{-wide:.1f}z"
