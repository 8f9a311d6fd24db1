"""Signals that end a run with a checkpoint.

Here: signals, and what ends the course of a run on this rank. Not here: how ranks agree on the last
step (`ranks/exchange.py`), what a checkpoint is (`checkpoint/`), the processes (`launch.py`).

A signal that ends a process asks for the end of the run instead. All ranks hear of it in the next
meeting, so that they end after the same step, write a checkpoint, and then do what the signal
does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from . import launch

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 1.0
"""Seconds that a second signal leaves to what is going on."""


class StoppedError(Exception):
    """A signal ended the course of a run, on this or on another rank."""


@contextmanager
def until_signal(ask: Callable[[], None]) -> Iterator[None]:
    """The course of a run, in which the first signal calls `ask`. If the course then ends by
    `StoppedError`, the signal does what it did before.

    A second signal does that at once, also if Python waits for a long computation then. This is not
    so on one rank of several: who started the ranks ends them, and may have sent the first signal
    again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    asked = 0

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    def hear(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = number
            ask()
        elif not launch.is_worker():
            restore()
            signal.raise_signal(number)

    for each, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(each, hear)
    try:
        with contextlib.nullcontext() if launch.is_worker() else _second_signal_ends():
            yield
    except StoppedError:
        restore()
        signal.raise_signal(asked or signal.SIGTERM)
        raise
    finally:
        restore()


@contextmanager
def _second_signal_ends() -> Iterator[None]:
    """Ends this process some time after a second signal, if the block has not ended by then.
    Handlers in Python have to wait for the end of a computation; this one is in another thread."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    ended = threading.Event()
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        numbers: list[int] = []
        while len(numbers) < 2 and (found := reading.recv(1)):
            numbers += [each for each in found if each in _SIGNALS]
        if len(numbers) == 2 and not ended.wait(_GRACE):
            os.write(2, b"\ninterrupted; the last step is not in a checkpoint\n")
            os._exit(128 + numbers[1])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        writing.close()
        thread.join()
        reading.close()
