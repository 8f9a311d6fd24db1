"""Logs of a run: events for TensorBoard and lines of JSON.

Here: the two formats. Not here: what is written when (`loop.py`).

Events are records of TensorFlow (`tensorflow/core/lib/io/record_writer.h`: length, checksum,
content, checksum) that hold a message `Event` (`tensorflow/core/util/event.proto`) each. Both are
so small that no library is needed for them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

from armillary import documents
from armillary.errors import InputError, Problem
from armillary.files import write_text

LINES = "log.jsonl"
"""The file with lines of JSON."""


class Logs:
    """The folder of a run: `log.jsonl` and a file of events. Every record is on disk once `write`
    returns, so that a crash loses none."""

    def __init__(self, folder: str | os.PathLike[str], resumed: int | None = None) -> None:
        """Begins anew, or goes on behind the records up to the step `resumed`. Raises
        `InputError`."""
        self._folder = os.fspath(folder)
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            kept = [] if resumed is None else _kept(Path(folder) / LINES, resumed)
            write_text(Path(folder) / LINES, "".join(kept))
            self._lines = (Path(folder) / LINES).open("a", encoding="utf-8")
            name = f"events.out.tfevents.{int(time.time())}.{os.getpid()}.armillary"
            self._events = (Path(folder) / name).open("wb")
            self._record(_double(1, time.time()) + _bytes(3, b"brain.Event:2"))
        except OSError as error:
            raise self._failed(error, "a folder") from None

    def write(self, kind: str, step: int, values: Mapping[str, float | int | None]) -> None:
        """Writes `values` of `step` as a line, and as one curve each, named `kind/name`. Raises
        `InputError`."""
        now = time.time()
        line = {"kind": kind, "step": step, "time": now, **values}
        try:
            self._lines.write(json.dumps(line, allow_nan=False) + "\n")
            self._lines.flush()
            self._write_event(now, kind, step, values)
        except OSError as error:
            raise self._failed(error, "a folder on a disk with space") from None

    def _failed(self, error: OSError, allowed: str) -> InputError:
        said = f"can't be written: {error.strerror or error}"
        return InputError([Problem(self._folder, "--log-dir", said, allowed)])

    def _write_event(
        self, now: float, kind: str, step: int, values: Mapping[str, float | int | None]
    ) -> None:
        curves = b"".join(
            _bytes(1, _bytes(1, f"{kind}/{name}".encode()) + _float(2, value))
            for name, value in values.items()
            if value is not None and math.isfinite(value)
        )
        self._record(_double(1, now) + _whole(2, step) + _bytes(5, curves))

    def _record(self, content: bytes) -> None:
        head = struct.pack("<Q", len(content))
        self._events.write(head + _masked(head) + content + _masked(content))
        self._events.flush()

    def __enter__(self) -> Logs:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for stream in (self._lines, self._events):
            with contextlib.suppress(OSError):  # All that could be written is on the disk.
                stream.close()


def _kept(path: Path, step: int) -> list[str]:
    """The lines of a log up to a step. A crash may have cut the last one."""
    kept = []
    try:
        lines = documents.content(path).decode(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            if line.endswith("\n") and json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return kept


def _masked(content: bytes) -> bytes:
    """The checksum of a record: CRC-32C, rotated."""
    crc, table = 0xFFFFFFFF, _table()
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return table


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found + bytes([value]))


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _whole(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)
