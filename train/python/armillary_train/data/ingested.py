"""Samples that `armillary ingest` wrote, as a source to train on.

Here: batches of the samples of a split. Not here: the format (`dataset.py`), how the files are made
(`ingest.py`)."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import InputError, Problem
from armillary.units import counted

from .columns import Columns, join, samples_of
from .dataset import MANIFEST, SPLITS, Manifest, open_file, read_manifest
from .samples import ALL, START, Part, Position, Samples, Turn, identity, narrowed, share

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Ingested:
    """The samples of a split, for tables of `rows` rows."""

    folder: Path
    manifest: Manifest
    split: str
    rows: tuple[int, ...]
    _starts: list[int] = field(init=False, repr=False)
    """Samples before each file, and all of them."""
    _open: dict[int, Columns] = field(init=False, repr=False)
    _modulus: NDArray[np.int64] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        files = self.manifest.splits[self.split]
        starts = list(accumulate((each.samples for each in files), initial=0))
        whole = any(each.rows is None for each in self.manifest.categories)
        modulus = np.array(self.rows, np.int64)[:, None] if whole else None
        object.__setattr__(self, "_starts", starts)
        object.__setattr__(self, "_open", {})
        object.__setattr__(self, "_modulus", modulus)

    @property
    def size(self) -> int:
        """Samples of one pass."""
        return self._starts[-1]

    @property
    def identity(self) -> str:
        """As `Source.identity`: by the checksums of the files, wherever they are."""
        files = self.manifest.splits[self.split]
        sums = [(each.samples, sorted(each.record.tensors.items())) for each in files]
        return identity("ingested", sums, self.rows)

    def parts(
        self, batch: int, rank: int, ranks: int, start: Position = START, turn: Turn = ALL
    ) -> Iterator[Part]:
        """As `Source.parts`. Raises `InputError` naming a file that is not as it was written."""
        for first in range(start.sample + turn[0] * batch, self.size, turn[1] * batch):
            whole = min(batch, self.size - first)
            mine = share(whole, rank, ranks)
            samples = self.samples(first + mine.start, first + mine.stop)
            yield Part(samples, first + mine.start, whole, Position(start.epoch, first + whole))

    def bound(self, first: int, count: int) -> None:
        """`None`: the probabilities behind these clicks are unknown."""

    def samples(self, first: int, last: int) -> Samples:
        """Samples `first` to `last - 1` of the split."""
        parts, at = [], bisect.bisect_right(self._starts, first) - 1
        while True:
            start = self._starts[at]
            if at == len(self._starts) - 1:
                parts.append(self._file(at - 1).cut(0, 0))
                break
            columns = self._file(at)
            parts.append(columns.cut(max(first - start, 0), min(last - start, len(columns))))
            at += 1
            if self._starts[at] >= last:
                break
        if len({each.lengths is None for each in parts}) > 1:
            said = "some files have lengths of categories, and others none"
            raise InputError(
                [Problem(str(self.folder), "", said, "the files as they were written")]
            )
        return samples_of(self._rows_of(join(parts)))

    def _file(self, at: int) -> Columns:
        """The columns of a file. The last two files stay open."""
        found = self._open.get(at)
        if found is None:
            file = self.manifest.splits[self.split][at]
            categories, dense = self.manifest.categories, self.manifest.dense
            found = open_file(self.folder, file, len(categories), len(dense))
            while len(self._open) > 1:
                del self._open[next(iter(self._open))]
            self._open[at] = found
        return found

    def _rows_of(self, columns: Columns) -> Columns:
        """With rows in place of values that are whole."""
        if self._modulus is None:
            return columns
        if columns.lengths is None:
            modulus = np.broadcast_to(self._modulus, (columns.categories, len(columns))).ravel()
        else:
            modulus = np.repeat(self._modulus.ravel(), columns.lengths.sum(axis=1))
        indices = narrowed(columns.indices % modulus, self.rows)
        lengths, categories = columns.lengths, columns.categories
        return Columns(columns.labels, columns.dense, lengths, indices, categories)


def open_dataset(folder: Path, rows: Sequence[int], dense: int) -> tuple[Ingested, Ingested]:
    """The samples in a folder to train on, and those to evaluate on, for a model with tables of
    `rows` rows and `dense` inputs. Raises `InputError` when they don't fit."""
    manifest = read_manifest(folder)
    problems = list(_manifest_problems(str(folder / MANIFEST), manifest, rows, dense))
    if problems:
        raise InputError(problems)
    train, held_out = (Ingested(folder, manifest, each, tuple(rows)) for each in SPLITS)
    return train, held_out


def _manifest_problems(
    file: str, manifest: Manifest, rows: Sequence[int], dense: int
) -> Iterator[Problem]:
    if len(manifest.dense) != dense:
        said = f"has {len(manifest.dense)} dense columns"
        yield Problem(file, "dense", said, f"{dense}: what the model reads")
    categories = manifest.categories
    if len(categories) != len(rows):
        said = f"has {counted(len(categories), 'category')}"
        yield Problem(file, "categories", said, f"{len(rows)}: the tables of the model")
        return
    for each, wanted in zip(categories, rows, strict=True):
        if each.rows not in (None, wanted):
            said = f"was ingested for a table of {counted(each.rows, 'row')}"
            allowed = f"{wanted:,}: those of the model (armillary ingest --model)"
            yield Problem(file, f"categories: {each.name}", said, allowed)
