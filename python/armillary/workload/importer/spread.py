"""From the recorded ranks to all ranks: those that were not recorded, and more of them than the run
had.

Here: whose program a rank runs, which members its groups have, how sizes change.

Model: N ranks are N / W blocks of the W ranks of the run. Rank r does what rank r mod W did. A
group of all ranks grows to all ranks; so does a group along the outermost stride that reduces or
gathers (data parallelism). Every other group repeats in each block. When g members grow to h, the
contribution to an all-gather is a shard and shrinks by g / h. The input of all-reduce and
reduce-scatter keeps its size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InputError, Problem
from .groups import Members

_GROW = frozenset(
    {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "barrier", "unknown"}
)


@dataclass(frozen=True)
class Extent:
    """Groups of every `stride`-th rank within each `end` ranks; `grown` goes on over all copies of
    the run."""

    stride: int
    end: int
    grown: bool

    @property
    def size(self) -> int:
        """Members in the run."""
        return self.end // self.stride


@dataclass(frozen=True)
class Spread:
    """`world` ranks in the run, `ranks` wanted; `all_to_all` is `refuse`, `keep` or `repeat`."""

    world: int
    ranks: int
    recorded: tuple[int, ...]
    all_to_all: str = "refuse"

    @property
    def grows(self) -> bool:
        """True when there are to be more ranks than there were."""
        return self.ranks > self.world

    def source(self, rank: int) -> int:
        """The recorded rank that `rank` repeats."""
        inside = rank % self.world
        return inside if inside in self.recorded else self.recorded[inside % len(self.recorded)]

    @property
    def copies(self) -> int:
        """How often the run is repeated."""
        return self.ranks // self.world

    def extent(self, source: int, group: Members, kind: str) -> Extent:
        """Along which stretch of ranks the group of recorded rank `source` lies, and whether it
        grows.

        Raises `InputError` for a group without a pattern.
        """
        if group == tuple(range(self.world)):
            repeats = kind == "all_to_all" and self.all_to_all == "repeat"
            return Extent(1, self.world, self.grows and not repeats)
        stride = self._stride(source, group)
        end = stride * len(group)
        return Extent(stride, end, self.grows and end == self.world and kind in _GROW)

    def members(self, rank: int, extent: Extent) -> range:
        """The group of that extent that `rank` is in."""
        end = self.ranks if extent.grown else extent.end
        first = rank - rank % end + rank % extent.stride
        return range(first, first + end, extent.stride)

    def _stride(self, source: int, group: Members) -> int:
        steps = {after - before for before, after in itertools.pairwise(group)} or {1}
        stride = min(steps)
        block = stride * len(group)
        regular = (
            len(steps) == 1 and stride > 0 and group[0] == source - source % block + source % stride
        )
        if not regular or self.world % block:
            message = (
                f"group {list(group)} of rank {source} follows no pattern that could be continued"
            )
            help_ = (
                "traces of every rank without --ranks, or groups of equal stride that tile the "
                "ranks"
            )
            raise InputError([Problem("", "--ranks", message, help_)])
        return stride

    def bytes(self, kind: str, size: int, before: int, after: int) -> int:
        """A rank's bytes in a group grown from `before` members to `after`."""
        return -(-size * before // after) if kind == "all_gather" else size


def check(
    world: int, ranks: int, recorded: int, kinds: Sequence[tuple[str, Members]], all_to_all: str
) -> None:
    """Raises `InputError` when `ranks` can't be made of `world`."""
    if ranks % world or ranks < world:
        below, above = max(world, ranks - ranks % world), ranks - ranks % world + world
        near = f"{below} or {above}, multiples of {world}"
        raise InputError(
            [
                Problem(
                    "",
                    "--ranks",
                    f"{ranks} ranks are not a multiple of the {world} of the run",
                    near,
                )
            ]
        )
    messages = sum(kind in ("send", "recv") for kind, _ in kinds)
    if messages and recorded < world:
        message = (
            f"{messages} sends and receives on one rank, but only {recorded} of {world} ranks were "
            "recorded"
        )
        raise InputError(
            [
                Problem(
                    "",
                    "ranks",
                    message,
                    "traces of every rank: pipelines can't be repeated",
                )
            ]
        )
    everybody = tuple(range(world))
    hit = sum(kind == "all_to_all" and members == everybody for kind, members in kinds)
    if ranks > world and hit and all_to_all == "refuse":
        message = (
            f"{hit} all-to-alls run over all {world} ranks; the traces don't say what they do on "
            f"{ranks} ranks"
        )
        help_ = (
            "--all-to-all keep: a rank's bytes stay the same and go to more ranks (tables or "
            f"experts are spread over all ranks); --all-to-all repeat: each {world} ranks have "
            "their own all-to-alls"
        )
        raise InputError([Problem("", "--ranks", message, help_)])
