"""Text files of click logs: blocks of whole lines, from files compressed by gzip or not.

Here: reading files, and faults of lines with the place in their file. Not here: what is in a line
(`recipe.py`)."""

from __future__ import annotations

import contextlib
import gzip
import queue
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from ... import _core
from ...errors import InputError, Problem
from .columns import Columns

BLOCK = 2**22
"""Bytes read at a time."""

T = TypeVar("T")


def read_blocks(path: Path, size: int | None = None) -> Iterator[tuple[bytes, int]]:
    """The file's text in blocks of about `size` bytes that end with a line, and how many bytes of
    the file were read before the end of each. Raises `InputError`."""
    rest, size = b"", size or BLOCK
    with _open(path) as (stream, raw):
        while True:
            try:
                block = stream.read(size)
            except (OSError, EOFError, zlib.error) as error:
                said = f"can't be read to its end: {error}"
                raise InputError([Problem(str(path), "", said, "a whole file")]) from None
            if not block:
                break
            end = block.rfind(b"\n") + 1
            if not end and len(rest) > BLOCK:
                said = f"a line of more than {BLOCK} bytes"
                raise InputError([Problem(str(path), "", said, "lines of about 240 bytes")])
            if end:
                yield (rest + block[:end] if rest else block[:end]), raw.tell()
                rest = block[end:]
            else:
                rest += block
        place = raw.tell()
    if rest:
        yield rest + b"\n", place


@contextlib.contextmanager
def _open(path: Path) -> Iterator[tuple[BinaryIO | gzip.GzipFile, BinaryIO]]:
    """The text of a file, and the file."""
    try:
        stream = path.open("rb")
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
    except OSError as error:
        said = f"can't be read: {error.strerror or error}"
        raise InputError([Problem(str(path), "", said, "a file of click logs")]) from None
    with (
        stream,
        gzip.GzipFile(fileobj=stream) if packed else contextlib.nullcontext(stream) as text,
    ):
        yield text, stream


def count_lines(path: Path) -> int:
    """Lines of a file. Raises `InputError`."""
    return sum(block.count(b"\n") for block, _ in read_blocks(path))


def parse(
    recipe: _core.TextRecipe, text: bytes, threads: int, runs: Sequence[tuple[Path, int, int]]
) -> list[Columns]:
    """The columns of a text, whose lines are in `runs`: file, number of the first line (from 1),
    lines. Raises `InputError` naming file, line and column."""
    found, faults = recipe.parse(text, threads)
    if faults:
        raise InputError([_problem(each, runs) for each in faults])
    return [Columns.of(each, recipe) for each in found]


def _problem(fault: tuple[int, str, str, str], runs: Sequence[tuple[Path, int, int]]) -> Problem:
    line, column, said, allowed = fault
    for path, first, lines in runs:
        if line < lines:
            place = f"line {first + line}"
            return Problem(str(path), f"{place}: {column}" if column else place, said, allowed)
        line -= lines
    raise AssertionError("a fault behind the text")


_END = object()


def ahead(items: Iterator[T], depth: int) -> Iterator[T]:
    """The items. A thread makes up to `depth` of them before they are asked for."""
    ready: queue.Queue[object] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: object) -> bool:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(_END)
        except BaseException as error:
            put(_Failed(error))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Failed):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()


class _Failed:
    """What a thread raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
