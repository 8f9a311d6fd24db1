"""A network for a front end in another process, by records over a pipe.

A record is 40 bytes, as in the protocol of external simulators. The pages
docs/reference/front-end-protocol.md and adapters/c/armillary_network.h have the other side."""

from __future__ import annotations

import struct
from typing import BinaryIO, NamedTuple, NoReturn

from .. import _core
from ..errors import ArmillaryError, InputError, Problem, StalledError
from ..platform import Platform

VERSION = 1
NEVER = 2**64 - 1
_RECORD = struct.Struct("<4I3Q")
_HELLO, _ADVANCE, _DELIVERY, _NEXT, _ERROR = 1, 6, 16, 17, 22
_SEND, _RECEIVE, _SCHEDULE, _ACCESS = 32, 33, 34, 35
_LOCATIONS = ("local", "remote", "in_switch", "host", "disk")
_BEFORE_HELLO, _AFTER_HELLO = "HELLO first", "SEND, RECEIVE, SCHEDULE, ACCESS or ADVANCE"


class _Record(NamedTuple):
    kind: int
    a: int = 0
    b: int = 0
    c: int = 0
    x: int = 0
    y: int = 0
    z: int = 0


def serve(platform: Platform, backend: str, source: BinaryIO, sink: BinaryIO) -> None:
    """Answers the records of `source` on `sink` until `source` ends.

    Raises `InputError` and `StalledError` as `Network` does, after a record that says so."""
    try:
        _Served(platform, backend, source, sink).all()
    except ArmillaryError as error:
        text = str(error).encode()
        sink.write(_RECORD.pack(*_Record(_ERROR, y=len(text))) + text)
        sink.flush()
        raise


class _Served:
    """A network, and the marks of its front end for the calls that are not over."""

    def __init__(self, platform: Platform, backend: str, source: BinaryIO, sink: BinaryIO) -> None:
        self.platform, self.source, self.sink = platform, source, sink
        self.core = _core.Network(platform._core, backend)
        self.tokens: dict[int, int] = {}

    def all(self) -> None:
        """Answers every record."""
        first = self.read()
        if first is None:
            return
        if first.kind != _HELLO:
            _refuse(f"a record of kind {first.kind} came first", _BEFORE_HELLO)
        if first.a != VERSION:
            _refuse(f"the front end has version {first.a}", f"version {VERSION}")
        name = self.platform.name.encode()
        self.write(_Record(_HELLO, VERSION, self.core.npus, y=len(name)), name)
        while (record := self.read()) is not None:
            self.answer(record)

    def answer(self, record: _Record) -> None:
        """Does what the record asks for."""
        if record.kind == _SEND:
            self.expect(self.core.send(record.a, record.b, record.x, record.y), record)
        elif record.kind == _RECEIVE:
            self.expect(self.core.receive(record.a, record.b, record.x, record.y), record)
        elif record.kind == _SCHEDULE:
            self.expect(self.core.schedule(record.x), record)
        elif record.kind == _ACCESS:
            self.access(record)
        elif record.kind == _ADVANCE:
            self.advance(None if record.x == NEVER else record.x)
        else:
            _refuse(f"a record of kind {record.kind}", _AFTER_HELLO)

    def access(self, record: _Record) -> None:
        """Loads from memory or stores to it."""
        if record.b >= len(_LOCATIONS) or record.c > 1:
            _refuse(
                f"an access with location {record.b} and direction {record.c}",
                f"a location from 0 to {len(_LOCATIONS) - 1}; direction 0 or 1",
            )
        location, store = _LOCATIONS[record.b], record.c == 1
        self.expect(self.core.access(record.a, record.x, location, store), record)

    def expect(self, number: int, record: _Record) -> None:
        if record.z:
            self.tokens[number] = record.z

    def advance(self, limit: int | None) -> None:
        """Says what is due at the next instant that the front end wants to hear of."""
        if limit is not None and limit < self.core.now:
            _refuse(f"{limit} ps is in the past", f"{self.core.now} ps or later")
        wanted: list[int] = []
        while not wanted and (due := self.core.advance(limit)):
            wanted = [self.tokens.pop(number) for number in due if number in self.tokens]
        waiting = self.core.waiting() if limit is None and not wanted else []
        if waiting:
            raise StalledError([Problem(*parts) for parts in waiting])
        now = self.core.now
        answers = [_Record(_DELIVERY, x=now, z=token) for token in wanted]
        self.write(*answers, _Record(_NEXT, a=int(not wanted), x=now))

    def read(self) -> _Record | None:
        """The next record; `None` at the end."""
        bytes_ = self.source.read(_RECORD.size)
        if bytes_ and len(bytes_) < _RECORD.size:
            _refuse("the input ends inside a record", f"records of {_RECORD.size} bytes")
        return _Record(*_RECORD.unpack(bytes_)) if bytes_ else None

    def write(self, *parts: _Record | bytes) -> None:
        """Sends records, and texts behind them."""
        packed = [part if isinstance(part, bytes) else _RECORD.pack(*part) for part in parts]
        self.sink.write(b"".join(packed))
        self.sink.flush()


def _refuse(message: str, allowed: str) -> NoReturn:
    raise InputError([Problem("", "standard input", message, allowed)])
