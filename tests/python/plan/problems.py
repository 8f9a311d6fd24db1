"""Random planning problems, the same for everyone: tables, ranks and room by seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from armillary.model.dlrm import EmbeddingTable
from armillary.plan.costs import Sizes, Way, volume_rates, ways
from armillary.plan.search import Found, search


@dataclass(frozen=True)
class Instance:
    """Tables to plan."""

    tables: tuple[EmbeddingTable, ...]
    sizes: Sizes
    room: int

    @property
    def ways(self) -> list[list[Way]]:
        """Ways of each table, with the volume costs."""
        return [ways(table, self.sizes, volume_rates()) for table in self.tables]

    def search(self) -> Found:
        """Our plan."""
        used = np.zeros(self.sizes.ranks, np.int64)
        return search(self.ways, used, self.room, self.sizes.ranks_per_node)


def tables(count: int, random: np.random.Generator) -> tuple[EmbeddingTable, ...]:
    """Tables with log-uniform rows, widths as they occur, and Poisson pooling."""
    rows = np.exp(random.uniform(np.log(1e3), np.log(2e7), count)).astype(int)
    dims = random.choice([16, 32, 64, 96, 128, 192, 256], count)
    pooling = np.maximum(1, random.poisson(16, count))
    numbers = zip(rows.tolist(), dims.tolist(), pooling.tolist(), strict=True)
    return tuple(EmbeddingTable(f"t{at}", *each) for at, each in enumerate(numbers))


def sizes(ranks: int, ranks_per_node: int) -> Sizes:
    """16-bit tables and messages, 512 samples of a rank, row-wise AdaGrad."""
    return Sizes(ranks, ranks_per_node, 512, 2, 4, 2, 2, 8, "rowwise_adagrad")


def instance(seed: int) -> Instance:
    """A problem of 5 to 60 tables and 2 to 32 ranks, from roomy to tight."""
    random = np.random.default_rng(seed)
    node = int(random.choice([2, 4, 8]))
    ranks = node * int(random.choice([1, 2, 4]))
    made = tables(int(random.integers(5, 61)), random)
    held = sizes(ranks, node)
    least = sum(min(sum(way.memory) for way in ways(t, held, volume_rates())[:1]) for t in made)
    room = int(least / ranks * float(random.choice([1.15, 1.5, 3.0])))
    return Instance(made, held, room)


def loads_anywhere(way: Way, sizes: Sizes) -> NDArray[np.float64]:
    """Cost of a way for each rank, [places, ranks], wherever its shards may be."""
    return _everywhere(way, way.costs, sizes)


def bytes_anywhere(way: Way, sizes: Sizes) -> NDArray[np.float64]:
    """The same in bytes."""
    return _everywhere(way, way.memory, sizes)


def _everywhere(way: Way, amounts: Sequence[float], sizes: Sizes) -> NDArray[np.float64]:
    ranks, each = sizes.ranks, sizes.ranks_per_node
    if way.place == "all":
        return np.full((1, ranks), amounts[0], float)
    if way.place == "node":
        return np.kron(np.eye(ranks // each), np.full(each, amounts[0], float))
    spots = np.array(list(itertools.product(range(ranks), repeat=len(amounts))))
    found: NDArray[np.float64] = np.eye(ranks)[spots].transpose(0, 2, 1) @ np.array(amounts, float)
    return found
