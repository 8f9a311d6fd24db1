"""Ranks of a module as the points of a mesh, where its groups allow it.

    groups of strides 1, 4, 16       a mesh with an axis between any two of them
    messages                         programs differ along the axes on which messages differ
    other groups                     ranks one by one

Here: axes and groups along them. Not here: the programs (`programs.py`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .module import Groups
from .steps import Pairs

Role = tuple[tuple[int | None, int | None], ...]
"""Offsets to which a rank sends and from which it receives, for each list of messages."""


@dataclass(frozen=True)
class Mesh:
    """Axes, the first one fastest, and the axes of each family of groups, fastest first; none for a
    family of groups of one rank."""

    axes: tuple[tuple[str, int], ...]
    families: tuple[tuple[str, ...] | None, ...]


def mesh(families: Sequence[Groups], ranks: int) -> Mesh | None:
    """The mesh of some families of groups; none where they are not the lines of one."""
    factors = [_factors(groups, ranks) for groups in families]
    known = [each for each in factors if each is not None]
    if len(known) < len(factors):
        return None
    bounds = {1, ranks}
    for each in known:
        bounds |= {stride for stride, _ in each} | {stride * size for stride, size in each}
    ordered = sorted(bounds)
    if any(high % low for low, high in itertools.pairwise(ordered)):
        return None
    axes = [(f"d{low}", high // low) for low, high in itertools.pairwise(ordered)]
    along = []
    for each in known:
        names = [
            f"d{low}"
            for stride, size in each
            for low in ordered[:-1]
            if stride <= low < stride * size
        ]
        along.append(tuple(names) if names else None)
    return Mesh(tuple(axes) or (("d1", 1),), tuple(along))


def _factors(groups: Groups, ranks: int) -> list[tuple[int, int]] | None:
    """Strides and sizes of groups, fastest first; none where they differ in more than their first
    rank, or do not lie on lines of a mesh."""
    first = groups[0]
    size = len(first)
    offsets = [rank - first[0] for rank in first]
    found: list[tuple[int, int]] = []
    done = 1
    while done < size:
        stride, count = offsets[done], 1
        while count * done < size and offsets[count * done] == count * stride:
            count += 1
        if stride < 1 or count < 2 or size % (done * count):
            return None
        found.append((stride, count))
        done *= count
    made = [0]
    for stride, count in found:
        made = [base + stride * at for at in range(count) for base in made]
    if made != offsets or len(groups) * size != ranks:
        return None
    # Sets of the same distances that cover all ranks once lie on the lines of a mesh: the smallest
    # rank that is not yet covered can only be the first of its set.
    for group in groups:
        base = group[0]
        if len(group) != size or any(
            rank - base != offset for rank, offset in zip(group, offsets, strict=True)
        ):
            return None
    return found


def roles(pairs: Sequence[Pairs], ranks: int) -> list[Role]:
    """For each rank where it sends to and receives from, as offsets."""
    tables = []
    for each in pairs:
        out: list[int | None] = [None] * ranks
        into: list[int | None] = [None] * ranks
        for source, target in each:
            if source != target:
                out[source], into[target] = target - source, source - target
        tables.append((out, into))
    return [tuple((out[rank], into[rank]) for out, into in tables) for rank in range(ranks)]


def differing(found: Mesh, numbers: Sequence[int]) -> list[tuple[str, int]]:
    """The axes along which a number of ranks differs."""
    by = []
    stride = 1
    for name, size in found.axes:
        starts = (rank for rank in range(len(numbers)) if rank // stride % size == 0)
        if any(
            numbers[rank + stride * at] != numbers[rank] for rank in starts for at in range(1, size)
        ):
            by.append((name, size))
        stride *= size
    return by


def points(found: Mesh, by: Sequence[tuple[str, int]]) -> list[int]:
    """The first rank of each point of some axes, the first one fastest."""
    strides, stride = {}, 1
    for name, size in found.axes:
        strides[name] = stride
        stride *= size
    ranks = [0]
    for name, size in by:
        ranks = [base + strides[name] * at for at in range(size) for base in ranks]
    assert len(ranks) == math.prod(size for _, size in by)
    return ranks
