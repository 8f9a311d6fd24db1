"""Placing shards on ranks: heuristics that keep the greatest load low and stay within memory.

    greedy        the costliest first, each to the rank with the least load
    by_memory     the largest first, each to the rank with the most room
    differencing  the largest differencing method for many sums: the two partial solutions with the
                  widest spread become one, the largest of one with the smallest of the other
    by_node       greedy over nodes, then over the ranks of each
    improved      any of these, then moves and swaps off the rank with the greatest load

Sources: Graham, SIAM J. Appl. Math. 17, 1969; Karmarkar and Karp, UCB/CSD 82/113, 1982 (k sums:
Michiels, Korst, Aarts and van Leeuwen, 2003). Mudigere et al., ISCA 2022, section 4.1, uses the
first two."""

from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_Exchange = tuple[list[int], list[int], int]
"""Shards that leave a rank, those that come from another one, and that."""

_FEW = 3000
"""Shards times the square of those on the busiest rank, up to which pairs are exchanged too."""


@dataclass(frozen=True)
class Shards:
    """Shards to place, and what the ranks have already."""

    costs: Floats
    """[shards]."""
    memory: Whole
    """Bytes [shards]."""
    base: Floats
    """Cost that each rank has before, [ranks]."""
    used: Whole
    """Bytes that each rank has before, [ranks]."""
    room: int
    """Bytes of a rank."""
    ranks_per_node: int

    @property
    def ranks(self) -> int:
        """Ranks."""
        return len(self.base)

    def loads(self, at: Whole) -> Floats:
        """Cost of each rank with the shards on the ranks `at`."""
        return self.base + np.bincount(at, weights=self.costs, minlength=self.ranks)

    def held(self, at: Whole) -> Whole:
        """Bytes on each rank."""
        held = self.used.copy()
        np.add.at(held, at, self.memory)
        return held

    @property
    def order(self) -> Whole:
        """The costliest first; of equal ones the largest, then the first."""
        return np.lexsort((np.arange(len(self.costs)), -self.memory, -self.costs))


def greedy(shards: Shards) -> Whole | None:
    """The rank of each shard [shards]; `None` if a shard finds no room."""
    at = np.zeros(len(shards.costs), np.int64)
    held = shards.used.tolist()
    heap = [(load, rank) for rank, load in enumerate(shards.base.tolist())]
    heapq.heapify(heap)
    costs, memory = shards.costs.tolist(), shards.memory.tolist()
    for shard in shards.order.tolist():
        full = []
        while heap and held[heap[0][1]] + memory[shard] > shards.room:
            full.append(heapq.heappop(heap))
        if not heap:
            return None
        load, rank = heap[0]
        heapq.heapreplace(heap, (load + costs[shard], rank))
        held[rank] += memory[shard]
        at[shard] = rank
        for entry in full:
            heapq.heappush(heap, entry)
    return at


def by_memory(shards: Shards) -> Whole | None:
    """The largest first, each to the rank with the most room: for shards that hardly fit. `None` if
    they do not."""
    order = np.lexsort((np.arange(len(shards.costs)), -shards.costs, -shards.memory)).tolist()
    at = np.zeros(len(shards.costs), np.int64)
    heap = [(held, rank) for rank, held in enumerate(shards.used.tolist())]
    heapq.heapify(heap)
    memory = shards.memory.tolist()
    for shard in order:
        held, rank = heap[0]
        if held + memory[shard] > shards.room:
            return None
        heapq.heapreplace(heap, (held + memory[shard], rank))
        at[shard] = rank
    return at


def by_node(shards: Shards) -> Whole | None:
    """Greedy over nodes, then over the ranks of each node; `None` if a shard finds no room."""
    each = shards.ranks_per_node
    nodes = shards.ranks // each
    above = Shards(
        shards.costs,
        shards.memory,
        shards.base.reshape(nodes, each).sum(1),
        shards.used.reshape(nodes, each).sum(1),
        shards.room * each,
        1,
    )
    node = greedy(above)
    if node is None:
        return None
    at = np.zeros(len(shards.costs), np.int64)
    for number in range(nodes):
        here = np.flatnonzero(node == number)
        ranks = slice(number * each, (number + 1) * each)
        inside = Shards(
            shards.costs[here],
            shards.memory[here],
            shards.base[ranks],
            shards.used[ranks],
            shards.room,
            1,
        )
        found = greedy(inside)
        if found is None:
            return None
        at[here] = found + number * each
    return at


def differencing(shards: Shards) -> Whole | None:
    """The largest differencing method, with one sum for each rank. The largest sum goes to
    the rank that has least before. Shards that a rank has no room for move on (`_repaired`); `None`
    if they find none."""
    count, ranks = len(shards.costs), shards.ranks
    if count == 0:
        return np.zeros(0, np.int64)
    # A partial solution: spread, then sums in descending order with the group of shards of each.
    # Groups are the nodes of a tree: below `count` a shard, -1 none.
    left: list[int] = []
    right: list[int] = []

    def join(one: Whole, other: Whole) -> Whole:
        mine = one >= 0
        (both,) = (mine & (other >= 0)).nonzero()
        joined = np.where(mine, one, other)
        joined[both] = count + len(left) + np.arange(len(both))
        left.extend(one[both].tolist())
        right.extend(other[both].tolist())
        return joined

    heap: list[tuple[float, int, Floats | None, Whole | None]]
    heap = [(-cost, shard, None, None) for shard, cost in enumerate(shards.costs.tolist())]
    heapq.heapify(heap)

    nowhere = np.full(ranks, -1)

    def opened(entry: tuple[float, int, Floats | None, Whole | None]) -> tuple[Floats, Whole]:
        spread, shard, sums, groups = entry
        if sums is not None and groups is not None:
            return sums, groups
        sums, groups = np.zeros(ranks), nowhere.copy()
        sums[0], groups[0] = -spread, shard
        return sums, groups

    number = count
    while len(heap) > 1:
        (one, ones), (other, others) = opened(heapq.heappop(heap)), opened(heapq.heappop(heap))
        sums, groups = one + other[::-1], join(ones, others[::-1])
        order = (-sums).argsort(kind="stable")
        sums, groups = sums[order], groups[order]
        sums = sums - sums[-1]
        heapq.heappush(heap, (-float(sums[0]), number, sums, groups))
        number += 1
    _, groups = opened(heap[0])
    at = np.zeros(count, np.int64)
    for rank, group in zip(np.argsort(shards.base, kind="stable"), groups.tolist(), strict=True):
        below = [group] if group >= 0 else []
        while below:
            each = below.pop()
            if each < count:
                at[each] = rank
            else:
                below += [left[each - count], right[each - count]]
    return _repaired(shards, at)


def _repaired(shards: Shards, at: Whole) -> Whole | None:
    """Shards that ranks have no room for, those that cost least for their bytes, are placed again:
    the costliest first, each on the rank with the least load that has room."""
    loads, held = shards.loads(at), shards.held(at)
    moved: list[int] = []
    for rank in np.flatnonzero(held > shards.room).tolist():
        mine = np.flatnonzero(at == rank)
        worth = shards.costs[mine] / np.maximum(shards.memory[mine], 1)
        for shard in mine[np.argsort(worth, kind="stable")].tolist():
            if held[rank] <= shards.room:
                break
            held[rank] -= shards.memory[shard]
            loads[rank] -= shards.costs[shard]
            moved.append(shard)
    for shard in sorted(moved, key=lambda shard: (-shards.costs[shard], shard)):
        open_ = np.where(held + shards.memory[shard] <= shards.room, loads, np.inf)
        rank = int(np.argmin(open_))
        if not np.isfinite(open_[rank]):
            return None
        at[shard] = rank
        loads[rank] += shards.costs[shard]
        held[rank] += shards.memory[shard]
    return at


def improved(shards: Shards, at: Whole, floor: float, moves: int = 4000) -> Whole:
    """Moves or swaps a shard off the rank with the greatest load as long as that lowers it, until
    no load is above `floor`. Memory is kept. Each step takes the exchange that leaves the two ranks
    lowest."""
    at = at.copy()
    loads, held = shards.loads(at), shards.held(at)
    costs, memory = shards.costs, shards.memory
    for _ in range(moves):
        busiest = int(np.argmax(loads))
        highest = loads[busiest]
        if highest <= floor:
            break
        mine = np.flatnonzero(at == busiest)
        if not len(mine):
            break
        best = _exchange(shards, at, loads, held, mine, busiest)
        if best is None and len(mine) ** 2 * len(costs) <= _FEW:
            best = _pairs(shards, at, loads, held, mine, busiest)
        if best is None:
            break
        leave, come, rank = best
        at[leave], at[come] = rank, busiest
        given = costs[leave].sum() - costs[come].sum()
        bytes_ = memory[leave].sum() - memory[come].sum()
        loads[busiest] -= given
        loads[rank] += given
        held[busiest] -= bytes_
        held[rank] += bytes_
    return at


def _pairs(
    shards: Shards, at: Whole, loads: Floats, held: Whole, mine: Whole, busiest: int
) -> _Exchange | None:
    """One or two shards of the busiest rank, and none, one or two of another one."""
    costs, memory = shards.costs, shards.memory

    def sets(of: Whole) -> tuple[Floats, Whole]:
        """Costs and bytes of each one, then of each two."""
        one, two = of[_two(len(of))]
        return (
            np.concatenate([costs[of], costs[one] + costs[two]]),
            np.concatenate([memory[of], memory[one] + memory[two]]),
        )

    gives, bytes_given = sets(mine)
    best = loads[busiest] * (1 - 1e-12)
    found: _Exchange | None = None
    for rank in range(shards.ranks):
        if rank == busiest:
            continue
        theirs = np.flatnonzero(at == rank)
        takes, bytes_taken = sets(theirs)
        takes = np.concatenate([[0.0], takes])
        moved = bytes_given[:, None] - np.concatenate([[0], bytes_taken])[None, :]
        fits = (held[busiest] - moved <= shards.room) & (held[rank] + moved <= shards.room)
        given = gives[:, None] - takes[None, :]
        after = np.maximum(loads[busiest] - given, loads[rank] + given)
        after = np.where(fits, after, np.inf)
        place = np.unravel_index(int(np.argmin(after)), after.shape)
        if after[place] < best:
            best = after[place]
            coming = _set(theirs, int(place[1]) - 1) if place[1] else []
            found = _set(mine, int(place[0])), coming, rank
    return found


@functools.cache
def _two(count: int) -> Whole:
    """The first of each two of `count`, and the second."""
    return np.array(np.triu_indices(count, 1))


def _set(of: Whole, number: int) -> list[int]:
    """One of them, or two, in the order of `_pairs`."""
    if number < len(of):
        return [int(of[number])]
    found: list[int] = of[_two(len(of))[:, number - len(of)]].tolist()
    return found


def _exchange(
    shards: Shards, at: Whole, loads: Floats, held: Whole, mine: Whole, busiest: int
) -> _Exchange | None:
    """The shard that leaves the busiest rank, the one that comes for it, if any, and the other
    rank; `None` if nothing lowers the load."""
    costs, memory = shards.costs, shards.memory
    highest = loads[busiest]
    gives, bytes_given = costs[mine][:, None], memory[mine][:, None]
    # Moves: to any rank.
    there = np.where(held[None, :] + bytes_given <= shards.room, loads[None, :] + gives, np.inf)
    there[:, busiest] = np.inf
    after = np.maximum(there, highest - gives)
    best = highest * (1 - 1e-12)
    found: _Exchange | None = None
    place = np.unravel_index(int(np.argmin(after)), after.shape)
    if after[place] < best:
        best, found = after[place], ([int(mine[place[0]])], [], int(place[1]))
    # Swaps: with any shard elsewhere that costs less.
    others = np.flatnonzero((at != busiest) & (costs < gives.max()))
    if len(others):
        ranks, takes = at[others][None, :], costs[others][None, :]
        change = memory[others][None, :] - bytes_given
        fits = (held[busiest] + change <= shards.room) & (held[ranks] - change <= shards.room)
        after = np.maximum(loads[ranks] + gives - takes, highest - gives + takes)
        after = np.where(fits, after, np.inf)
        place = np.unravel_index(int(np.argmin(after)), after.shape)
        if after[place] < best:
            other = int(others[place[1]])
            found = ([int(mine[place[0]])], [other], int(at[other]))
    return found
