"""Bytes that the collectives of a workload put on each dimension of a topology.

Here: where the members of a group lie on a stack of dimensions, and the bytes that keep the links
of an NPU busy along each (`carried_bytes.py`), with rings one way and no other settings. A group of
`e` NPUs in a FullyConnected of `n` uses only `e - 1` of the `n - 1` links that share the bandwidth
of an NPU, so its bytes count `(n - 1) / (e - 1)` times. Not here: how long that takes
(`step_model.py`). Source: docs/models/collectives.md, docs/models/hierarchies.md; paper of LIBRA,
section III-B."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..units import counted
from ..workload import Workload
from .carried_bytes import of_a_byte
from .topology import Topology


@dataclass(frozen=True, slots=True)
class Members:
    """The ranks of a group: `count` of them, `step` apart from `first` on; or `ranks` at no even
    distance."""

    first: int
    count: int
    step: int
    ranks: tuple[int, ...] = ()

    @classmethod
    def of(cls, ranks: Sequence[int]) -> Members:
        """The shortest form of a list of ranks."""
        step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
        even = step > 0 and all(b - a == step for a, b in itertools.pairwise(ranks))
        return (
            cls(ranks[0], len(ranks), step) if even else cls(ranks[0], len(ranks), 0, tuple(ranks))
        )

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last rank."""
        if self.step == 0:
            return self.ranks[0], self.ranks[-1]
        return self.first, self.first + (self.count - 1) * self.step

    def __str__(self) -> str:
        if self.step == 0:
            return f"{self.count} listed ranks"
        return counted(self.count, "rank") + (f", {self.step} apart" if self.step > 1 else "")


@dataclass(frozen=True, slots=True)
class GroupVolume:
    """Bytes that the ranks of one program hand to collectives of one kind over one group in a
    step."""

    program: int
    ranks: int
    """Ranks that run the program."""
    group: str
    """Name of the group for people."""
    members: Members
    kind: str
    count: int
    bytes: int
    """Bytes of the input buffers; of one NPU's contributions for all_gather and gather."""


def volumes(workload: Workload) -> tuple[GroupVolume, ...]:
    """The volumes of a workload, with the names its generator gave the groups."""
    rows = workload._core.volumes()
    summary = workload.summary
    named: dict[tuple[int, str, int, int], str] = {}
    for index, entry in enumerate(summary.classes if summary else ()):
        named |= {(index, v.kind, v.count, v.bytes): v.group for v in entry.volumes}
    found = []
    for program, ranks, members, kind, count, size in rows:
        lies = Members.of(members)
        group = named.get((program, kind, count, size)) or (
            "messages" if kind == "send" else str(lies)
        )
        found.append(GroupVolume(program, ranks, group, lies, kind, count, size))
    return tuple(found)


Extents = tuple[tuple[int, int, int], ...]
"""Dimension, how many of its positions a group takes, and how far apart they are, innermost
first."""


def extents(members: Members, sizes: Sequence[int]) -> Extents | None:
    """Which dimensions a group spans, and how far; nothing where it is not an aligned part of a
    grid."""
    if members.step == 0:
        return _spread(members.ranks, sizes)
    found, left, step, inner = [], members.count, members.step, 1
    for index, size in enumerate(sizes):
        outer = inner * size
        if left > 1 and step < outer:
            if step % inner or size % (step // inner):
                return None
            taken = min(left, outer // step)
            if left % taken or (outer // step) % taken:
                return None
            found.append((index, taken, step // inner))
            left //= taken
            step = outer
        inner = outer
    aligned = members.first % (members.count * members.step) < members.step
    return tuple(found) if left == 1 and aligned else None


def spans(volume: GroupVolume, sizes: Sequence[int]) -> Extents | None:
    """Which dimensions a volume takes; nothing where its group is not an aligned part of a grid.
    Messages always have a way."""
    if volume.kind == "send":
        first, last = volume.members.ends
        return crossed(abs(last - first), sizes)
    return extents(volume.members, sizes)


def crossed(offset: int, sizes: Sequence[int]) -> Extents:
    """Dimensions that a message crosses whose ends are `offset` ranks apart, two positions each,
    and how far apart.

    An offset that isn't a multiple of what a dimension's NPUs hold takes some ranks one position
    further than others. A pipeline waits for its slowest stage, so each dimension that any rank
    crosses counts, over the longest way that a rank goes, the shorter way round."""
    found, inner = [], 1
    for index, size in enumerate(sizes):
        positions = offset // inner % size
        reached = {positions, (positions + 1) % size} if offset % inner else {positions}
        far = max(min(each, size - each) for each in reached)
        if far:
            found.append((index, 2, far))
        inner *= size
    return tuple(found)


def _spread(ranks: Sequence[int], sizes: Sequence[int]) -> Extents | None:
    """As `extents`, for ranks that are not evenly apart: they must fill the grid of the positions
    they take."""
    found, inner = [], 1
    for index, size in enumerate(sizes):
        positions = {rank // inner % size for rank in ranks}
        if len(positions) > 1:
            low = sorted(positions)
            found.append((index, len(low), low[1] - low[0]))
        inner *= size
    return tuple(found) if math.prod(count for _, count, _ in found) == len(ranks) else None


def loads(kind: str, size: float, spans: Extents, topology: Topology) -> list[float]:
    """Bytes an NPU could send along each dimension while it takes part in collectives of `kind` of
    `size` bytes, or in messages (`send`), which cross a dimension where their ends differ.

    They are the bytes that the busiest NPU sends or receives wherever it uses all of its links.
    """
    found = [0.0] * len(topology)
    blocks = tuple((count, topology.blocks[index]) for index, count, _ in spans)
    carried = [1.0] * len(blocks) if kind == "send" else of_a_byte(kind, blocks)
    for (index, count, _), share in zip(spans, carried, strict=True):
        found[index] = size * share
        if topology.blocks[index] == "FullyConnected":
            found[index] *= (topology.sizes[index] - 1) / (count - 1)
    return found


def reduced(kind: str, size: float, spans: Extents, topology: Topology) -> list[float]:
    """Bytes an NPU reduces into its own one after another, by dimension; of what arrives at once,
    one share."""
    found = [0.0] * len(topology)
    passed = 1
    for index, count, _ in spans:
        passed *= count
        block = topology.blocks[index]
        at_once = block == "FullyConnected" or (block == "Switch" and count & (count - 1) != 0)
        if kind in ("all_reduce", "reduce_scatter"):
            found[index] = size * (1 if at_once else count - 1) / passed
        elif kind == "reduce":
            found[index] = size
    return found


def rounds(kind: str, spans: Extents, topology: Topology) -> list[tuple[int, int]]:
    """Messages that wait for one another in each dimension, and the links each crosses
    (docs/models/collectives.md)."""
    found = [(0, 0)] * len(topology)
    for index, count, apart in spans:
        ring, switch = topology.blocks[index] == "Ring", topology.blocks[index] == "Switch"
        halving = switch and kind not in ("all_to_all", "send") and count & (count - 1) == 0
        if kind == "send":
            chain = 1
        elif ring:
            chain = count * (count - 1) // 2 if kind == "all_to_all" else count - 1
        else:
            chain = count.bit_length() - 1 if halving else 1
        found[index] = (
            chain * (2 if kind == "all_reduce" else 1),
            apart if ring else 2 if switch else 1,
        )
    return found
