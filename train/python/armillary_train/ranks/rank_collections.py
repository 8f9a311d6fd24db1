"""The collections of one rank: those of its shards and of its copies, each with its caches.

Here: making them. Not here: what they do in a step (`sharded.py`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from armillary.errors import InputError, Problem

from ..tables.caching import Caching, folder_of, require_ranks
from ..tables.embedding import EmbeddingCollection, numbers_of
from ..tables.optimizers import Optimizer
from ..tables.table import Feature, Table
from .exchange import Exchange

Part = tuple[list[Table], list[Feature]]
"""Tables of one collection, and their features."""


def made_collections(
    parts: Sequence[Part],
    optimizer: Optimizer,
    caching: Caching | None,
    exchange: Exchange,
    *,
    seed: int,
    threads: int,
    gpu: torch.device | str | None = None,
) -> tuple[EmbeddingCollection, ...]:
    """A collection for each part, on a GPU if there is one. Raises `InputError` as
    `EmbeddingCollection`; with `caching` or `gpu`, where one rank may fail alone, on all ranks."""
    try:
        return tuple(
            _made(part, optimizer, each, gpu, seed=seed, threads=threads)
            for part, each in zip(parts, _caches(caching, parts, optimizer, exchange), strict=True)
        )
    except InputError as error:
        if caching is not None or gpu is not None:
            exchange.fail(error)
            exchange.meet("save", [])
        raise


def _made(
    part: Part,
    optimizer: Optimizer,
    caching: Caching | None,
    gpu: torch.device | str | None,
    *,
    seed: int,
    threads: int,
) -> EmbeddingCollection:
    if gpu is None:
        return EmbeddingCollection(
            *part,
            optimizer,
            seed=seed,
            threads=threads,
            refuse_not_finite=False,
            caching=caching,
        )
    from ..tables.gpu import GpuEmbeddingCollection
    from ..tables.gpu_cache import CachedGpuEmbeddingCollection

    tiers = {table.tier == "device" for table in part[0]}
    if len(tiers) > 1:
        names = [table.name for table in part[0] if table.tier == "device"]
        said = "is in the memory of the GPU, next to tables behind its caches"
        allowed = "one tier for all tables of a rank"
        raise InputError([Problem("", f"table {names[0]!r}", said, allowed)])
    if caching is None or True in tiers:
        return GpuEmbeddingCollection(
            *part, optimizer, seed=seed, refuse_not_finite=False, device=gpu
        )
    return CachedGpuEmbeddingCollection(
        *part,
        optimizer,
        caching=caching,
        seed=seed,
        threads=threads,
        refuse_not_finite=False,
        device=gpu,
    )


def _caches(
    caching: Caching | None, parts: Sequence[Part], optimizer: Optimizer, exchange: Exchange
) -> list[Caching | None]:
    """The caches of each part: its share of the memory, and a folder of its own."""
    if caching is None:
        return [None] * len(parts)
    tables = [table for part, _ in parts for table in part]
    shares = iter(caching.shares(tables, [numbers_of(optimizer, table) for table in tables]))
    sums = [sum(next(shares) for _ in part) for part, _ in parts]
    if caching.folder is not None:
        require_ranks(caching.folder, exchange.size)
    place = folder_of(exchange.rank, exchange.size)
    return [caching.of_part(f"{place}/{at}", memory) for at, memory in enumerate(sums)]
