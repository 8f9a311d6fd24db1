"""Frames as Parquet files: one group of rows, a page for each column, plain values, gzip.

Every reader of Parquet reads them; we read only what we write. Not here: what the tables of sweeps
hold (`table.py`). Source: https://github.com/apache/parquet-format (README, Encodings.md,
LogicalTypes.md, src/main/thrift/parquet.thrift)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .columns import DIGITS
from .frame import Column, Frame, Kind
from .study import MOST_POINTS
from .thrift import Reader, Struct, Wide, varint, written

_MAGIC = b"PAR1"
_BOOLEAN, _INT64, _DOUBLE, _TEXT, _FIXED = 0, 2, 5, 6, 7
_UTF8, _DECIMAL = 0, 5
_OPTIONAL, _PLAIN, _RLE, _GZIP = 1, 0, 3, 2
_WIDE = 16
"""Bytes of a size."""
_MOST = 2**31
"""Bytes of a column."""


@dataclass(frozen=True)
class _Plain:
    """Values of one kind as Parquet stores them."""

    type: int
    schema: Struct
    """Further fields of the column in the schema."""
    pack: Callable[[list[Any]], bytes]
    unpack: Callable[[bytes, int], Sequence[Any]]


def _packed_flags(values: list[bool]) -> bytes:
    bits = sum(value << at for at, value in enumerate(values))
    return bits.to_bytes((len(values) + 7) // 8, "little")


def _flags(data: bytes, count: int) -> list[bool]:
    _require(len(data) == (count + 7) // 8)
    return [bool(data[at // 8] >> at % 8 & 1) for at in range(count)]


def _numbers(code: str) -> tuple[Callable[[list[Any]], bytes], Callable[[bytes, int], list[Any]]]:
    """Numbers of 8 bytes."""

    def pack(values: list[Any]) -> bytes:
        return struct.pack(f"<{len(values)}{code}", *values)

    def unpack(data: bytes, count: int) -> list[Any]:
        _require(len(data) == 8 * count)
        return list(struct.unpack(f"<{count}{code}", data))

    return pack, unpack


def _packed_sizes(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(_WIDE, "big", signed=True) for value in values)


def _sizes(data: bytes, count: int) -> list[int]:
    _require(len(data) == _WIDE * count)
    parts = (data[at : at + _WIDE] for at in range(0, len(data), _WIDE))
    found = [int.from_bytes(part, "big", signed=True) for part in parts]
    _require(all(abs(each) < 10**DIGITS for each in found))
    return found


def _packed_texts(values: list[str]) -> bytes:
    parts = (value.encode("utf-8", "backslashreplace") for value in values)
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def _texts(data: bytes, count: int) -> list[str]:
    reader = Reader(data)
    found = [reader.bytes(int.from_bytes(reader.bytes(4), "little")).decode() for _ in range(count)]
    _require(reader.at == len(data))
    return found


_KINDS: dict[Kind, _Plain] = {
    "flag": _Plain(_BOOLEAN, {}, _packed_flags, _flags),
    "whole": _Plain(_INT64, {}, *_numbers("q")),
    "size": _Plain(_FIXED, {6: _DECIMAL, 7: 0, 8: DIGITS}, _packed_sizes, _sizes),
    "number": _Plain(_DOUBLE, {}, *_numbers("d")),
    "text": _Plain(_TEXT, {6: _UTF8}, _packed_texts, _texts),
}


def content(frame: Frame, about: Mapping[str, str]) -> bytes:
    """A file with a frame, and texts about it in its metadata."""
    out = bytearray(_MAGIC)
    chunks = []
    for name, column in frame.data.items() if frame.height else ():
        page, chunk = _chunk(name, column, len(out))
        out += page
        chunks.append(chunk)
    rows = Wide(frame.height)
    whole = Wide(len(out) - len(_MAGIC))
    footer = written(
        {
            1: 1,
            2: [{4: b"table", 5: len(frame.data)}, *map(_element, frame.data.items())],
            3: rows,
            4: [{1: chunks, 2: whole, 3: rows}] if chunks else [],
            5: [{1: key.encode(), 2: text.encode()} for key, text in about.items()],
            6: b"armillary",
        }
    )
    return bytes(out) + footer + len(footer).to_bytes(4, "little") + _MAGIC


def _element(named: tuple[str, Column]) -> Struct:
    """A column in the schema."""
    name, column = named
    plain = _KINDS[column.kind]
    length = {2: _WIDE} if plain.type == _FIXED else {}
    return {1: plain.type, **length, 3: _OPTIONAL, 4: name.encode(), **plain.schema}


def _chunk(name: str, column: Column, at: int) -> tuple[bytes, Struct]:
    """The page of a column, and what the footer says of it."""
    plain, values = _KINDS[column.kind], column.values
    known = _levels(values)
    data = len(known).to_bytes(4, "little") + known
    data += plain.pack([value for value in values if value is not None])
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    packed = packer.compress(data) + packer.flush()
    inner = {1: len(values), 2: _PLAIN, 3: _RLE, 4: _RLE}
    head = written({1: 0, 2: len(data), 3: len(packed), 5: inner})
    sizes = {6: Wide(len(head) + len(data)), 7: Wide(len(head) + len(packed)), 9: Wide(at)}
    meta = {1: plain.type, 2: [_PLAIN, _RLE], 3: [name.encode()], 4: _GZIP, 5: Wide(len(values))}
    return head + packed, {2: Wide(at), 3: {**meta, **sizes}}


def _levels(values: Sequence[Any]) -> bytes:
    """Whether each row has a value, as runs."""
    runs = groupby(value is not None for value in values)
    return b"".join(varint(len(list(run)) << 1) + bytes([has]) for has, run in runs)


def read(data: bytes) -> tuple[Frame, dict[str, str]]:
    """The frame in a file that `content` made, and the texts about it. Raises `ValueError`."""
    _require(data[:4] == _MAGIC and data[-4:] == _MAGIC and len(data) > 12)
    footer = Reader(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    _require(footer.at >= 4)
    try:
        meta = footer.struct()
        about = {each[1].decode(): each[2].decode() for each in meta.get(5, [])}
        kinds = {each[4].decode(): _kind(each) for each in meta[2][1:]}
        rows = meta[3]
        chunks = meta[4][0][1] if meta[4] else [None] * len(kinds)
        _require(0 <= rows <= MOST_POINTS and len(meta[4]) == (1 if rows else 0))
        columns = {
            name: Column(kind, _column(data, chunk[3], kind, rows) if rows else [])
            for (name, kind), chunk in zip(kinds.items(), chunks, strict=True)
        }
    except (KeyError, IndexError, TypeError, AttributeError, struct.error, zlib.error) as error:
        raise ValueError("is damaged") from error
    return Frame(columns), about


def _kind(element: Struct) -> Kind:
    """Kind of a column of the schema."""
    for kind, plain in _KINDS.items():
        if element[1] == plain.type and all(
            element.get(at) == of for at, of in plain.schema.items()
        ):
            return kind
    raise ValueError("a column of another kind")


def _column(data: bytes, meta: Struct, kind: Kind, rows: int) -> list[Any]:
    """The values of a column."""
    reader = Reader(data, meta[9])
    head = reader.struct()
    length = head[2]
    _require(meta[4] == _GZIP and head[1] == 0 and head[5][2] == _PLAIN and 0 <= length <= _MOST)
    unpacker = zlib.decompressobj(31)
    page = unpacker.decompress(reader.bytes(head[3]), length + 1)
    _require(len(page) == length and head[5][1] == rows)
    levels = Reader(page, 4 + int.from_bytes(page[:4], "little"))
    known = list(_known(page[4 : levels.at], rows))
    values = iter(_KINDS[kind].unpack(page[levels.at :], sum(known)))
    return [next(values) if each else None for each in known]


def _known(runs: bytes, rows: int) -> Iterator[bool]:
    """Whether each row has a value."""
    reader, left = Reader(runs), rows
    while left:
        count = reader.varint()
        _require(not count & 1 and 0 < count >> 1 <= left)
        left -= count >> 1
        has = reader.bytes(1) == b"\1"
        yield from (has for _ in range(count >> 1))


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("is damaged")
