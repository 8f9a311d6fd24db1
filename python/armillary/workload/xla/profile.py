"""Which file is a profile of XLA: XSpace, as its profiler writes it.

Here: that alone. Not here: reading it (`importer/xspace.py`).

Format: tsl/profiler/protobuf/xplane.proto of openxla/xla."""

from __future__ import annotations

from .module import DamagedError
from .wire import fields, varint

PLANES = ("/host:", "/device:")
"""How names of planes begin."""
_ENVIRONMENT = b"Task Environment"


def is_profile(data: bytes) -> bool:
    """Whether a file is an XSpace: its first field is a plane, and the plane has a name that XLA's
    profiler gives. The name comes behind a number at most, or behind all lines."""
    try:
        for number, value in fields(memoryview(data)):
            if number in (2, 3, 4) and not isinstance(value, int):
                continue
            if number != 1 or isinstance(value, int):
                return False
            return any(
                each == 2 and not isinstance(name, int) and _named(name)
                for each, name in fields(value)
            )
    except DamagedError:
        # A file that was cut is still one, and is refused as such.
        return _begins(data)
    return False


def _begins(data: bytes) -> bool:
    """Whether the first bytes are those of a plane with such a name."""
    try:
        key, at = varint(memoryview(data[:64]), 0)
        _, at = varint(memoryview(data[:64]), at)
        if key != 0x0A:
            return False
        if data[at] == 0x08:
            _, at = varint(memoryview(data[:64]), at + 1)
        return data[at] == 0x12 and _named(memoryview(data[at + 2 : at + 2 + data[at + 1]]))
    except (DamagedError, IndexError):
        return False


def _named(view: memoryview) -> bool:
    name = bytes(view[:64])
    return name.startswith(tuple(each.encode() for each in PLANES)) or name == _ENVIRONMENT
