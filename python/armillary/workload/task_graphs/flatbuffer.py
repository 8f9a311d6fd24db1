"""Tables of FlatBuffers, read with bounds.

Here: fields and vectors at their places, and errors for places outside of the file. Not
here: which fields a table has (`flexflow.py`). Google's runtime has no verifier in Python: with it,
tables of a damaged file could share a long vector, and each would read it again.

Format: https://flatbuffers.dev/internals/"""

from __future__ import annotations

import struct
from dataclasses import dataclass


class DamagedError(ValueError):
    """A place or a length outside of the file."""


@dataclass
class File:
    """A file, and how many elements of vectors may still be read: no more than it has bytes, so
    that vectors which share their elements stay small."""

    data: bytes
    left: int = 0

    def __post_init__(self) -> None:
        self.left = len(self.data)

    def root(self) -> Table:
        """The table that the file is about."""
        return Table(self, self.number("I", 0))

    def number(self, form: str, at: int) -> int | float:
        """A number in the form of `struct`."""
        if not 0 <= at <= len(self.data) - struct.calcsize(form):
            raise DamagedError(f"byte {at} of {len(self.data)}")
        found: int | float = struct.unpack_from(f"<{form}", self.data, at)[0]
        return found

    def integer(self, form: str, at: int) -> int:
        """A whole number."""
        return int(self.number(form, at))

    def take(self, count: int) -> None:
        """Allows `count` more elements."""
        self.left -= count
        if self.left < 0:
            raise DamagedError("vectors longer than the file")


class Table:
    """A table at a place in a file. Fields are numbered as in the schema."""

    __slots__ = ("_at", "_fields", "_file", "_map")

    def __init__(self, file: File, at: int | float) -> None:
        self._file, self._at = file, int(at)
        self._map = self._at - file.integer("i", self._at)
        self._fields = (file.integer("H", self._map) - 4) // 2

    def integer(self, field: int, form: str, default: int = 0) -> int:
        """A whole number; `default` where the table leaves it out."""
        at = self._place(field)
        return self._file.integer(form, at) if at else default

    def real(self, field: int) -> float:
        """A 32-bit floating-point number."""
        at = self._place(field)
        return float(self._file.number("f", at)) if at else 0.0

    def tables(self, field: int) -> list[Table]:
        """The tables of a vector."""
        at, count = self._vector(field, 4)
        places = range(at, at + 4 * count, 4)
        return [Table(self._file, place + self._file.integer("I", place)) for place in places]

    def integers(self, field: int, form: str) -> tuple[int, ...]:
        """The whole numbers of a vector."""
        at, count = self._vector(field, struct.calcsize(form))
        return struct.unpack_from(f"<{count}{form}", self._file.data, at) if count else ()

    def _place(self, field: int) -> int:
        """Where a field is; 0 where the table leaves it out."""
        if field >= self._fields:
            return 0
        offset = self._file.integer("H", self._map + 4 + 2 * field)
        return self._at + offset if offset else 0

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """Where the elements of a vector are, and their number."""
        at = self._place(field)
        if not at:
            return 0, 0
        start = at + self._file.integer("I", at)
        count = self._file.integer("I", start)
        if start + 4 + count * width > len(self._file.data):
            raise DamagedError(f"{count} elements at byte {start}")
        self._file.take(count)
        return start + 4, count
