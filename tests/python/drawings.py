"""Charts of the commands of tests, drawn by one process for all of them.

A start of V8, which draws charts, costs 0.8 CPU seconds, a chart some hundredths. Copies of the
process of commands (`command_server.py`) ask another copy, the first that draws, for the same bytes
from the same function. Limits of a process that draws, and V8 in it, are tested with real starts
(`test_chart.py`, `cli/test_report.py`)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import vl_convert

_NAMES = ("vegalite_to_svg", "svg_to_png")
_TEXT, _BYTES, _FAULT = b"t", b"b", b"f"
_WAIT_S = 60


def serve(address: str) -> None:
    """Draws for whoever connects, until this process is ended."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        while True:
            connection, _ = listening.accept()
            # Who asked may have ended since.
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as asked:
                kind, answer = _drawn(asked.readline())
                connection.sendall(kind + answer)


def _drawn(asked: bytes) -> tuple[bytes, bytes]:
    try:
        name, arguments, options = json.loads(asked)
        answer = getattr(vl_convert, name)(*arguments, **options)
    except Exception as error:
        return _FAULT, str(error).encode()
    return (_TEXT, answer.encode()) if isinstance(answer, str) else (_BYTES, answer)


def share(commands: str) -> None:
    """Makes this process ask a copy of the process of commands at this address for its charts."""
    for name in _NAMES:
        setattr(vl_convert, name, _asking(commands, name))


def _asking(commands: str, name: str) -> Callable[..., str | bytes]:
    def ask(*arguments: object, **options: object) -> str | bytes:
        with _connected(Path(commands)) as connection:
            connection.sendall(json.dumps([name, arguments, options]).encode() + b"\n")
            with connection.makefile("rb") as answers:
                kind, answer = answers.read(1), answers.read()
        assert kind, "the process that draws has ended"
        if kind == _FAULT:
            raise ValueError(answer.decode())
        return answer.decode() if kind == _TEXT else answer

    return ask


def _connected(commands: Path) -> socket.socket:
    drawings = commands.with_name("drawings")
    with commands.with_name("lock of drawings").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not drawings.exists():
            _start(commands, drawings)
        connection = socket.socket(socket.AF_UNIX)
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                connection.connect(str(drawings))
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return connection


def _start(commands: Path, drawings: Path) -> None:
    job = {
        "arguments": ["-c", f"import drawings; drawings.serve({str(drawings)!r})"],
        "folder": str(commands.parent),
        "environment": dict(os.environ),
        "draws": True,
    }
    with socket.socket(socket.AF_UNIX) as to, Path(os.devnull).open("r+b") as nothing:
        to.connect(str(commands))
        socket.send_fds(to, [b"x"], [nothing.fileno()] * 3)
        to.sendall(ascii(job).encode() + b"\n")
        to.recv(1)
