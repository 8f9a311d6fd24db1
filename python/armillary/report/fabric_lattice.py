"""Where the nodes and links of a fabric without tiers stand in its picture: on a grid, in slices of
one, in groups around a circle, or on a circle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import cos, hypot, pi, sin

from ..schema import Picture
from .fabric_layout import HEIGHT, SMALL, WIDEST, Box, Layout, Stroke, bow, outline

_SLICE_GAP = 44.0


def on_grid(picture: Picture) -> Layout:
    """Coordinate 1 from left to right, 2 from top to bottom, further ones in slices."""
    cells = picture["cells"]
    routers = any(cell["tier"] > 0 for cell in cells)
    columns, rows = (1 + max(cell["at"][dim] for cell in cells) for dim in (0, 1))
    slices = sorted({tuple(cell["at"][2:]) for cell in cells})
    shared = any(cell["count"] > 1 for cell in cells)
    pitch_x = 58.0 if shared or columns <= 6 else 40.0
    pitch_y = 64.0 if routers else 40.0
    # Slices stand side by side, drawn smaller if then all of them fit into one row.
    tight = (WIDEST / len(slices) - _SLICE_GAP) / columns
    pitch_x = min(pitch_x, max(tight, 30.0), (WIDEST - 60) / columns)
    wide, high = pitch_x * columns + _SLICE_GAP, pitch_y * rows + _SLICE_GAP
    abreast = max(1, min(len(slices), int(WIDEST // wide)))
    origin = {
        found: (i % abreast * wide + 22, i // abreast * high + 30) for i, found in enumerate(slices)
    }
    boxes = []
    for cell in cells:
        left, top = origin[tuple(cell["at"][2:])]
        x, y = left + pitch_x * (cell["at"][0] + 0.5), top + pitch_y * (cell["at"][1] + 0.5)
        boxes.append(_site(cell["tier"], cell["count"], x, y, routers, pitch_x))
    names = {found: _slice_name(picture, found) for found in slices}
    frames = [
        (left - 8, top - 8, wide - _SLICE_GAP + 16, high - _SLICE_GAP + 16, names[found])
        for found, (left, top) in origin.items()
        if len(slices) > 1
    ]
    height = -(-len(slices) // abreast) * high - _SLICE_GAP + 50
    strokes = [*_straight(picture, boxes), *_between_slices(picture, frames, slices)]
    return Layout(abreast * wide, height, boxes, strokes, frames)


def _slice_name(picture: Picture, at: Sequence[int]) -> str:
    """Name of the NPUs of a slice; `10 others` where the picture draws several slices as one."""
    corner = next(cell for cell in picture["cells"] if cell["at"] == [0, 0, *at])
    if corner["count"] > 1 and corner["tier"] == 0:
        return f"{corner['count']} slices"
    return f"slice of {corner['name']}"


def _site(tier: int, count: int, x: float, y: float, routers: bool, pitch: float) -> Box:
    """A router above its NPUs, or an NPU in the middle."""
    shared = count > 1
    width, height = (min(44.0, pitch - 8), HEIGHT) if shared else (SMALL, SMALL)
    if routers and tier == 0:
        return Box(x, y + 20, min(44.0, pitch - 8), 16, width > 30)
    return Box(x, y - (8 if routers else 0), width, height, shared and width > 30)


def _straight(picture: Picture, boxes: Sequence[Box]) -> Iterator[Stroke]:
    """Cables within a slice."""
    cells = picture["cells"]
    longest = _longest(picture)
    widest = max(cell["at"][0] for cell in cells)
    for i, cable in enumerate(picture["cables"]):
        a, b = cells[cable["a"]], cells[cable["b"]]
        one, other = boxes[cable["a"]], boxes[cable["b"]]
        if cable["a"] == cable["b"]:
            yield Stroke(outline(one), (i,))
            continue
        if a["at"][2:] != b["at"][2:]:
            continue
        steps = [abs(a["at"][d] - b["at"][d]) for d in (0, 1)]
        dim = steps.index(max(steps))
        apart = steps[dim]
        if all(steps):
            # A twisted wrap-around: it leaves the grid here and comes back elsewhere.
            across = 0 if steps[0] == widest else 1
            yield Stroke(_stubs(one, other, across), (i,))
        elif apart > 1 and apart == longest[dim] and not longest[dim + 2]:
            yield Stroke(_stubs(one, other, dim), (i,))
        elif apart > 1:
            off = 9.0 + 5 * apart
            x, y = (one.x + other.x) / 2, (one.y + other.y) / 2
            at = (x, y - off * 2) if dim == 0 else (x - off * 2, y)
            yield Stroke(bow(one.x, one.y, other.x, other.y, *at), (i,))
        else:
            yield Stroke(_line(one.x, one.y, other.x, other.y), (i,))


def _longest(picture: Picture) -> list[int]:
    """Along coordinates 1 and 2, how far the longest cable leads, and how many lead farther than a
    step and less far."""
    cells, apart = picture["cells"], [set[int](), set[int]()]
    for cable in picture["cables"]:
        a, b = cells[cable["a"]]["at"], cells[cable["b"]]["at"]
        steps = [abs(a[dim] - b[dim]) for dim in (0, 1)]
        for dim in (0, 1) if not all(steps) else ():
            apart[dim].add(steps[dim])
    most = [max(found, default=0) for found in apart]
    between = [
        sum(1 < each < far for each in found) for found, far in zip(apart, most, strict=True)
    ]
    return [*most, *between]


def _stubs(one: Box, other: Box, dim: int) -> str:
    """A wrap-around link: both of its ends, which leave the grid."""
    if dim == 0:
        left, right = sorted((one, other), key=lambda box: box.x)
        ends = (left.x - left.width / 2 - 11, right.x + right.width / 2 + 11)
        return _line(left.x, left.y, ends[0], left.y) + _line(right.x, right.y, ends[1], right.y)
    top, low = sorted((one, other), key=lambda box: box.y)
    ends = (top.y - top.height / 2 - 9, low.y + low.height / 2 + 9)
    return _line(top.x, top.y, top.x, ends[0]) + _line(low.x, low.y, low.x, ends[1])


def _between_slices(
    picture: Picture,
    frames: Sequence[tuple[float, float, float, float, str]],
    slices: Sequence[tuple[int, ...]],
) -> Iterator[Stroke]:
    """All cables from one slice to another as one stroke between their frames."""
    cells, number = picture["cells"], {at: i for i, at in enumerate(slices)}
    bundles: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, cable in enumerate(picture["cables"]):
        ends = sorted(number[tuple(cells[cable[end]]["at"][2:])] for end in ("a", "b"))
        if ends[0] != ends[1]:
            bundles[ends[0], ends[1]].append(i)
    for (one, other), cables in sorted(bundles.items()):
        left, top, wide, high, _ = frames[one]
        to_left, to_top, to_wide, to_high, _ = frames[other]
        near, far = top + high / 2, to_top + to_high / 2
        if other == one + 1 and top == to_top:
            path = _line(left + wide, near, to_left, far)
        elif other == one + 1:
            path = _line(left + wide, near, left + wide + 14, near)
            path += _line(to_left - 14, far, to_left, far)
        else:
            path = _line(left - 14, near, left, near)
            path += _line(to_left + to_wide, far, to_left + to_wide + 14, far)
        yield Stroke(path, tuple(cables))


def in_groups(picture: Picture) -> Layout:
    """Groups by the last coordinate on a large circle, each a circle of its own."""
    cells = picture["cells"]
    groups = sorted({cell["at"][-1] for cell in cells})
    inside = sorted({tuple(cell["at"][:-1]) for cell in cells})
    small = max(26.0, 22.0 * len(inside) / (2 * pi) + 6)
    disc = small + 34
    large = max(disc + 24, disc * 1.08 / sin(pi / len(groups))) if len(groups) > 1 else 0.0
    large = min(large, 430.0)
    small = min(small, large * sin(pi / max(len(groups), 2)) * 0.62) if len(groups) > 1 else small
    middle = large + small + 44
    boxes, centres = [], []
    for i, _ in enumerate(groups):
        turn = 2 * pi * i / len(groups) - pi / 2
        centres.append((middle + large * cos(turn), middle + large * sin(turn)))
    for cell in cells:
        x, y = centres[groups.index(cell["at"][-1])]
        turn = 2 * pi * inside.index(tuple(cell["at"][:-1])) / len(inside) - pi / 2
        far = small + (19 if cell["tier"] == 0 else 0)
        shared = cell["count"] > 1 and cell["tier"] > 0
        wide, high = (24.0, 14.0) if cell["tier"] == 0 or shared else (12.0, 12.0)
        boxes.append(Box(x + far * cos(turn), y + far * sin(turn), wide, high, False))
    return Layout(2 * middle, 2 * middle, boxes, list(_chords(picture, boxes)))


def on_circle(picture: Picture) -> Layout:
    """One after the other on a circle, from the top on."""
    cells = picture["cells"]
    count = 1 + max(cell["at"][0] for cell in cells)
    radius = max(70.0, 34.0 * count / (2 * pi)) if count > 1 else 0.0
    middle = radius + 70
    boxes = []
    for cell in cells:
        turn = 2 * pi * cell["at"][0] / count - pi / 2
        far = radius + (34 if cell["tier"] == 0 and _has_routers(picture) else 0)
        named = count <= 40
        wide, high = (46.0, 20.0) if named else (SMALL, SMALL)
        boxes.append(Box(middle + far * cos(turn), middle + far * sin(turn), wide, high, named))
    return Layout(2 * middle, 2 * middle, boxes, list(_chords(picture, boxes)))


def _has_routers(picture: Picture) -> bool:
    return any(cell["tier"] > 0 for cell in picture["cells"])


def _chords(picture: Picture, boxes: Sequence[Box]) -> Iterator[Stroke]:
    for i, cable in enumerate(picture["cables"]):
        one, other = boxes[cable["a"]], boxes[cable["b"]]
        if cable["a"] == cable["b"]:
            yield Stroke(outline(one), (i,))
        elif hypot(one.x - other.x, one.y - other.y) > 0:
            yield Stroke(_line(one.x, one.y, other.x, other.y), (i,))


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
