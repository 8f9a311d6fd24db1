"""Memory through which processes on one machine send arrays to each other. Here: the memory. Not
here: who may write or read it when (`exchange.py`).

An outbox is an anonymous file in memory, which other processes open by the number of its owner's
process and descriptor. It has no name, so nothing is left behind when a process is killed."""

from __future__ import annotations

import mmap
import os
import sys

import torch
from torch import Tensor

_LEAST = 1 << 16
"""Bytes of the smallest outbox."""


def possible() -> bool:
    """Whether this system has such files."""
    return sys.platform == "linux" and hasattr(os, "memfd_create")


class Outbox:
    """Memory of this process that grows as needed."""

    def __init__(self, number: int) -> None:
        self.number = number
        """Which of the process's outboxes it is."""
        self.size = self.version = 0
        self.descriptor = -1
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def room(self, count: int) -> Tensor:
        """Memory for `count` bytes, uint8. It may move and lose what is in it."""
        if count > self.size or not self.size:
            self._grow(max(_LEAST, count + count // 4))
        return self._bytes[:count]

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Number, version, descriptor and size: where other processes find it."""
        return self.number, self.version, self.descriptor, self.size

    def _grow(self, size: int) -> None:
        self.close()
        self.descriptor = os.memfd_create("armillary", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self._bytes = torch.frombuffer(mmap.mmap(self.descriptor, size), dtype=torch.uint8)
        self.size, self.version = size, self.version + 1

    def close(self) -> None:
        """Gives the memory back, once no other process has it open."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Inbox:
    """Another process's outbox, seen from here."""

    def __init__(self) -> None:
        self.version = 0
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def open(self, process: int, version: int, descriptor: int, size: int) -> Tensor:
        """Bytes of the outbox, uint8. `Outbox.place` says where they are. Raises `OSError` when the
        other process's memory can't be opened from here."""
        if version != self.version:
            opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
            try:
                self._bytes = torch.frombuffer(mmap.mmap(opened, size), dtype=torch.uint8)
            finally:
                os.close(opened)
            self.version = version
        return self._bytes
