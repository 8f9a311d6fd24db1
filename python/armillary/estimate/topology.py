"""Stacks of blocks as the design problem sees them: names, sizes, notation, and which there are for
a number of NPUs.

Not here: links and routes (`crates/topology`), prices (`cost.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

SHORT = {"Ring": "R", "FullyConnected": "FC", "Switch": "SW"}
"""Blocks and how they are abbreviated."""
BLOCKS = tuple(SHORT)
MOST_DIMENSIONS = 5

_LONG = {name.lower(): name for name in BLOCKS} | {
    short.lower(): name for name, short in SHORT.items()
}
_PART = re.compile(r"([A-Za-z]+)\((\d{1,9})\)")


@dataclass(frozen=True, slots=True)
class StackDimension:
    """One dimension: a block and how many NPUs it joins."""

    block: str
    """One of `BLOCKS`."""
    size: int

    def __str__(self) -> str:
        return f"{SHORT[self.block]}({self.size})"


@dataclass(frozen=True, slots=True)
class Topology:
    """Blocks stacked, the innermost dimension first."""

    dimensions: tuple[StackDimension, ...]

    @property
    def npus(self) -> int:
        """All NPUs."""
        return math.prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """NPUs along each dimension."""
        return tuple(each.size for each in self.dimensions)

    @property
    def blocks(self) -> tuple[str, ...]:
        """Block of each dimension."""
        return tuple(each.block for each in self.dimensions)

    def __len__(self) -> int:
        return len(self.dimensions)

    def __str__(self) -> str:
        return "_".join(map(str, self.dimensions))


def block(name: str) -> str | None:
    """The block called `name`, in full or short; nothing for what is none."""
    return _LONG.get(name.lower())


def parse(text: str) -> Topology | None:
    """`Ring(4)_SW(16)`; nothing where that is not a stack of one to five blocks of two or more
    NPUs."""
    found = []
    for part in text.split("_"):
        match = _PART.fullmatch(part.strip())
        named = block(match[1]) if match else None
        if match is None or named is None or int(match[2]) < 2:
            return None
        found.append(StackDimension(named, int(match[2])))
    return Topology(tuple(found)) if 1 <= len(found) <= MOST_DIMENSIONS else None


def factorisations(npus: int, dimensions: int) -> Iterator[tuple[int, ...]]:
    """Every way to write `npus` as an ordered product of `dimensions` sizes of two or more,
    ascending."""
    if dimensions == 1:
        if npus >= 2:
            yield (npus,)
        return
    for size in _divisors(npus):
        if 2 <= size < npus:
            for rest in factorisations(npus // size, dimensions - 1):
                yield (size, *rest)


@dataclass(frozen=True, slots=True)
class Space:
    """Topologies of the same sizes: every choice of one of `blocks[d]` for each dimension."""

    sizes: tuple[int, ...]
    blocks: tuple[tuple[str, ...], ...]

    @property
    def count(self) -> int:
        """How many topologies there are."""
        return math.prod(map(len, self.blocks))

    @property
    def first(self) -> Topology:
        """The topology of the first block of each dimension."""
        return self.topology([some[0] for some in self.blocks])

    def topology(self, blocks: Sequence[str]) -> Topology:
        """The topology of these blocks."""
        return Topology(
            tuple(StackDimension(each, size) for each, size in zip(blocks, self.sizes, strict=True))
        )


def space(sizes: Sequence[int], blocks: Sequence[str], largest: Mapping[str, int]) -> Space:
    """Each of `blocks` in each dimension, where `largest` allows its number of NPUs."""
    some = [tuple(each for each in blocks if size <= largest.get(each, size)) for size in sizes]
    return Space(tuple(sizes), tuple(some))


def _divisors(number: int) -> list[int]:
    low = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*low, *(number // each for each in low)})
