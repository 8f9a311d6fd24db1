"""Files of tensors, in the format of safetensors: 8 bytes of length, a header in JSON, then the
tensors one behind the other.

Here: writing tensors in parts, with checksums, and reading parts of them. Not here: what the
tensors are (`checkpoint/manifest.py`). The library reads and writes whole tensors only, which need
all of their memory; tables may be larger than memory."""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import numpy as np

from armillary import documents
from armillary.errors import InputError, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}
"""Types of elements by the names of safetensors. NumPy has no bfloat16: its bits are in integers of
16 bits."""

_PIECE = 2**22
"""Bytes that are checked or copied at a time."""
_LONGEST = 100_000_000
"""Bytes of a header, at most, as in the library."""


class Spec(NamedTuple):
    """A tensor's name, type and shape."""

    key: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * TYPES[self.dtype].itemsize


Count = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
"""A number of things in a file, or a place in it."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
Checksum = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Record of a file: its size, and checksums (CRC-32) of its header and of each tensor."""

    name: str
    """A file next to the manifest."""
    bytes: Count
    header: Checksum
    tensors: dict[Name, Checksum]


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """A tensor in a header."""

    dtype: str
    shape: Annotated[tuple[Count, ...], msgspec.Meta(max_length=8)]
    data_offsets: tuple[Count, Count]


@dataclass(slots=True)
class _Cursor:
    """How far a tensor is written."""

    spec: Spec
    at: int
    end: int
    checksum: int = 0


class Writer:
    """A new file of tensors, which are written in parts, each tensor from its start to its end.
    Raises `OSError`."""

    def __init__(
        self, path: Path, specs: Sequence[Spec], notes: dict[str, str] | None = None
    ) -> None:
        """Writes the header: the tensors to come, and `notes`."""
        self._path = path
        header: dict[str, Any] = {"__metadata__": notes} if notes else {}
        place = 0
        for spec in specs:
            offsets = [place, place + spec.bytes]
            header[spec.key] = {
                "dtype": spec.dtype,
                "shape": list(spec.shape),
                "data_offsets": offsets,
            }
            place += spec.bytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        head = len(text).to_bytes(8, "little") + text
        self._header = zlib.crc32(head)
        self._size = len(head) + place
        self._cursors = {}
        for spec in specs:
            start = len(head) + header[spec.key]["data_offsets"][0]
            self._cursors[spec.key] = _Cursor(spec, start, start + spec.bytes)
        self._stream: IO[bytes] = path.open("wb", buffering=0)
        try:
            self._put(0, head)
        except OSError:
            self._stream.close()
            raise

    def write(self, key: str, values: NDArray[Any]) -> None:
        """Writes the next elements of a tensor."""
        cursor = self._cursors[key]
        if not values.size:
            return
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        assert cursor.at + len(data) <= cursor.end, key
        cursor.checksum = zlib.crc32(data, cursor.checksum)
        self._put(cursor.at, data)
        cursor.at += len(data)

    def end(self) -> Record:
        """Waits until the file is on the disk, and returns its record."""
        for key, cursor in self._cursors.items():
            assert cursor.at == cursor.end, key
        os.fsync(self._stream.fileno())
        self._stream.close()
        sums = {key: cursor.checksum for key, cursor in self._cursors.items()}
        return Record(self._path.name, self._size, self._header, sums)

    def abandon(self) -> None:
        """Gives up a file that can't be written to its end."""
        self._stream.close()

    def _put(self, place: int, data: bytes | memoryview) -> None:
        left = memoryview(data)
        while left:
            done = os.pwrite(self._stream.fileno(), left, place)
            place, left = place + done, left[done:]


@dataclass(slots=True)
class Tensors:
    """A file of tensors to be read."""

    path: Path
    specs: dict[str, Spec] = field(default_factory=dict)
    _starts: dict[str, int] = field(default_factory=dict)
    _record: Record | None = None

    @classmethod
    def open(cls, path: Path, record: Record | None = None) -> Tensors:
        """The tensors of a file, compared with its record if there is one. Raises `InputError`: the
        file is missing, has another size or another header."""
        if path.exists() and not documents.is_file(path):
            raise damaged(path, "", "is not a file")
        try:
            size = path.stat().st_size
            with documents.open_plain(path) as stream:
                head = stream.read(8)
                length = int.from_bytes(head, "little")
                text = stream.read(min(length, _LONGEST))
        except OSError as error:
            raise damaged(path, "", f"can't be read: {error.strerror or error}") from None
        if record is not None and size != record.bytes:
            raise damaged(path, "", f"has {size:,} bytes instead of {record.bytes:,}")
        if record is not None and zlib.crc32(head + text) != record.header:
            raise damaged(path, "header", "the checksum is wrong")
        found = cls(path, _record=record)
        try:
            for key, each in _heads(text).items():
                found._add(Spec(key, each.dtype, each.shape), 8 + length, each.data_offsets, size)
            if sum(spec.bytes for spec in found.specs.values()) > size:
                raise ValueError  # Tensors share bytes, and would be larger than the file.
        except (ValueError, KeyError, RecursionError):
            raise damaged(path, "header", "is not one of safetensors") from None
        return found

    def _add(self, spec: Spec, start: int, offsets: tuple[int, int], size: int) -> None:
        """A tensor of a file of `size` bytes, whose tensors begin at `start`. Raises `ValueError`
        or `KeyError`: it is not there, or no array can have its shape."""
        first, last = offsets
        room = math.prod(max(1, each) for each in spec.shape) * TYPES[spec.dtype].itemsize
        if last - first != spec.bytes or start + last > size or room >= 2**62:
            raise ValueError
        self.specs[spec.key] = spec
        self._starts[spec.key] = start + first

    def read(self, key: str) -> NDArray[Any]:
        """A tensor, whose elements are read when they are used."""
        spec = self.specs[key]
        kind = TYPES[spec.dtype]
        if not spec.bytes:
            return np.zeros(spec.shape, kind)
        return np.memmap(self.path, kind, "r", self._starts[key], spec.shape)

    def check(self, key: str, table: str) -> None:
        """Compares a tensor of a table with its checksum. Raises `InputError`."""
        assert self._record is not None
        wanted = self._record.tensors.get(key)
        if key not in self.specs or wanted is None:
            raise damaged(self.path, table, f"{key!r} is missing")
        found, left = 0, self.specs[key].bytes
        try:
            with documents.open_plain(self.path) as stream:
                stream.seek(self._starts[key])
                while left:
                    piece = stream.read(min(left, _PIECE))
                    if not piece:
                        break
                    found, left = zlib.crc32(piece, found), left - len(piece)
        except OSError as error:
            said = f"can't be read: {error.strerror or error}"
            raise damaged(self.path, table, said) from None
        if left or found != wanted:
            raise damaged(self.path, table, f"the checksum of {key!r} is wrong")


def _heads(text: bytes) -> dict[str, _Head]:
    """The tensors in a header. Raises `ValueError`."""
    raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return {
        key: msgspec.json.decode(each, type=_Head)
        for key, each in raw.items()
        if key != "__metadata__"
    }


def damaged(path: Path, place: str, said: str) -> InputError:
    """The error of a file that is not what was written."""
    folder = path.parent
    help_ = f"an intact checkpoint; remove {folder} to go on from the one before, if there is one"
    return InputError([Problem(str(path), place, said, help_)])


def checksum(body: dict[str, Any]) -> int:
    """The checksum of a manifest that has none yet."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return zlib.crc32(text.encode())
