"""The collections of one rank: those of its shards and of its copies, each with its caches.

Here: making them. Not here: what they do in a step (`sharded.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from .caching import Caching
from .embedding import EmbeddingCollection, numbers_of
from .exchange import Exchange
from .optimizers import Optimizer
from .tables import Feature, Table

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
) -> tuple[EmbeddingCollection, ...]:
    """A collection for each part. Raises `InputError` as `EmbeddingCollection`; with `caching`,
    which may fail on one rank only, on all ranks."""
    try:
        return tuple(
            EmbeddingCollection(
                *part,
                optimizer,
                seed=seed,
                threads=threads,
                refuse_not_finite=False,
                caching=each,
            )
            for part, each in zip(parts, _caches(caching, parts, optimizer, exchange), strict=True)
        )
    except InputError as error:
        if caching is not None:
            exchange.fail(error)
            exchange.meet("save", [])
        raise


def _caches(
    caching: Caching | None, parts: Sequence[Part], optimizer: Optimizer, exchange: Exchange
) -> list[Caching | None]:
    """The caches of each part: its share of the memory, and a folder of its own."""
    if caching is None:
        return [None] * len(parts)
    tables = [table for part, _ in parts for table in part]
    shares = iter(caching.shares(tables, [numbers_of(optimizer, table) for table in tables]))
    sums = [sum(next(shares) for _ in part) for part, _ in parts]
    place = f"rank-{exchange.rank}-of-{exchange.size}"
    return [caching.of_part(f"{place}/{at}", memory) for at, memory in enumerate(sums)]
