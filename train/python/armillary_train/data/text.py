"""Text files of click logs: blocks of whole lines, from files compressed by gzip or not.

Here: reading files, and faults of lines with the place in their file. Not here: what is in a line
(`recipe.py`)."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import queue
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from armillary import documents
from armillary.errors import InputError, Problem

from .. import _train
from .columns import Columns

BLOCK = 2**22
"""Bytes read at a time."""

_EMPTY = (b"\n", b"\r\n")
_BLANK = (b"\n\n", b"\n\r\n")
"""A text that begins with an empty line; one that ends with one, after another line."""

T = TypeVar("T")


def read_blocks(path: Path, size: int | None = None) -> Iterator[tuple[bytes, int]]:
    """The file's text in blocks of about `size` bytes that end with a line, and how many bytes of
    the file were read before the end of each. Raises `InputError`."""
    # Empty lines at the end of the text so far. Those at the end of the file do not count as lines.
    blank = b""
    for block, place in _lines(path, size or BLOCK):
        text = blank + block if blank else block
        if not text.startswith(_EMPTY) and not text.endswith(_BLANK):
            blank = b""
            yield text, place
            continue
        content = len(text.rstrip(b"\r\n"))
        end = text.index(b"\n", content) + 1 if content else 0
        blank = text[end:]
        if len(blank) > BLOCK:
            said = f"more than {BLOCK} bytes of empty lines"
            raise InputError([Problem(str(path), "", said, "lines with columns")])
        if end:
            yield text[:end], place


def _lines(path: Path, size: int) -> Iterator[tuple[bytes, int]]:
    """As `read_blocks`, with empty lines at the end, and without a byte order mark."""
    rest, begun = b"", False
    with _open(path) as (stream, raw):
        while True:
            try:
                block = stream.read(size)
            except (OSError, EOFError, zlib.error) as error:
                said = f"can't be read to its end: {error}"
                raise InputError([Problem(str(path), "", said, "a whole file")]) from None
            if not block:
                break
            if not begun:
                begun, block = True, _without_mark(path, block)
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


def _without_mark(path: Path, block: bytes) -> bytes:
    """The beginning of a text without the byte order mark of UTF-8. Raises `InputError`: that of
    another encoding."""
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        said = "is UTF-16 or UTF-32"
        raise InputError([Problem(str(path), "", said, "UTF-8, or another superset of ASCII")])
    return block.removeprefix(codecs.BOM_UTF8)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[tuple[BinaryIO | gzip.GzipFile, BinaryIO]]:
    """The text of a file, and the file."""
    try:
        stream = documents.open_plain(path)
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
    recipe: _train.TextRecipe, text: bytes, threads: int, runs: Sequence[tuple[Path, int, int]]
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
    """Exception that a thread raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
