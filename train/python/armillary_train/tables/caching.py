"""Caches of tables that are in slower memory or on a disk: docs/models/embedding-cache.md.

Here: how much memory each table's cache gets, and where its files are. Needs no torch. Not here:
the caches (`train/crates/embedding/src/cache`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from armillary.errors import InputError, Problem
from armillary.units import counted

from .table import WIDTHS, Table

CHECKPOINT = "checkpoint.json"
"""The file that makes tables in a folder a checkpoint: `folder.rs` of the caches in Rust."""

Policy = Literal["lru", "lfu"]
"""Which row leaves a full set: the least recently used, or the least frequently used."""


@dataclass(frozen=True, slots=True)
class Caching:
    """Memory for the caches of all tables of a process whose tier is `host` or `disk`."""

    memory: int
    """Bytes of all caches together, with all that belongs to them."""
    folder: str | None = None
    """Folder of the files of tables on disk. One process uses it at a time."""
    resume: bool = False
    """Whether tables go on from the folder's last checkpoint, if it has one. A folder with a
    checkpoint is refused otherwise."""
    policy: Policy = "lru"
    precision: Literal["float32"] | None = None
    """`float32`: rows of 16-bit tables are float32 in the cache, and are rounded when they leave
    it. Otherwise they are as in the table."""
    staged: bool = False
    """Whether the cached rows are in the memory of a GPU (`gpu_cache.py`)."""

    def settings(self, tables: Sequence[Table], numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Settings of the native engine for each table; empty for a table in memory. `numbers` are
        those of each table's state, for a row.

        Raises:
            InputError: tables on disk, but no folder; as `shares`.
        """
        for table in tables:
            if table.tier == "disk" and self.folder is None:
                said = "is on disk, but there is no folder for its rows"
                raise InputError([Problem("", f"table {table.name!r}", said, "--table-dir DIR")])
        shares = self.shares(tables, numbers)
        return [
            {
                "cache": {
                    "bytes": share,
                    "policy": self.policy,
                    "dtype": self.dtype(table),
                    "on_disk": table.tier == "disk",
                    "staged": self.staged,
                }
            }
            if table.tier != "device"
            else {}
            for table, share in zip(tables, shares, strict=True)
        ]

    def dtype(self, table: Table) -> str:
        """Type of a table's elements in its cache."""
        return self.precision or table.dtype

    def shares(self, tables: Sequence[Table], numbers: Sequence[int]) -> list[int]:
        """Bytes for the cache of each table. Small tables get all that they need; the others share
        the rest equally, because all features look up about the same number of rows.

        Raises `InputError`: too little memory for one set of each cache."""
        cached = [
            (place, _Sizes.of(table, WIDTHS[self.dtype(table)], count))
            for place, (table, count) in enumerate(zip(tables, numbers, strict=True))
            if table.tier != "device"
        ]
        cached.sort(key=lambda each: (each[1].whole, each[0]))
        sizes = [each for _, each in cached]
        found = _shared(self.memory, sizes)
        if any(share < size.least for share, size in zip(found, sizes, strict=True)):
            said = f"{self.memory:,} bytes for the caches of {counted(len(sizes), 'table')}"
            allowed = f"at least {_least(sizes):,} bytes, or fewer tables with caches"
            raise InputError([Problem("", "--cache", said, allowed)])
        shares = [0] * len(tables)
        for (place, _), share in zip(cached, found, strict=True):
            shares[place] = share
        return shares

    def of_part(self, name: str, memory: int) -> Caching:
        """Caches of some of the tables, in a folder in this one."""
        folder = None if self.folder is None else str(Path(self.folder) / name)
        return replace(self, memory=memory, folder=folder)


def folder_of(rank: int, ranks: int) -> str:
    """The folder of a rank's tables, in the folder of all."""
    return f"rank-{rank}-of-{ranks}"


def folders_in(folder: str) -> Iterator[tuple[int | None, Path]]:
    """The folders with tables in a folder, and the number of ranks of each; `None` for that of one
    process without a plan."""
    yield None, Path(folder)
    for path in sorted(Path(folder).glob("rank-*-of-*/*")):
        found = re.fullmatch(r"rank-[0-9]+-of-([0-9]+)", path.parent.name)
        if found is not None:
            yield int(found[1]), path


def require_ranks(folder: str, ranks: int | None) -> None:
    """Raises `InputError` if a folder has a checkpoint of another number of `ranks`, whose tables
    would not be found."""
    for others, path in folders_in(folder):
        if others != ranks and (path / CHECKPOINT).exists():
            of = "one process without a plan" if others is None else counted(others, "rank")
            said = f"the folder has a checkpoint of {of}"
            raise InputError([Problem(folder, "", said, f"another folder, or a run of {of}")])


class _Sizes(NamedTuple):
    """Bytes of a table's cache."""

    whole: int
    """With room for all rows."""
    least: int
    """With room for one set."""

    @classmethod
    def of(cls, table: Table, width: int, numbers: int) -> _Sizes:
        """Rows, their state, and the directory's 18 bytes; for a file 5 bytes of index for each
        row, and a segment."""
        scales = 8 if table.dtype == "int8" else 0
        state = scales + 4 * numbers
        each = 32 * (table.dim * width + state + 18)
        record = table.dim * WIDTHS[table.dtype] + state + 8
        fixed = 5 * table.rows + max(2**20, record) if table.tier == "disk" else 0
        return cls(fixed + -(-table.rows // 32) * each, fixed + each)


def _shared(memory: int, sizes: Sequence[_Sizes]) -> list[int]:
    """Memory shared out to caches, the smallest table first."""
    found = []
    for done, size in enumerate(sizes):
        found.append(min(size.whole, memory // (len(sizes) - done)))
        memory -= found[-1]
    return found


def _least(sizes: Sequence[_Sizes]) -> int:
    """The least memory with which every cache has room for a set."""
    low, high = 0, sum(size.whole for size in sizes)
    while low < high:
        middle = (low + high) // 2
        shares = _shared(middle, sizes)
        if all(share >= size.least for share, size in zip(shares, sizes, strict=True)):
            high = middle
        else:
            low = middle + 1
    return low
