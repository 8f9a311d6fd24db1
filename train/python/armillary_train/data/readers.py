"""Processes that read batches ahead of a trainer.

Here: `Readers`, a source that reads in other processes. Not here: what such a process does
(`reader_process.py`), the sources themselves.

Of `N` readers, reader `i` makes the batches `i`, `i + N`, `i + 2 N`, and so on. The trainer takes
batches from the readers in turn, so the order never depends on their speed. A reader writes a batch
into a *slot*, a file in memory that both processes map, and then a line with shapes into a pipe. It
reads on when the trainer gives the slot back. So it is at most `SLOTS` batches ahead.

When a reader ends, the trainer reads the end of its pipe; when the trainer ends, the reader reads
the end of its own. So neither waits for a process that is gone."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from armillary.errors import InputError, LostContactError, Problem

from ..settings import Settings
from .samples import ALL, START, Part, Position, Samples, Source, Turn
from .wrapped_source import Wrapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLOTS = 2
"""Batches that a reader is ahead, at most."""

ARRAYS = ("dense", "lengths", "indices", "labels")
"""Arrays of a slot, one behind the other."""

_TRACEBACK = "ARMILLARY_TRACEBACK"


def reading(source: Source, settings: Settings) -> Source:
    """The source as the settings want it read: by the trainer itself, or by readers. Raises
    `InputError`."""
    if settings.readers is None:
        return source
    if settings.readers_on == "ray":
        from .ray_readers import RayReaders

        return RayReaders(source, settings)
    return Readers(source, settings)


class Readers(Wrapped):
    """A source whose batches are made by other processes."""

    def parts(
        self, batch: int, rank: int, ranks: int, start: Position = START, turn: Turn = ALL
    ) -> Iterator[Part]:
        """As `Source.parts`. Raises what the source raises, and `LostContactError` if a reader ends
        or is silent for longer than the settings' `timeout`."""
        count = self._settings.readers or 1
        with contextlib.ExitStack() as stack:
            running = [
                stack.enter_context(
                    _Reader(
                        f"reader {at} of rank {rank}",
                        self._settings,
                        {
                            "settings": asdict(self._settings),
                            "batch": batch,
                            "rank": rank,
                            "ranks": ranks,
                            "start": start.as_dict(),
                            "turn": [turn[0] + at * turn[1], count * turn[1]],
                        },
                    )
                )
                for at in range(count)
            ]
            while True:
                for reader in running:
                    part = reader.next()
                    if part is None:
                        return
                    yield part


class _Reader:
    """A process that reads, and its slots."""

    def __init__(self, name: str, settings: Settings, job: dict[str, Any]) -> None:
        self._name, self._timeout = name, settings.timeout
        self._slots = [_memory() for _ in range(SLOTS)]
        descriptors = [slot.fileno() for slot in self._slots]
        command = "from armillary_train.data.reader_process import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get(_TRACEBACK) else subprocess.DEVNULL,
            pass_fds=descriptors,
            bufsize=0,
            # Ctrl-C reaches the trainer, which ends its readers.
            start_new_session=True,
        )
        self._rest = b""
        self._say(json.dumps({**job, "slots": descriptors}).encode() + b"\n")
        for slot in range(SLOTS):
            self._say(b"%d\n" % slot)

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, *self._slots):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def next(self) -> Part | None:
        """The reader's next part; `None` at the end of the pass."""
        said = json.loads(self._line())
        if "problems" in said:
            raise InputError([Problem(**each) for each in said["problems"]])
        if "fault" in said:
            raise RuntimeError(f"{self._name}: {said['fault']}")
        if "slot" not in said:
            return None
        slot = said["slot"]
        arrays = self._copies(self._slots[slot], said["arrays"])
        self._say(b"%d\n" % slot)
        position = Position.from_dict(said["after"])
        return Part(Samples(**arrays), said["first"], said["whole"], position)

    def _copies(self, slot: IO[bytes], shapes: list[Any]) -> dict[str, NDArray[Any]]:
        """The arrays in a slot."""
        kinds = [(np.dtype(kind), tuple(shape)) for kind, shape in shapes]
        size = sum(kind.itemsize * int(np.prod(shape)) for kind, shape in kinds)
        found, place = {}, 0
        with mmap.mmap(slot.fileno(), max(size, 1), access=mmap.ACCESS_READ) as memory:
            for name, (kind, shape) in zip(ARRAYS, kinds, strict=True):
                count = int(np.prod(shape))
                array = np.frombuffer(memory, kind, count, place).reshape(shape).copy()
                found[name], place = array, place + array.nbytes
        return found

    def _line(self) -> bytes:
        """Next line of the reader."""
        stream = self._process.stdout
        assert stream is not None
        deadline = time.monotonic() + self._timeout
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    said = f"gave no batch for {self._timeout:g} s"
                    help_ = "a longer --timeout, or more --readers"
                    raise LostContactError([Problem("", self._name, said, help_)])
                block = os.read(stream.fileno(), 65536)
                if not block:
                    raise LostContactError([self._ended()])
                self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _ended(self) -> Problem:
        """The problem of a reader that ended."""
        code = self._process.wait()
        if code < 0:
            name = signal.Signals(-code).name
            help_ = "enough memory, if the system ended it" if name == "SIGKILL" else ""
            return Problem("", self._name, f"the process was ended by {name}", help_)
        return Problem("", self._name, f"the process ended with exit code {code}")

    def _say(self, text: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError):  # The end of its output says more.
            stream.write(text)


def _memory() -> IO[bytes]:
    """A file in memory that has no name, so that it never outlives its processes."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("armillary-batch"), "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
