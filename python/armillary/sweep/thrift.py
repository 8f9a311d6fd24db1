"""Thrift's compact protocol, which the headers of Parquet files are in: structures of numbers,
texts, lists and structures. Source:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = (
    *(0, 1, 2, 3, 4),
    *(5, 6, 7, 8, 9, 12),
)
_DEEPEST = 16

Struct = Mapping[int, Any]
"""Values by the numbers of their fields: `int`, `bytes`, lists and structures."""


def written(struct: Struct) -> bytes:
    """A structure as bytes. All of its whole numbers are of 32 bits unless they are `Wide`."""
    out, last = bytearray(), 0
    for number, value in struct.items():
        kind = _kind(value)
        out.append((number - last) << 4 | kind)
        out += _value(kind, value)
        last = number
    return bytes(out) + b"\0"


class Wide(int):
    """A whole number of 64 bits."""


def varint(value: int) -> bytes:
    """A whole number from 0 in groups of seven bits, the lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _kind(value: object) -> int:
    if isinstance(value, Wide):
        return _I64
    if isinstance(value, int):
        return _I32
    if isinstance(value, bytes):
        return _BINARY
    return _LIST if isinstance(value, list) else _STRUCT


def _value(kind: int, value: Any) -> bytes:  # noqa: ANN401 - as its kind says
    if kind in (_I32, _I64):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == _BINARY:
        return varint(len(value)) + bytes(value)
    if kind == _STRUCT:
        return written(value)
    of = _kind(value[0]) if value else _STRUCT
    head = (
        bytes([len(value) << 4 | of])
        if len(value) < 15
        else bytes([0xF0 | of]) + varint(len(value))
    )
    return head + b"".join(_value(of, each) for each in value)


class Reader:
    """Reads structures from bytes. Raises `ValueError` for what is damaged."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """A structure: known and unknown fields."""
        if depth > _DEEPEST:
            raise ValueError("too deep")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._signed()
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def varint(self) -> int:
        """A whole number from 0."""
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise ValueError("too large a number")

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        if not 0 <= count <= len(self.data) - self.at:
            raise ValueError("ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def _byte(self) -> int:
        return self.bytes(1)[0]

    def _signed(self) -> int:
        found = self.varint()
        return found >> 1 ^ -(found & 1)

    def _value(self, kind: int, depth: int) -> Any:  # noqa: ANN401
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _BINARY:
            return self.bytes(self.varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _LIST:
            return self._list(depth + 1)
        if kind in (_BYTE, _DOUBLE, _TRUE, _FALSE):
            return self.bytes(8 if kind == _DOUBLE else 1)
        raise ValueError("unknown kind")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        count = self.varint() if count == 15 else count
        if depth > _DEEPEST or count > len(self.data) - self.at:
            raise ValueError("ends early")
        return [self._value(kind, depth) for _ in range(count)]
