"""Contents of prompts from the identities of their blocks.

A cache of prefixes sees two prompts as equal up to their first difference, and nothing after it. So
the prompts make a tree. A node of the tree is a stretch of tokens that some prompts share, and each
stretch is one piece of a prompt (`load.Request`). A prompt of hundreds of blocks has a few pieces.
Memory: the identities of blocks once each (8 bytes), and two nodes for each prompt at most."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_IDENTITY = 2**63


@dataclass(slots=True)
class _Stretch:
    """Blocks that follow each other. One that `goes_on` has the content of the one before it."""

    blocks: array[int]
    content: int
    goes_on: bool
    node: int
    """The number of its end, from which others begin."""


class Prefixes:
    """A tree of blocks of `unit` tokens. `fresh` gives contents that nothing else has."""

    def __init__(self, unit: int, fresh: Callable[[], int]) -> None:
        self.unit, self._fresh = unit, fresh
        self._after: dict[tuple[int, int], _Stretch] = {}
        """The stretch that begins at a node with a block."""
        self._nodes = 1

    def pieces(self, blocks: Sequence[int], tokens: int) -> tuple[tuple[int, int], ...]:
        """The prompt of these blocks as (content, tokens). Blocks are full but for the last one.
        Tokens beyond the blocks are the prompt's own. `tokens` is at least 1."""
        found: list[tuple[int, int]] = []
        node, at = 0, 0
        while at < len(blocks):
            stretch = self._after.get((node, blocks[at]))
            if stretch is None:
                stretch = self._add(node, array("q", blocks[at:]))
            shared = _shared(stretch.blocks, blocks, at)
            if shared < len(stretch.blocks):
                self._split(node, stretch, shared)
            at += shared
            node = stretch.node
            length = shared * self.unit
            if stretch.goes_on:
                found[-1] = (stretch.content, found[-1][1] + length)
            else:
                found.append((stretch.content, length))
        over = len(blocks) * self.unit - tokens
        if over > 0:
            found[-1] = (found[-1][0], found[-1][1] - over)
        elif over < 0:
            found.append((self._fresh(), -over))
        return tuple(found)

    def _add(self, node: int, blocks: array[int]) -> _Stretch:
        stretch = _Stretch(blocks, self._fresh(), False, self._nodes)
        self._nodes += 1
        self._after[node, blocks[0]] = stretch
        return stretch

    def _split(self, node: int, stretch: _Stretch, at: int) -> None:
        """Cuts a stretch in two; the first one keeps its place."""
        rest = _Stretch(stretch.blocks[at:], stretch.content, True, stretch.node)
        stretch.blocks = stretch.blocks[:at]
        stretch.node = self._nodes
        self._nodes += 1
        self._after[stretch.node, rest.blocks[0]] = rest


def _shared(blocks: array[int], wanted: Sequence[int], at: int) -> int:
    """How many blocks are equal from `at` on."""
    most = min(len(blocks), len(wanted) - at)
    if blocks[:most] == array("q", wanted[at : at + most]):
        return most
    return next(place for place in range(most) if blocks[place] != wanted[at + place])
