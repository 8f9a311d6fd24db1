"""Networks under another front end: send, receive, schedule, and the clock.

Here: `Network`, which keeps callbacks and checks arguments. Not here: matching of messages, order
and time, which are in the core (`crates/sim/src/exchange.rs`)."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from .. import _core
from ..errors import InputError, Problem, StalledError
from ..platform import AnyPlatform, Platform
from ..units import PS_PER_S, base

Callback = Callable[[], object]
"""Function that is called when something is done. `Network.now` is the time then."""

_MOST = 2**64 - 1
_MOST_NPUS = 2**32 - 1


class Network:
    """The network of a platform, driven by another front end.

        with Network("dgx-h100-16n", backend="packet") as net:
            net.send(0, 8, "1 MB", callback=lambda: print("arrived at", net.now))
            net.run()

    A platform is an object, the name of a preset or the path of a file. `backend` is that of the
    platform unless one is named; `external:COMMAND` starts a simulator in another process. `npus`
    resizes the outermost dimension.

    Times are whole picoseconds, or text with a unit (`"1.5 us"`). The clock starts at 0. Sizes are
    whole bytes, or text (`"4 MiB"`). Callbacks are called by `run` and `advance`, one after the
    other. At each instant come first messages that have arrived, then what is scheduled, in the
    order of the calls. The same calls always give the same order. A callback may send, receive and
    schedule. What it raises leaves `run`; another `run` goes on with the next callback.

    A message takes the time of the network alone. What a library adds to messages and collectives
    is part of `collective` and `simulate`.
    """

    def __init__(
        self, platform: AnyPlatform, *, backend: str | None = None, npus: int | None = None
    ) -> None:
        target = Platform.of(platform, npus=npus)
        self.platform = target
        """The platform."""
        self.backend = target.backend if backend is None else backend
        """The network model."""
        self._core: _core.Network | None = _core.Network(target._core, self.backend)
        self._callbacks: dict[int, Callback] = {}
        self._due: deque[int] = deque()
        self._calls = False

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def npus(self) -> int:
        """Number of NPUs, which are numbered from 0."""
        return self._open.npus

    @property
    def now(self) -> int:
        """Time in picoseconds."""
        return self._open.now

    @property
    def warnings(self) -> list[str]:
        """Assumptions about the platform."""
        return self.platform.warnings

    def send(
        self,
        src: int,
        dst: int,
        size: int | str,
        tag: int = 0,
        callback: Callback | None = None,
    ) -> None:
        """Sends `size` bytes from NPU `src` to NPU `dst` now. `callback` is called when all of them
        have arrived, received or not.

        Raises `InputError` for an argument out of range, and for a receive of another size."""
        core = self._open
        message = _message(src, dst, size, tag)
        found = _callable(callback, optional=True)
        self._expect(core.send(*message), found)

    def receive(
        self,
        src: int,
        dst: int,
        size: int | str,
        tag: int = 0,
        callback: Callback | None = None,
    ) -> None:
        """Posts a receive of NPU `dst` now. `callback` is called when the message has arrived, or
        at once by the next `run` where that was before.

        The first receive of a source, destination and tag gets the first message sent with them,
        and so on. Raises `InputError` for an argument out of range, and for a message of another
        size."""
        core = self._open
        message = _message(src, dst, size, tag)
        found = _callable(callback, optional=True)
        self._expect(core.receive(*message), found)

    def schedule(self, delay: int | str, callback: Callback) -> None:
        """Calls `callback` after `delay`. Raises `InputError` for a negative delay."""
        core = self._open
        picoseconds, found = _time("delay", delay), _callable(callback)
        self._expect(core.schedule(picoseconds), found)

    def access(
        self,
        npu: int,
        size: int | str,
        location: str = "remote",
        callback: Callback | None = None,
        *,
        store: bool = False,
    ) -> None:
        """Loads `size` bytes to NPU `npu` from memory, or stores them there, and calls `callback`
        when that is over.

        The location is `local` (the NPU's own memory), `remote` (outside of it), `host`, `disk` or
        `in_switch`. An access waits for its turn, and shares the links of a pool, as in a
        simulation. Raises `InputError` for an argument out of range, and for memory that the
        platform does not have."""
        core = self._open
        wanted = _whole("npu", npu), _bytes(size), str(location), bool(store)
        found = _callable(callback, optional=True)
        self._expect(core.access(*wanted), found)

    def run(self) -> int:
        """Goes on until nothing is left to do, and returns the time then.

        Raises:
            StalledError: a receive without a send, or a network that locked up.
            InputError: a simulator in another process that failed.
        """
        self._go(None)
        waiting = self._core.waiting() if self._core else []
        if waiting:
            raise StalledError([Problem(*parts) for parts in waiting])
        return self._core.now if self._core else 0

    def advance(self, until: int | str) -> int:
        """Goes on to the time `until`, and returns the time then. Raises `InputError` for a time in
        the past, else as `run` does; receives may wait."""
        core, limit = self._open, _time("until", until)
        if limit < core.now:
            _refuse("until", f"{limit} ps is in the past", f"{core.now} ps or later")
        self._go(limit)
        return limit

    def close(self) -> None:
        """Ends the network, and the process of a simulator. What is under way is dropped."""
        self._core = None
        self._callbacks.clear()
        self._due.clear()

    @property
    def _open(self) -> _core.Network:
        if self._core is None:
            _refuse("network", "the network is closed", "a new one")
        return self._core

    def _expect(self, number: int, callback: Callback | None) -> None:
        if callback is not None:
            self._callbacks[number] = callback

    def _go(self, limit: int | None) -> None:
        """Calls back until `limit`, or until nothing is left."""
        core = self._open
        if self._calls:
            _refuse("network", "a callback of the network runs it", "a return from the callback")
        self._calls = True
        try:
            while self._core is core:
                self._call_back()
                if self._core is not core:
                    return
                self._due.extend(core.advance(limit))
                if not self._due:
                    return
        finally:
            self._calls = False

    def _call_back(self) -> None:
        while self._due:
            callback = self._callbacks.pop(self._due.popleft(), None)
            if callback is not None:
                callback()


def _refuse(place: str, message: str, allowed: str) -> NoReturn:
    raise InputError([Problem("", place, message, allowed)])


def _whole(place: str, value: object, allowed: str = "a whole number from 0 on") -> int:
    """The number, which the core can hold."""
    most = _MOST_NPUS if place in ("src", "dst", "npu") else _MOST
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number <= most:
        _refuse(place, f"invalid {place}: {value!r}", allowed)
    return number


def _message(src: int, dst: int, size: int | str, tag: int) -> tuple[int, int, int, int]:
    """Arguments of a send or a receive for the core."""
    return _whole("src", src), _whole("dst", dst), _bytes(size), _whole("tag", tag)


def _bytes(size: int | str) -> int:
    allowed = 'whole bytes from 0 on, or text such as "4 MiB"'
    if not isinstance(size, str):
        return _whole("size", size, allowed)
    found = base(size) if size.rstrip().endswith("B") else None
    if found is None or found.denominator != 1:
        _refuse("size", f"invalid size: {size!r}", allowed)
    return _whole("size", int(found), allowed)


def _time(place: str, value: int | str) -> int:
    allowed = 'whole picoseconds from 0 on, or text such as "1.5 us"'
    if not isinstance(value, str):
        return _whole(place, value, allowed)
    found = base(value) if value.rstrip().endswith("s") else None
    picoseconds = None if found is None or "/" in value else found * int(PS_PER_S)
    if picoseconds is None or picoseconds.denominator != 1:
        _refuse(place, f"invalid {place}: {value!r}", allowed)
    return _whole(place, int(picoseconds), allowed)


def _callable(callback: Callback | None, *, optional: bool = False) -> Callback | None:
    if not (callable(callback) or (optional and callback is None)):
        _refuse("callback", f"invalid callback: {callback!r}", "a function without arguments")
    return callback
