"""Changing how single tables are sharded, to lower the greatest load of a plan.

All tables with shards up to one limit is too coarse where few tables are large: 100 tables cut over
the ranks of 16 nodes leave nodes with 6 and with 7. Here a table of the busiest rank takes another
way, and its shards go where the loads are least. A change counts if it lowers the sum of the loads
to the power of 16, which falls with the greatest load and with the number of ranks that have it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .bound import Menu
from .costs import Way
from .partition import Floats, Shards, Whole, improved
from .placed import Placed

POWER = 16
_TABLES = 24
"""Tables of the busiest rank that are tried, the costliest first."""


def refined(
    menu: Menu, start: Placed, room: int, ranks_per_node: int, floor: float, steps: int
) -> Placed:
    """`start` after at most `steps` changes, each the best of those of the busiest rank."""
    state = _State(start, ranks_per_node, room)
    for _ in range(steps):
        busiest = int(np.argmax(state.loads))
        if state.loads[busiest] <= floor:
            break
        best: tuple[float, int, Way, tuple[int, ...]] | None = None
        before = state.score(state.loads)
        for table in state.tables_of(busiest):
            without = state.without(table)
            for way in menu.ways[table]:
                found = state.tried(way, *without)
                limit = before * (1 - 1e-9) if best is None else best[0]
                if found is not None and found[0] < limit:
                    best = (found[0], table, way, found[1])
        if best is None:
            break
        state.change(*best[1:])
    return Placed(tuple(state.ways), tuple(state.places), state.loads, state.held)


def kicked(
    menu: Menu, start: Placed, room: int, ranks_per_node: int, random: np.random.Generator
) -> Placed:
    """`start` with a few tables sharded another way, or elsewhere, at random: where a new search
    may begin."""
    state = _State(start, ranks_per_node, room)
    ranks = len(start.loads)
    busiest = state.tables_of(int(np.argmax(state.loads)))
    for number in range(3):
        among = busiest if number == 0 and busiest else range(len(menu.ways))
        table = int(random.choice(list(among)))
        options = menu.ways[table]
        way = options[int(random.integers(len(options)))]
        if state.ways[table].scheme == "table" and random.integers(2):
            place = int(random.integers(ranks))
            if state.held[place] + state.ways[table].memory[0] <= room:
                state.change(table, state.ways[table], (place,))
            continue
        found = state.tried(way, *state.without(table))
        if found is not None:
            state.change(table, way, found[1])
    return Placed(tuple(state.ways), tuple(state.places), state.loads, state.held)


def moved(start: Placed, used: Whole, room: int, ranks_per_node: int, floor: float) -> Placed:
    """`start` after moves and swaps of the shards that are on one rank each."""
    base, held = np.zeros(len(used)), used.copy()
    costs: list[float] = []
    memory: list[int] = []
    at: list[int] = []
    for way, places in zip(start.ways, start.places, strict=True):
        if way.place == "rank":
            costs += way.costs
            memory += way.memory
            at += places
        else:
            first = places[0] * ranks_per_node if places else 0
            part = slice(first, first + ranks_per_node) if places else slice(None)
            base[part] += way.costs[0]
            held[part] += way.memory[0]
    shards = Shards(np.array(costs), np.array(memory, np.int64), base, held, room, ranks_per_node)
    better = improved(shards, np.array(at, np.int64), floor)
    ranks = iter(better.tolist())
    after: list[tuple[int, ...]] = [
        tuple(next(ranks) for _ in way.costs) if way.place == "rank" else there
        for way, there in zip(start.ways, start.places, strict=True)
    ]
    return Placed(start.ways, tuple(after), shards.loads(better), shards.held(better))


class _State:
    """A plan that changes."""

    def __init__(self, start: Placed, ranks_per_node: int, room: int) -> None:
        self.ways, self.places = list(start.ways), list(start.places)
        self.loads, self.held = start.loads.copy(), start.memory.copy()
        self.each, self.room = ranks_per_node, room
        self.scale = start.highest

    def score(self, loads: Floats) -> float:
        """The sum that changes lower."""
        return float(((loads / self.scale) ** POWER).sum())

    def tables_of(self, rank: int) -> list[int]:
        """Tables with a part on a rank, the costliest there first."""
        there = []
        for table, (way, places) in enumerate(zip(self.ways, self.places, strict=True)):
            if way.place == "all" or (way.place == "node" and places[0] == rank // self.each):
                there.append((-way.costs[0], table))
            elif way.place == "rank" and rank in places:
                there.append((-way.costs[places.index(rank)], table))
        return [table for _, table in sorted(there)[:_TABLES]]

    def _parts(self, way: Way, places: tuple[int, ...]) -> Iterator[tuple[slice, float, int]]:
        if way.place == "all":
            yield slice(None), way.costs[0], way.memory[0]
        elif way.place == "node":
            first = places[0] * self.each
            yield slice(first, first + self.each), way.costs[0], way.memory[0]
        else:
            for place, cost, memory in zip(places, way.costs, way.memory, strict=True):
                yield slice(place, place + 1), cost, memory

    def without(self, table: int) -> tuple[Floats, Whole]:
        """Loads and bytes of the ranks without a table."""
        loads, held = self.loads.copy(), self.held.copy()
        for part, cost, memory in self._parts(self.ways[table], self.places[table]):
            loads[part] -= cost
            held[part] -= memory
        return loads, held

    def tried(
        self, way: Way, before: Floats, bytes_: Whole
    ) -> tuple[float, tuple[int, ...]] | None:
        """The score with a table sharded this way on ranks that have loads and bytes `before`, and
        where its shards go; `None` without room."""
        loads, held = before.copy(), bytes_.copy()
        places: list[int] = []
        if way.place == "all":
            loads += way.costs[0]
            held += way.memory[0]
        elif way.place == "node":
            nodes = loads.reshape(-1, self.each).max(1)
            full = held.reshape(-1, self.each).max(1) + way.memory[0] > self.room
            nodes = np.where(full, np.inf, nodes)
            places.append(int(np.argmin(nodes)))
            part = slice(places[0] * self.each, (places[0] + 1) * self.each)
            loads[part] += way.costs[0]
            held[part] += way.memory[0]
        else:
            for cost, memory in zip(way.costs, way.memory, strict=True):
                place = int(np.where(held + memory > self.room, np.inf, loads).argmin())
                places.append(place)
                loads[place] += cost
                held[place] += memory
        if held.max() > self.room:
            return None
        return self.score(loads), tuple(places)

    def change(self, table: int, way: Way, places: tuple[int, ...]) -> None:
        """Shards a table another way."""
        self.loads, self.held = self.without(table)
        for part, cost, memory in self._parts(way, places):
            self.loads[part] += cost
            self.held[part] += memory
        self.ways[table], self.places[table] = way, places
