"""Messages of protobuf, read with bounds.

Here: fields of a message by their number. Not here: which fields a message has (`proto.py`).
Messages are views of the file; nothing is copied before it is asked for.

Format: https://protobuf.dev/programming-guides/encoding"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .module import DamagedError

Value = int | memoryview
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_BROKEN = "the file"


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of variable length, and the place behind it. Raises `DamagedError`."""
    if at < len(data) and (value := data[at]) < 128:
        return value, at + 1
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise DamagedError(_BROKEN, "ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise DamagedError(_BROKEN, "has a number of more than 10 bytes")


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Number and value of each field, in the order of the file. Raises `DamagedError`."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield key >> 3, value
        elif kind == _LENGTH:
            size, at = varint(data, at)
            if size > len(data) - at:
                raise DamagedError(_BROKEN, f"ends inside a field of {size:,} bytes")
            yield key >> 3, data[at : at + size]
            at += size
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
            if size > len(data) - at:
                raise DamagedError(_BROKEN, "ends inside a number")
            form = "<I" if size == 4 else "<Q"
            yield key >> 3, int(struct.unpack_from(form, data, at)[0])
            at += size
        else:
            raise DamagedError(_BROKEN, f"has a field of an unknown kind: {kind}")


class Message:
    """A message with all of its fields in memory, as views."""

    __slots__ = ("_fields",)

    def __init__(self, data: memoryview) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def integer(self, number: int, default: int = 0) -> int:
        """A whole number with a sign; the last one counts."""
        value = self._fields.get(number, [default])[-1]
        if not isinstance(value, int):
            raise DamagedError(_BROKEN, f"has no number in field {number}")
        return value - 2**64 if value >= 2**63 else value

    def integers(self, number: int) -> list[int]:
        """Whole numbers with a sign, packed or not."""
        found: list[int] = []
        for value in self._fields.get(number, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                each, at = varint(value, at)
                found.append(each)
        return [each - 2**64 if each >= 2**63 else each for each in found]

    def views(self, number: int) -> list[memoryview]:
        """The parts of a repeated message or text."""
        found = self._fields.get(number, [])
        views = [each for each in found if not isinstance(each, int)]
        if len(views) < len(found):
            raise DamagedError(_BROKEN, f"has a number in field {number}")
        return views

    def messages(self, number: int) -> Iterator[Message]:
        """The messages of a repeated field."""
        return (Message(view) for view in self.views(number))

    def message(self, number: int) -> Message | None:
        """A message; none where it is left out."""
        views = self.views(number)
        return Message(views[-1]) if views else None

    def text(self, number: int) -> str:
        """A text; broken UTF-8 is replaced."""
        views = self.views(number)
        return bytes(views[-1]).decode("utf-8", "replace") if views else ""
