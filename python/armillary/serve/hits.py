"""The prefixes that requests share: hits of a cache that never forgets."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _core
from .load import Load


@dataclass(frozen=True, slots=True)
class Hits:
    """Prompts in full blocks, and those that an earlier prompt has had with the same start."""

    block: int
    """Tokens of a block."""
    blocks: int
    hit_blocks: int
    tokens: int
    """Tokens of all prompts, with those of blocks that are not full."""

    @property
    def block_share(self) -> float:
        """Part of the full blocks that are hits; 0 without any."""
        return self.hit_blocks / self.blocks if self.blocks else 0.0

    @property
    def token_share(self) -> float:
        """Part of all tokens that lie in hits."""
        return self.hit_blocks * self.block / self.tokens if self.tokens else 0.0


def hits(load: Load, block: int) -> Hits:
    """Hits of an unbounded cache of blocks of `block` tokens, in the order of the requests.

    A block is a hit where an earlier prompt has the same tokens up to its end."""
    blocks, found = _core.prefix_hits([each.prompt for each in load.requests], block)
    return Hits(block, blocks, found, sum(each.tokens for each in load.requests))
