"""Signals that end a run with a checkpoint.

Here: signals, and what ends the course of a run on this rank. Not here: how ranks agree on the last
step (`exchange.py`), what a checkpoint is (`checkpoint/`), the processes (`launch.py`).

A signal that ends a process asks for the end of the run instead. All ranks hear of it in the next
meeting, so that they end after the same step, write a checkpoint, and then do what the signal
does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from . import launch

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(Exception):
    """A signal ended the course of a run, on this or on another rank."""


@contextmanager
def until_signal(ask: Callable[[], None]) -> Iterator[None]:
    """The course of a run, in which the first signal calls `ask`. If the course then ends by
    `StoppedError`, the signal does what it did before.

    A second signal does that at once, except on one rank of several: who started the ranks ends
    them, and may have sent the first signal again."""
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
        yield
    except StoppedError:
        restore()
        signal.raise_signal(asked or signal.SIGTERM)
        raise
    finally:
        restore()
