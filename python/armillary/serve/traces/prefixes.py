"""Contents of prompts from the identities of their blocks.

A cache of prefixes sees two prompts as equal up to their first difference, and nothing after it. So
the prompts make a tree of stretches of blocks. Each stretch is the rest of the first prompt that
came there, and has a content of its own. A prompt follows a stretch until it differs, and goes on
with one that begins there: a piece of the prompt for each (`load.Request`). Prompts that leave a
stretch at different blocks may go on with the same content. Their pieces differ before, by length.
Memory: one stretch for each prompt at most, 8 bytes for each of its blocks."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_IDENTITY = 2**63


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Blocks that follow each other."""

    blocks: array[int]
    content: int
    number: int
    """By which stretches after it are found."""


class Prefixes:
    """A tree of blocks of `unit` tokens. `fresh` gives contents that nothing else has."""

    def __init__(self, unit: int, fresh: Callable[[], int]) -> None:
        self.unit, self._fresh = unit, fresh
        self._after: dict[tuple[int, int], _Stretch] = {}
        """The stretch that begins with a block after another stretch."""

    def pieces(self, blocks: Sequence[int], tokens: int) -> tuple[tuple[int, int], ...]:
        """The prompt of these blocks as (content, tokens). Blocks are full but for the last one.
        Tokens beyond the blocks are the prompt's own. `tokens` is at least 1."""
        found: list[tuple[int, int]] = []
        before, at = 0, 0
        while at < len(blocks):
            stretch = self._after.get((before, blocks[at]))
            if stretch is None:
                stretch = self._add(before, array("q", blocks[at:]))
            shared = _shared(stretch.blocks, blocks, at)
            found.append((stretch.content, shared * self.unit))
            before = stretch.number
            at += shared
        over = len(blocks) * self.unit - tokens
        if over > 0:
            found[-1] = (found[-1][0], found[-1][1] - over)
        elif over < 0:
            found.append((self._fresh(), -over))
        return tuple(found)

    def _add(self, before: int, blocks: array[int]) -> _Stretch:
        stretch = _Stretch(blocks, self._fresh(), len(self._after) + 1)
        self._after[before, blocks[0]] = stretch
        return stretch


def _shared(blocks: array[int], wanted: Sequence[int], at: int) -> int:
    """How many blocks are equal from `at` on."""
    most = min(len(blocks), len(wanted) - at)
    if blocks[:most] == array("q", wanted[at : at + most]):
        return most
    return next(place for place in range(most) if blocks[place] != wanted[at + place])
