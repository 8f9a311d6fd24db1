"""Short messages between processes on one machine.

Here: pipes, and what is said when one breaks. Not here: what is sent (`exchange.py`), arrays
(`shared_memory.py`).

A pipe of the system keeps a message until it is read. So a rank sends without waiting, and no
thread works for it: two threads and two sockets of gloo take about a hundred times longer. A pipe
is opened by the number of its owner's process and descriptor, as an outbox is, and has no name.
When a process ends, however that happens, its pipes end."""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Sequence

_HEAD = struct.Struct("=qq")
"""A message's number, and its numbers of 64 bits."""

_ROOM = 1 << 16
"""Bytes that are read at once."""


class ProcessPipes:
    """The pipes between this rank and the others."""

    def __init__(self, rank: int, size: int) -> None:
        """Pipes from each other rank. They work after `connect`."""
        self.rank, self.size = rank, size
        self._ends = [os.pipe() if other != rank else (-1, -1) for other in range(size)]
        self._to = [-1] * size
        self._polls = [select.poll() for _ in range(size)]
        for poll, (read, _) in zip(self._polls, self._ends, strict=True):
            if read >= 0:
                os.set_blocking(read, False)
                poll.register(read, select.POLLIN)
        self._unread = [bytearray() for _ in range(size)]
        self._early: list[dict[int, tuple[int, ...]]] = [{} for _ in range(size)]
        """Messages of each rank that came before they were asked for, by number."""

    @property
    def places(self) -> list[int]:
        """The descriptors in this process into which the ranks write."""
        return [end[1] for end in self._ends]

    def open(self, rank: int, process: int, descriptor: int) -> None:
        """Opens the pipe to another rank. Raises `OSError` when this process may not."""
        self._to[rank] = os.open(f"/proc/{process}/fd/{descriptor}", os.O_WRONLY | os.O_CLOEXEC)

    def connected(self) -> None:
        """Leaves the writing ends to the others, so that reading shows when these are gone."""
        for rank, (read, write) in enumerate(self._ends):
            if write >= 0:
                os.close(write)
                self._ends[rank] = (read, -1)

    def close(self) -> None:
        """Closes all pipes."""
        for each in (*self._to, *(end for pair in self._ends for end in pair)):
            if each >= 0:
                os.close(each)
        self._to, self._ends = [-1] * self.size, [(-1, -1)] * self.size

    def send(self, to: int, number: int, values: Sequence[int]) -> None:
        """Sends the message `number` to another rank. Raises `OSError` when it is gone."""
        body = struct.pack(f"={len(values)}q", *values)
        left = memoryview(_HEAD.pack(number, len(values)) + body)
        while left:
            left = left[os.write(self._to[to], left) :]

    def receive(self, of: int, number: int, timeout: float) -> tuple[int, ...]:
        """The message `number` of another rank, whose messages may be asked for in any order.
        Raises `OSError` when the rank is gone, or says nothing for `timeout` seconds."""
        early, deadline = self._early[of], 0.0
        while number not in early:
            try:
                found = os.read(self._ends[of][0], _ROOM)
            except BlockingIOError:
                now = time.monotonic()
                deadline = deadline or now + timeout
                if not self._polls[of].poll(max(0.0, deadline - now) * 1e3):
                    raise TimeoutError(f"rank {of} said nothing for {timeout:g} s") from None
                continue
            if not found:
                raise ConnectionError(f"rank {of} has ended")
            self._sort(of, found)
        return early.pop(number)

    def _sort(self, of: int, found: bytes) -> None:
        """Takes complete messages out of what was read."""
        unread, place = self._unread[of], 0
        unread += found
        while place + _HEAD.size <= len(unread):
            number, count = _HEAD.unpack_from(unread, place)
            end = place + _HEAD.size + 8 * count
            if end > len(unread):
                break
            self._early[of][number] = struct.unpack_from(f"={count}q", unread, place + _HEAD.size)
            place = end
        del unread[:place]
