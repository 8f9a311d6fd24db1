"""Files of requests as rows: lines of CSV, lines of JSON, or one JSON document.

Here: reading within bounds, unpacking gzip, and the first words of a file. Not here: what columns
and keys mean (a file for each format). Files stream: of CSV and of lines of JSON one line is in
memory."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, BinaryIO, cast

from ... import documents
from ...errors import InputError, Problem

WHAT = "a trace of requests, or results of a benchmark of serving"
LONGEST_LINE = 16 * 2**20
"""Bytes of a line."""
MOST_BYTES = 16 * 2**30
"""Bytes of a file that streams, unpacked."""
MOST_DOCUMENT = 2**30
"""Bytes of a JSON document."""
MOST_COLUMNS = 1000


@dataclass(slots=True)
class Source:
    """An open file of requests. `names` are the columns of CSV, or the keys of the first object."""

    file: str
    stream: BinaryIO
    """Unpacked."""
    opened: BufferedReader
    kind: str = "csv"
    """`csv`, `lines` of JSON, or a `document`."""
    names: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] | None = None
    """The first line of JSON."""
    line: int = 0
    """Lines read so far."""
    size: int = 0
    """Bytes read so far."""

    def close(self) -> None:
        """Closes the file."""
        self.stream.close()
        self.opened.close()

    def fault(self, place: str, message: str, allowed: str) -> InputError:
        """An error of this file."""
        return InputError([Problem(self.file, place, message, allowed)])

    def _next_line(self) -> bytes:
        """The next line; empty at the end."""
        try:
            found = self.stream.readline(LONGEST_LINE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise self.fault("", f"can't be unpacked: {error}", WHAT) from None
        self.line += 1
        self.size += len(found)
        if len(found) > LONGEST_LINE:
            message = f"is longer than {LONGEST_LINE // 2**20} MiB"
            raise self.fault(f"line {self.line}", message, "a request in each line")
        if self.size > MOST_BYTES:
            raise self.fault("", f"has more than {MOST_BYTES // 2**30} GiB", "fewer requests")
        return found

    def _text(self) -> str | None:
        """The next line that is not blank, as text; `None` at the end."""
        while found := self._next_line():
            try:
                text = found.decode("utf-8-sig" if self.line == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                raise self.fault(f"line {self.line}", "is not UTF-8 text", WHAT) from None
            if text:
                return text
        return None

    def rows(self) -> Iterator[list[str]]:
        """Rows of CSV below the header, each as long as it."""
        width = len(self.names)

        def lines() -> Iterator[str]:
            while (text := self._text()) is not None:
                yield text

        reader = csv.reader(lines(), skipinitialspace=True, strict=True)
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise self.fault(f"line {self.line}", f"is not CSV: {error}", WHAT) from None
            if row is None:
                return
            if len(row) != width:
                message = f"has {len(row)} values"
                raise self.fault(f"line {self.line}", message, f"{width}, as the header has")
            yield row

    def objects(self) -> Iterator[dict[str, Any]]:
        """Objects of lines of JSON."""
        if self.first is not None:
            yield self.first
        while (text := self._text()) is not None:
            yield self._object(text)

    def _object(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = f"is not JSON: {documents.reason(error)}"
            raise self.fault(f"line {self.line}", message, "an object in each line") from None
        if not isinstance(found, dict):
            raise self.fault(f"line {self.line}", "is not an object", "an object in each line")
        return found


def open_source(file: str) -> Source:
    """A file of requests with its columns or keys. Raises `InputError`."""
    try:
        stream = documents.open_plain(file)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise InputError([Problem(file, "", f"can't be read: {said}", WHAT)]) from None
    try:
        source = Source(file, _unpacked(stream), stream)
        _look(source)
    except BaseException:
        stream.close()
        raise
    return source


def _unpacked(stream: BufferedReader) -> BinaryIO:
    if stream.peek(2)[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    return cast(BinaryIO, stream)


def _look(source: Source) -> None:
    """Finds out what kind of file it is, by its first line."""
    head = source._next_line()
    while head and not head.strip():
        head = source._next_line()
    if not head:
        raise source.fault("", "is empty", WHAT)
    if not head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")):
        _header(source, head)
        return
    try:
        first = json.loads(head.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        first = None
    if not isinstance(first, dict):
        _document(source, head)
        return
    source.kind, source.names, source.first = "lines", [str(key) for key in first], first


def _header(source: Source, head: bytes) -> None:
    try:
        names = next(csv.reader([head.decode("utf-8-sig").strip()], skipinitialspace=True))
    except (UnicodeDecodeError, csv.Error):
        raise source.fault("line 1", "is not text", WHAT) from None
    if len(names) > MOST_COLUMNS:
        raise source.fault("line 1", f"has {len(names)} columns", f"at most {MOST_COLUMNS}")
    if len({*names}) != len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise source.fault("line 1", f"has the column {again[:80]!r} twice", "once")
    source.names = names


def _document(source: Source, head: bytes) -> None:
    """One JSON document in many lines."""
    try:
        rest = documents.read_stream(source.stream, MOST_DOCUMENT + 1 - len(head))
    except (OSError, EOFError, zlib.error) as error:
        raise source.fault("", f"can't be unpacked: {error}", WHAT) from None
    if len(head) + len(rest) > MOST_DOCUMENT:
        raise source.fault("", f"is larger than {MOST_DOCUMENT // 2**20} MiB", WHAT)
    try:
        text = (head + rest).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise source.fault("", "is not UTF-8 text", WHAT) from None
    found = documents.parse_json(text, source.file, WHAT)
    if isinstance(found, list):
        keys = found[0] if found and isinstance(found[0], dict) else {}
        found = {"": found, **dict.fromkeys(keys)}
    if not isinstance(found, dict):
        raise source.fault("", "is not a JSON object", WHAT)
    source.kind, source.names, source.document = "document", [str(key) for key in found], found
