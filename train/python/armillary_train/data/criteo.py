"""Criteo's click logs as published: text files with tabs, compressed by gzip or not.

Here: their order, and batches of lines. Not here: blocks of text (`text.py`), what is in a line
(`recipe.py`), made-up logs (`synthetic.py`).

A line is `<label> <13 counts> <26 categories>`, as `recipe.criteo` says.

The order is that of time. Held out for evaluation are the last days: of a folder, its last files;
of a single file, its last sevenths, because the Kaggle set is seven days in one file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import InputError, Problem
from armillary.natural_order import natural_order
from armillary.units import counted

from .. import _train
from .columns import Columns, join, samples_of
from .log_days import train_lines
from .recipe import criteo
from .samples import ALL, START, Part, Position, Turn, identity, share
from .text import count_lines, parse, read_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROUP = 2**15
"""Lines that are parsed at a time, about."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Consecutive lines of a file."""

    path: Path
    first: int = 0
    count: int | None = None
    """`None`: to the end of the file."""


@dataclass(frozen=True)
class Criteo:
    """Click logs in `files`, for tables of `rows` rows."""

    files: tuple[Lines, ...]
    rows: tuple[int, ...]
    _parser: _train.TextRecipe = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parser = criteo().with_rows(self.rows, "").parser()
        object.__setattr__(self, "_parser", parser)

    @property
    def size(self) -> int | None:
        """Samples of one pass, where the lines are counted."""
        counts = [each.count for each in self.files]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def identity(self) -> str:
        """As `Source.identity`: by the names and sizes of the files."""
        files = [(each.path.name, _size(each.path), each.first, each.count) for each in self.files]
        return identity("criteo", files, self.rows)

    def parts(
        self, batch: int, rank: int, ranks: int, start: Position = START, turn: Turn = ALL
    ) -> Iterator[Part]:
        """As `Source.parts`. Raises `InputError` naming file, line and field."""
        waiting: list[tuple[int, int, Position, _Piece]] = []
        lines = 0
        batches = _batches(self.files, batch, start.sample)
        for first, whole, pieces in islice(batches, turn[0], None, turn[1]):
            mine = share(whole, rank, ranks)
            after = Position(start.epoch, first + whole)
            waiting.append((first + mine.start, whole, after, _cut(pieces, mine)))
            lines += len(mine)
            if lines >= _GROUP:
                yield from self._parsed(waiting)
                waiting, lines = [], 0
        yield from self._parsed(waiting)

    def bound(self, first: int, count: int) -> None:
        """`None`: the probabilities behind these clicks are unknown."""

    def _parsed(self, waiting: list[tuple[int, int, Position, _Piece]]) -> Iterator[Part]:
        """The parts of several batches, parsed together."""
        columns, place = self._values([piece for _, _, _, piece in waiting]), 0
        for first, whole, after, piece in waiting:
            mine = columns.cut(place, place + piece.count)
            place += piece.count
            yield Part(samples_of(mine), first, whole, after)

    def _values(self, pieces: list[_Piece]) -> Columns:
        """The columns of the lines of all pieces."""
        runs = [run for piece in pieces for run in piece.runs]
        text = b"".join(piece.text for piece in pieces)
        return join(parse(self._parser, text, 1, runs))


@dataclass(frozen=True, slots=True)
class _Piece:
    """The text of a rank's lines of a batch, and where each of its runs of lines is."""

    text: bytes
    runs: tuple[tuple[Path, int, int], ...]
    """File, number of the first line (from 1), lines."""

    @property
    def count(self) -> int:
        return sum(lines for _, _, lines in self.runs)


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive lines of a file in memory: line `i` ends before `ends[i]`."""

    path: Path
    number: int
    """Number of the first line, from 1."""
    block: bytes
    start: int
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def part(self, first: int, last: int) -> _Run:
        """Lines `first` to `last - 1`."""
        start = int(self.ends[first - 1]) if first else self.start
        return _Run(self.path, self.number + first, self.block, start, self.ends[first:last])

    @property
    def text(self) -> bytes:
        return self.block[self.start : int(self.ends[-1])] if len(self) else b""


def open_files(path: Path, rows: Sequence[int], held_out: int) -> tuple[Criteo, Criteo]:
    """The logs at `path`, a file or a folder of one file for each day: those to train on, and the
    last `held_out` days to evaluate on.

    Raises `InputError` when there are none, or fewer than `held_out + 1` days."""
    if path.is_dir():
        files = sorted(
            (each for each in path.iterdir() if each.is_file()),
            key=lambda each: natural_order(each.name),
        )
        if len(files) <= held_out:
            said = f"{counted(len(files), 'file')}, and {held_out} held out for evaluation"
            raise InputError(
                [Problem(str(path), "", said, f"at least {counted(held_out + 1, 'file')}")]
            )
        lines = [Lines(each) for each in files]
        return (
            Criteo(tuple(lines[:-held_out]), tuple(rows)),
            Criteo(tuple(lines[-held_out:]), tuple(rows)),
        )
    count = count_lines(path)
    train = train_lines(count, held_out, path)
    first, last = Lines(path, 0, train), Lines(path, train, count - train)
    return Criteo((first,), tuple(rows)), Criteo((last,), tuple(rows))


def _size(path: Path) -> int | None:
    """Bytes of the file, if there is one."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return None


def _runs(lines: Lines) -> Iterator[_Run]:
    """The lines, in runs as they are read."""
    number, last = 0, None if lines.count is None else lines.first + lines.count
    for block, _ in read_blocks(lines.path):
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
        run = _Run(lines.path, number + 1, block, 0, ends)
        begin = min(max(lines.first - number, 0), len(run))
        stop = len(run) if last is None else min(max(last - number, 0), len(run))
        number += len(run)
        if stop > begin:
            yield run.part(begin, stop)
        if last is not None and number >= last:
            return


def _batches(
    files: Sequence[Lines], batch: int, skip: int
) -> Iterator[tuple[int, int, list[_Run]]]:
    """Batches of the lines behind the first `skip`: the index of the first one, their number, and
    the lines."""
    first, held, lines, over = skip, 0, list[_Run](), skip
    for each in files:
        for run in _runs(each):
            left = run.part(min(over, len(run)), len(run))
            over -= len(run) - len(left)
            while held + len(left) >= batch:
                need = batch - held
                lines.append(left.part(0, need))
                yield first, batch, lines
                first, held, lines, left = first + batch, 0, [], left.part(need, len(left))
            if len(left):
                lines.append(left)
                held += len(left)
    if held:
        yield first, held, lines


def _cut(runs: list[_Run], mine: range) -> _Piece:
    """The lines `mine` of a batch."""
    texts, kept, place = [], [], 0
    for run in runs:
        begin, stop = max(mine.start - place, 0), min(mine.stop - place, len(run))
        place += len(run)
        if stop > begin:
            part = run.part(begin, stop)
            texts.append(part.text)
            kept.append((part.path, part.number, len(part)))
    return _Piece(b"".join(texts), tuple(kept))
