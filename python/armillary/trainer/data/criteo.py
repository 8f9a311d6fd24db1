"""Criteo's click logs as published: text files with tabs, compressed by gzip or not.

Here: reading them, fast and with every fault located. Not here: made-up logs (`synthetic.py`).

A line is `<label> <13 counts> <26 categories>`: the label 0 or 1, counts whole numbers, categories
of 32 bits in hexadecimal; counts and categories may be missing. A missing count is 0. A category is
the row `value mod rows` of its table, a missing one is the value 0.

The order is that of time. Held out for evaluation are the last days: of a folder, its last files;
of a single file, its last sevenths, because the Kaggle set is seven days in one file."""

from __future__ import annotations

import contextlib
import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl

from ...errors import InputError, Problem
from .samples import DENSE, START, Part, Position, Samples, identity, logarithms, narrowed, share

if TYPE_CHECKING:
    from numpy.typing import NDArray

CATEGORIES = 26
"""Categories of a line."""

DAYS_OF_A_FILE = 7
"""Days of the Kaggle set, which is one file."""

_BLOCK = 2**22
"""Bytes read at a time."""
_GROUP = 2**15
"""Lines that are parsed at a time, about."""
_LABEL, _COUNTS = "label", [f"count {index}" for index in range(1, DENSE + 1)]
_CATEGORIES = [f"category {index}" for index in range(1, CATEGORIES + 1)]
_SCHEMA: dict[str, type[pl.DataType]] = {
    _LABEL: pl.Int32,
    **dict.fromkeys(_COUNTS, pl.Int32),
    **dict.fromkeys(_CATEGORIES, pl.String),
}
_WHOLE = re.compile(r"-?[0-9]{1,9}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,8}")


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
    _modulus: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.rows) != CATEGORIES:
            said = f"the model has {len(self.rows)} tables"
            raise InputError([Problem("", "", said, f"{CATEGORIES}: the categories of a line")])
        object.__setattr__(self, "_modulus", np.array(self.rows, np.int64)[:, None])

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

    def parts(self, batch: int, rank: int, ranks: int, start: Position = START) -> Iterator[Part]:
        """As `Source.parts`. Raises `InputError` naming file, line and field."""
        waiting: list[tuple[int, int, Position, _Piece]] = []
        lines = 0
        for first, whole, pieces in _batches(self.files, batch, start.sample):
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
        labels, counts, ids = self._values([piece for _, _, _, piece in waiting])
        dense, place = logarithms(counts), 0
        for first, whole, after, piece in waiting:
            here = slice(place, place + piece.count)
            place += piece.count
            lengths = np.ones((CATEGORIES, piece.count), np.int32)
            indices = narrowed(ids[:, here].ravel(), self.rows)
            yield Part(Samples(dense[here], lengths, indices, labels[here]), first, whole, after)

    def _values(
        self, pieces: list[_Piece]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
        """Labels [n], counts [n, 13] and rows [26, n] of the lines of all pieces."""
        text = b"".join(piece.text for piece in pieces)
        count = sum(piece.count for piece in pieces)
        if not count:
            return (
                np.empty(0, np.float32),
                np.empty((0, DENSE), np.int32),
                np.empty((CATEGORIES, 0), np.int64),
            )
        if text.count(b"\t") != count * (DENSE + CATEGORIES):
            raise _fault(pieces)
        try:
            frame = pl.read_csv(
                text, separator="\t", has_header=False, schema=_SCHEMA, quote_char=None
            )
            # A number of 16 digits at most fits; what is longer than 8 is refused below.
            ids = frame.select(
                pl.col(name).str.to_integer(base=16, dtype=pl.Int64).fill_null(0)
                for name in _CATEGORIES
            ).to_numpy()
        except pl.exceptions.PolarsError:
            raise _fault(pieces) from None
        labels = frame[_LABEL].to_numpy()
        wrong = len(frame) != count or frame[_LABEL].null_count() or ((labels >> 1) != 0).any()
        if wrong or (ids >> 32).any():
            raise _fault(pieces)
        counts = frame.select(pl.col(name).fill_null(0) for name in _COUNTS).to_numpy()
        return labels.astype(np.float32), counts, ids.T % self._modulus


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
    """Of the first line, from 1."""
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
        files = sorted((each for each in path.iterdir() if each.is_file()), key=_natural)
        if len(files) <= held_out:
            said = f"{len(files)} files, and the last {held_out} are held out for evaluation"
            raise InputError([Problem(str(path), "", said, f"at least {held_out + 1} days")])
        lines = [Lines(each) for each in files]
        return (
            Criteo(tuple(lines[:-held_out]), tuple(rows)),
            Criteo(tuple(lines[-held_out:]), tuple(rows)),
        )
    if held_out >= DAYS_OF_A_FILE:
        said = f"{held_out} of the {DAYS_OF_A_FILE} parts of a single file are held out"
        allowed = f"at most {DAYS_OF_A_FILE - 1}"
        raise InputError([Problem(str(path), "--held-out", said, allowed)])
    count = _count_lines(path)
    train = count * (DAYS_OF_A_FILE - held_out) // DAYS_OF_A_FILE
    if not 0 < train < count:
        said = f"has {count} lines, which is too few to hold some out"
        raise InputError([Problem(str(path), "", said, f"at least {DAYS_OF_A_FILE} lines")])
    first, last = Lines(path, 0, train), Lines(path, train, count - train)
    return Criteo((first,), tuple(rows)), Criteo((last,), tuple(rows))


def _natural(path: Path) -> list[int | str]:
    """`day_9` before `day_10`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", path.name)]


def _size(path: Path) -> int | None:
    """Bytes of the file, if there is one."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return None


@contextlib.contextmanager
def _open(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    try:
        stream = path.open("rb")
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
    except OSError as error:
        said = f"can't be read: {error.strerror or error}"
        raise InputError([Problem(str(path), "", said, "a file of Criteo's logs")]) from None
    with (
        stream,
        gzip.GzipFile(fileobj=stream) if packed else contextlib.nullcontext(stream) as text,
    ):
        yield text


def _blocks(path: Path) -> Iterator[bytes]:
    """The file's text in blocks that end with a line."""
    rest = b""
    with _open(path) as stream:
        while True:
            try:
                block = stream.read(_BLOCK)
            except (OSError, EOFError) as error:
                said = f"can't be read to its end: {error}"
                raise InputError([Problem(str(path), "", said, "a whole file")]) from None
            if not block:
                break
            end = block.rfind(b"\n") + 1
            if not end and len(rest) > _BLOCK:
                said = f"a line of more than {_BLOCK} bytes"
                raise InputError([Problem(str(path), "", said, "lines of about 240 bytes")])
            if end:
                yield rest + block[:end]
                rest = block[end:]
            else:
                rest += block
    if rest:
        yield rest + b"\n"


def _count_lines(path: Path) -> int:
    return sum(block.count(b"\n") for block in _blocks(path))


def _runs(lines: Lines) -> Iterator[_Run]:
    """The lines, in runs as they are read."""
    number, last = 0, None if lines.count is None else lines.first + lines.count
    for block in _blocks(lines.path):
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


def _fault(pieces: list[_Piece]) -> InputError:
    """What is wrong with the first wrong lines, looked for line by line."""
    problems: list[Problem] = []
    for piece in pieces:
        numbers = (
            (path, number + index) for path, number, lines in piece.runs for index in range(lines)
        )
        for (path, number), line in zip(numbers, piece.text.split(b"\n"), strict=False):
            problems += _faults(str(path), number, line)
            if len(problems) >= _MOST_PROBLEMS:
                return InputError(problems)
    path, number, _ = pieces[0].runs[0]
    unread = Problem(
        str(path), f"line {number} and those behind it", "can't be read", "lines as published"
    )
    return InputError(problems or [unread])


_MOST_PROBLEMS = 20


def _faults(file: str, number: int, line: bytes) -> Iterator[Problem]:
    fields = line.decode("utf-8", errors="replace").split("\t")
    if len(fields) != 1 + DENSE + CATEGORIES:
        said, allowed = f"has {len(fields)} fields", f"{1 + DENSE + CATEGORIES} with tabs between"
        yield Problem(file, f"line {number}", said, allowed)
        return
    for name, value in zip(_SCHEMA, fields, strict=True):
        place = f"line {number}: {name}"
        if name == _LABEL and value not in ("0", "1"):
            yield Problem(file, place, f"{value[:40]!r} is not a label", "0 or 1")
        elif name in _COUNTS and value and not _WHOLE.fullmatch(value):
            allowed = "a whole number of up to 9 digits, or nothing"
            yield Problem(file, place, f"{value[:40]!r} is not a count", allowed)
        elif name in _CATEGORIES and value and not _HEXADECIMAL.fullmatch(value):
            allowed = "up to 8 hexadecimal digits, or nothing"
            yield Problem(file, place, f"{value[:40]!r} is not a category", allowed)
