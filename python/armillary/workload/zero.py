"""Over which ranks ZeRO cuts parameters, and which rank owns what.

Here: groups and owners. Not here: the collectives (`stage.py`), bytes (`memory.py`). `n` = dp x cp
ranks hold the same dense parameters (twice that under DualPipe), and `n / ep` the same experts. A
shard is split over `g` = `zero_group` neighbours of them (`g / ep` for experts), and `n / g` groups
hold the same shards. Whole tensors are dealt largest first, each to the rank with the least so far.
Sources: Zhang et al. 2022, MiCS (arXiv:2205.00119); Zhao et al. 2023, hybrid sharding
(arXiv:2304.11277, section 3.2.2); whole tensors: PyTorch's `ZeroRedundancyOptimizer`,
InternLM/InternEvo (`solver/optimizer`)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..model.weights import Tensors, Weights
from .parallelism import Parallelism

REPLICAS = "replica"
"""The group of ranks that hold the same shard."""


class OwnedPart(NamedTuple):
    """Parameters of a rank that the same ranks hold."""

    group: str
    size: int
    """Ranks of the group."""
    held: int
    """Parameters."""


class Piece(NamedTuple):
    """Whole tensors of one owner, a position in the group."""

    group: str
    owner: int
    held: int
    """Parameters."""


def replicated(weights: Weights, par: Parallelism) -> list[OwnedPart]:
    """Groups of ranks that replicate parameters, or a rank that holds them alone."""
    return _parts(weights, par, par.copies, "dp", "edp")


def sharded(weights: Weights, par: Parallelism) -> list[OwnedPart]:
    """Groups of ranks over which ZeRO cuts parameters, or a rank that holds them alone."""
    if par.replicas == 1:
        return replicated(weights, par)
    return _parts(weights, par, par.shard_ranks, "zero", "ezero")


def _parts(
    weights: Weights, par: Parallelism, ranks: int, dense: str, expert: str
) -> list[OwnedPart]:
    if par.ep == 1:
        parts = [OwnedPart(dense, ranks, weights.total)]
    else:
        parts = [
            OwnedPart(dense, ranks, weights.dense),
            OwnedPart(expert, ranks * par.tp // (par.ep * par.expert_tp), weights.expert),
        ]
    return [part for part in parts if part.held]


def owned(weights: Weights, par: Parallelism) -> int:
    """Parameters that a rank updates where each tensor is cut, rounded up."""
    return sum(-(-part.held // part.size) for part in sharded(weights, par))


def several(par: Parallelism) -> set[str]:
    """Groups of more than one rank among those that ZeRO cuts over."""
    return {part.group for part in sharded(Weights(1, 1), par) if part.size > 1}


def pieces(units: Mapping[str, Tensors], par: Parallelism) -> dict[str, list[Piece]]:
    """Pieces of each unit on its owners, where whole tensors are distributed over ranks."""
    found: dict[str, list[Piece]] = {name: [] for name in units}
    for group, size, _ in sharded(Weights(1, 1), par):
        named = [
            (name, held) for name, unit in units.items() for held in _tensors(unit, group, par)
        ]
        for (name, held), owner in zip(named, deal([held for _, held in named], size), strict=True):
            found[name].append(Piece(group, owner, held))
    return {name: merged(each) for name, each in found.items()}


def _tensors(unit: Tensors, group: str, par: Parallelism) -> tuple[int, ...]:
    if par.ep == 1:
        return unit.dense + unit.expert
    return unit.expert if group in ("edp", "ezero") else unit.dense


def deal(sizes: Sequence[int], ranks: int) -> list[int]:
    """The rank that owns each of `sizes`: the largest first, to the rank with the least so far."""
    owners = [0] * len(sizes)
    heap = [(0, rank) for rank in range(ranks)]
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        load, owners[index] = heapq.heappop(heap)
        heapq.heappush(heap, (load + sizes[index], owners[index]))
    return owners


def merged(found: Sequence[Piece]) -> list[Piece]:
    """One piece for each owner, by group and owner."""
    totals: dict[tuple[str, int], int] = {}
    for piece in found:
        key = piece.group, piece.owner
        totals[key] = totals.get(key, 0) + piece.held
    return [Piece(*key, held) for key, held in sorted(totals.items())]


def most(found: Sequence[Piece]) -> int:
    """Parameters that the rank with most updates, of `merged` pieces: no rank has less of experts
    for it."""
    largest: dict[str, int] = {}
    for piece in found:
        largest[piece.group] = max(largest.get(piece.group, 0), piece.held)
    return sum(largest.values())
