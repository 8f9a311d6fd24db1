"""A space of layouts as a picture: its degrees of parallelism, and the front of time and memory.

Estimates of the whole space, in which a search simulates few layouts. Not here: how it is drawn
(`page.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..units import PS_PER_NS
from .result import Cell, OnFront, Ranked
from .space import Choice, LayoutSpace


def picture(
    space: LayoutSpace,
    limits: tuple[int, int],
    near: bool,
    software: Mapping[str, object],
    best: Sequence[Ranked],
) -> tuple[list[OnFront], list[Cell]]:
    """The front, in which the layouts of `best` have their simulated steps, and the cells."""
    names: dict[tuple[int, int, int, int], int] = {}
    cell_of = [
        names.setdefault((frame.tp, frame.pp, frame.cp, frame.ep), len(names))
        for frame in space.frames
    ]
    cells, front = space.parts.space.picture(limits, near, cell_of, None)

    def options(group: int, choice: Choice) -> dict[str, object]:
        return {**space.options(group, choice), **software}

    points = []
    for group, choice, _, estimate, size, _, _ in front:
        chosen = options(group, choice)
        step = next((each.step_ns for each in best if each.options == chosen), None)
        points.append(OnFront(chosen, estimate / PS_PER_NS, size, step))
    found = []
    for degrees, ((surely, close, no), least, fastest) in zip(names, cells, strict=True):
        fitting = surely + close if near else surely
        time = None if fastest is None else fastest[3] / PS_PER_NS
        chosen_ = None if fastest is None else options(fastest[0], fastest[1])
        found.append(Cell(*degrees, surely + close + no, fitting, least, time, chosen_))
    return points, sorted(found, key=lambda each: (each.tp, each.pp, each.cp, each.ep))
