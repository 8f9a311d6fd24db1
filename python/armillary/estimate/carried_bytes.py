"""Bytes of a collective on each dimension that it runs over.

They are those of the phases that a run makes of it (docs/models/hierarchies.md), each with the
algorithm that a run takes by itself, rings one way:

    all_reduce      a reduce-scatter up to the last dimension, an all-reduce there, all-gathers back
    reduce_scatter  up: each dimension leaves a part of its size
    all_gather      down, gather up: each dimension multiplies by its size
    scatter         down: each dimension leaves a part of its size
    others          all bytes in each dimension

Not here: which dimensions a group spans (`traffic.py`), and how long bytes take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

Grid = tuple[tuple[int, str | None], ...]
"""Size and block of each dimension, innermost first. Without a block: whichever algorithm sends the
fewest bytes."""

_GROWS = ("all_gather", "gather")
_TREES = ("broadcast", "reduce")
_DOWN = ("all_gather", "scatter", "broadcast")


@cache
def of_a_byte(kind: str, grid: Grid) -> tuple[float, ...]:
    """Bytes of the NPU that sends or receives most along each dimension, for a byte of a
    collective."""
    # With this input, every part of every phase is a whole number of bytes.
    whole = 1 if kind in _GROWS else math.prod(size for size, _ in grid)
    found = [0] * len(grid)
    for dim, phase, size in _phases(kind, whole, grid):
        found[dim] += _sent(phase, size, *grid[dim])
    return tuple(each / whole for each in found)


def _phases(kind: str, whole: int, grid: Grid) -> Iterator[tuple[int, str, int]]:
    """Dimension, kind and bytes of input of each phase."""
    left, dims = whole, [dim for dim, (size, _) in enumerate(grid) if size > 1]
    for dim in reversed(dims) if kind in _DOWN else dims:
        size = grid[dim][0]
        if kind == "all_reduce" and dim != dims[-1]:
            yield dim, "reduce_scatter", left
            left //= size
            yield dim, "all_gather", left
            continue
        yield dim, kind, left
        if kind in _GROWS:
            left *= size
        elif kind in ("reduce_scatter", "scatter"):
            left //= size


def _sent(kind: str, size: int, count: int, block: str | None) -> int:
    """Bytes of the busiest of `count` NPUs in a phase with `size` bytes of input."""
    part = size // count
    if kind in _TREES:
        return size * _copies(count, block)
    if kind == "all_to_all":
        return part * (count * (count - 1) // 2 if block == "Ring" else count - 1)
    times = {"all_reduce": 2 * part, "barrier": 0, "all_gather": size, "gather": size}
    return (count - 1) * times.get(kind, part)


def _copies(count: int, block: str | None) -> int:
    """Copies of all bytes that the busiest NPU of a broadcast or a reduction sends or receives: one
    in a chain, one for each round of a tree, or one for each other NPU."""
    if block == "Switch":
        return (count - 1).bit_length()
    return count - 1 if block == "FullyConnected" else 1
