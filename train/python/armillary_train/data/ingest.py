"""Ingestion: click logs to files of columns, as a recipe says.

Here: from sources to splits. Not here: the format (`dataset.py`), recipes (`recipe.py`), reading
text (`text.py`) and Parquet (`parquet.py`).

The bytes of the result depend on sources and recipe, and never on threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from armillary import documents
from armillary.errors import InputError, Problem
from armillary.natural_order import natural_order
from armillary.units import counted

from .. import _train
from .columns import Columns
from .dataset import SPLITS, Category, Manifest, Split, commit, new_folder
from .log_days import train_lines
from .parquet import ParquetFile, is_parquet
from .recipe import Recipe
from .shuffle import Shuffler, draws
from .text import BLOCK, ahead, count_lines, parse, read_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AHEAD = 2
"""Blocks that are read before they are parsed."""
_PACKED = 4
"""Bytes of text in a byte of a compressed file, about."""

Progress = Callable[[float, str], None]
"""Gets the share of the bytes that is done, and what is being done."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of an ingestion."""

    manifest: Manifest
    bytes: int
    """Bytes of the sources."""
    text_bytes: int
    """Bytes of text that was parsed."""
    seconds: float
    cpu_seconds: float


def find_sources(paths: Sequence[str]) -> list[Path]:
    """The files that are named, or that are in folders that are named, in the order of their names
    with numbers as numbers. Raises `InputError`."""
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        try:
            if path.is_dir():
                inside = [each for each in path.iterdir() if each.is_file()]
                found += sorted(inside, key=lambda each: natural_order(each.name))
            else:
                path.stat()
                found.append(path)
        except OSError as error:
            said = f"can't be read: {error.strerror or error}"
            help_ = "files of click logs, or a folder with a file for each day"
            raise InputError([Problem(name, "", said, help_)]) from None
    if not found:
        said = "there are no files"
        raise InputError([Problem(", ".join(paths), "", said, "at least one")])
    return found


def ingest(
    paths: Sequence[Path],
    folder: str | os.PathLike[str],
    recipe: Recipe,
    *,
    threads: int,
    progress: Progress | None = None,
) -> Result:
    """Writes the samples of some files to a new folder, by up to `threads` threads.

    Raises `InputError`: a source can't be read, with file, line and column; the folder can't be
    written. Then nothing is left there."""
    begin, cpu = time.monotonic(), time.process_time()
    with new_folder(folder) as place:
        run = _Run(paths, place, recipe, threads, progress)
        try:
            manifest = run.run()
        except BaseException:
            run.abandon()
            raise
        commit(place, manifest)
    return Result(
        manifest,
        run.total,
        run.text,
        time.monotonic() - begin,
        time.process_time() - cpu,
    )


class _Run:
    def __init__(
        self,
        paths: Sequence[Path],
        folder: Path,
        recipe: Recipe,
        threads: int,
        progress: Progress | None,
    ) -> None:
        self.paths, self.folder, self.recipe = paths, folder, recipe
        self.threads, self.progress = threads, progress
        self.sizes = [each.stat().st_size for each in paths]
        self.total = sum(self.sizes)
        self.text = self.count = 0
        self.splits = {name: Split(folder, name, recipe.samples_per_file) for name in SPLITS}
        self.shuffler: Shuffler | None = None

    def run(self) -> Manifest:
        """Reads all sources, and writes what they have."""
        train, done = self._train_lines(), 0
        sources = []
        for path, size, lines in zip(self.paths, self.sizes, train, strict=True):
            before = self.count
            for columns, at in self._columns(path):
                self._add(columns, lines - (self.count - before))
                self._show(done + min(at, size), path.name)
            done += size
            sources.append({"name": path.name, "bytes": size, "samples": self.count - before})
        if self.shuffler is not None:
            for columns in self.shuffler.shuffled():
                self.splits["train"].add(columns)
                self._show(done, "shuffling")
        files = {name: split.end() for name, split in self.splits.items()}
        if not files["train"]:
            said = "there are no samples to train on"
            raise InputError([Problem(str(self.paths[0]), "", said, "at least one line")])
        categories = [Category(each.name, each.rows) for each in self.recipe.categories]
        return Manifest(
            tuple(each.name for each in self.recipe.dense),
            tuple(categories),
            files,
            asdict(self.recipe),
            tuple(sources),
        )

    def abandon(self) -> None:
        """Ends the threads that write."""
        for split in self.splits.values():
            split.abandon()

    def _show(self, done: int, what: str) -> None:
        if self.progress is not None:
            self.progress(done / max(self.total, 1), what)

    def _train_lines(self) -> list[float]:
        """How many of the first samples of each file are to train on."""
        days, most = self.recipe.held_out.days, float("inf")
        if days is None or days == 0:
            return [most] * len(self.paths)
        if len(self.paths) > 1:
            if len(self.paths) <= days:
                said = f"{counted(len(self.paths), 'file')}, and {days} held out for evaluation"
                raise InputError(
                    [Problem("", "held_out", said, f"at least {counted(days + 1, 'file')}")]
                )
            return [most] * (len(self.paths) - days) + [0.0] * days
        return [train_lines(self._lines(self.paths[0]), days, self.paths[0])]

    def _lines(self, path: Path) -> int:
        if is_parquet(path):
            return ParquetFile(path, self.recipe).rows
        return count_lines(path) - (self.recipe.columns is None)

    def _columns(self, path: Path) -> Iterator[tuple[Columns, int]]:
        """The samples of a file, and how many of its bytes were read."""
        first = 1
        for parser, text, at in ahead(self._texts(path), _AHEAD):
            if not text:
                continue
            number = first + (self.recipe.columns is None and not is_parquet(path))
            # Lines are fewer than bytes, and counting them takes a twentieth of the time.
            pieces = parse(parser, text, self.threads, [(path, number, len(text))])
            yield from ((columns, at) for columns in pieces)
            self.text += len(text)
            first += sum(len(each) for each in pieces)

    def _texts(self, path: Path) -> Iterator[tuple[_train.TextRecipe, bytes, int]]:
        """Whole lines of a file, without a header; their parser, and the bytes read."""
        if is_parquet(path):
            file = ParquetFile(path, self.recipe)
            size, done = path.stat().st_size, 0
            for text in file.blocks():
                done += text.count(b"\n")
                yield file.parser, text, size * done // max(file.rows, 1)
            return
        parser = self.recipe.parser() if self.recipe.columns else None
        for text, at in read_blocks(path, BLOCK * self.threads):
            if parser is None:
                header, _, rest = text.partition(b"\n")
                parser = self._of_header(path, header)
                yield parser, rest, at
            else:
                yield parser, text, at

    def _of_header(self, path: Path, header: bytes) -> _train.TextRecipe:
        names = header.decode("utf-8", errors="replace").removesuffix("\r")
        found = names.split(self.recipe.separator)
        for name in found:
            if "\r" in name or name.startswith('"'):
                said = f"the name {name[:40]!r} has a carriage return or quotes"
                allowed = "lines that end with LF or CRLF, and names without quotes around them"
                raise InputError([Problem(str(path), "line 1", said, allowed)])
        used = self.recipe.names
        missing = [name for name in used if name not in found]
        if missing:
            said = f"has no column {missing[0]!r}"
            allowed = f"a header with {', '.join(used[:40])}"
            raise InputError([Problem(str(path), "line 1", said, allowed)])
        return self.recipe.parser(found)

    def _add(self, columns: Columns, train: float) -> None:
        """More samples, the first `train` of them to train on, unless a share is held out."""
        held_out, count = self.recipe.held_out, len(columns)
        if held_out.share is not None:
            drawn = draws(held_out.seed, 0, self.count, count)
            kept = drawn < np.uint64(int(held_out.share * 2**64))
            self._train(_some(columns, ~kept))
            self.splits["held-out"].add(_some(columns, kept))
        else:
            at = int(min(max(train, 0), count))
            self._train(columns.cut(0, at))
            self.splits["held-out"].add(columns.cut(at, count))
        self.count += count

    def _train(self, columns: Columns) -> None:
        if not len(columns):
            return
        shuffle = self.recipe.shuffle
        if shuffle is None:
            self.splits["train"].add(columns)
            return
        if self.shuffler is None:
            self.shuffler = Shuffler(self.folder, shuffle.seed, shuffle.memory, self._expected())
        self.shuffler.add(columns)

    def _expected(self) -> int:
        """Bytes of all samples, about: those of the text."""
        packed = any(_is_packed(path) for path in self.paths)
        return self.total * (_PACKED if packed else 1)


def _is_packed(path: Path) -> bool:
    with documents.open_plain(path) as stream:
        return stream.read(2) == b"\x1f\x8b"


def _some(columns: Columns, wanted: NDArray[np.bool_]) -> Columns:
    return columns if wanted.all() else columns.take(np.flatnonzero(wanted))
