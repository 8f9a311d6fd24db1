"""The process that commands of tests are copied from (`command_copies.py`), as a program.

It loads the command line once. For each connection that brings a command it makes a copy of itself,
which becomes the command, and answers with the number of its process and, when it has ended, with
its exit code. It ends with the last of the connections that hold it."""

from __future__ import annotations

import ast
import atexit
import contextlib
import fcntl
import gc
import importlib.util
import io
import os
import pkgutil
import resource
import select
import shutil
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import drawings
import forked_popen

COMMAND, HOLDS = b"x", b"h"
"""How a connection begins: it brings a command, or is held by a worker that may start some."""
_FIRST_S = 60


def _load(modules: Sequence[str]) -> None:
    """Loads the modules and what all commands load, but not PyTorch, which makes a copy cost three
    times as much, nor Polars, which starts threads that copies would not have."""
    from armillary.cli import app, groups

    with contextlib.redirect_stdout(io.StringIO()):
        for verb in groups.VERBS:
            # Also what typer loads, and prepares once, when it reads arguments.
            app.main([verb, "--help"])
    import armillary

    for found in pkgutil.walk_packages(armillary.__path__, "armillary."):
        _, room, *inner = found.name.split(".")
        if not (inner and room == "capture") and inner[-1:] != ["__main__"]:
            importlib.import_module(found.name)
    _simulate()
    assert not {"polars", "torch"} & {*sys.modules}
    for name in ("concurrent.futures.thread", "numpy.random", *modules):
        importlib.import_module(name)
    # What takes apart PyTorch at the end of a process: copies just end.
    for final in weakref.finalize._registry:  # type: ignore[attr-defined]
        final.atexit = False
    gc.collect()
    gc.freeze()


def _simulate() -> None:
    """Small runs, for what a first run loads: code, and presets that a platform may be like."""
    import armillary as arm

    settings = {"npu.compute": "roofline", "npu.peak": "1 TFLOPS"}
    pair = arm.Platform("R(2)", bandwidth="1 GB/s", latency="1 us", settings=settings)
    arm.workload.build("dlrm-small", dp=2)
    program = arm.workload.Program()
    program.compute("work", [], operations=1, bytes=1)
    arm.simulate(arm.workload.Workload.listed("small", [program], [0, 0], {}), pair)


class Server:
    """Connections, and copies that run."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._holding: set[socket.socket] = set()
        self._running: dict[int, socket.socket] = {}
        # There is something to read when a copy has ended.
        self._ended, self._wakes = os.pipe()
        os.set_blocking(self._wakes, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Makes a copy for each command, until no connection holds this process, which ends then.
        Only copies return: they go on to be the command."""
        limit: int | None = _FIRST_S
        while self._holding or limit or not self._left():
            sources: list[Any] = [self._listening, self._ended, *self._holding]
            ready = select.select(sources, [], [], limit)[0]
            limit = None
            if self._ended in ready:
                os.read(self._ended, 1 << 12)
                self._report()
            for connection in self._holding & {*ready}:
                self._holding.remove(connection)
                connection.close()
            if self._listening in ready and self._copied(self._listening.accept()[0]):
                return
        for left in self._running:
            os.kill(left, signal.SIGKILL)
        os._exit(0)

    def _left(self) -> bool:
        """Whether no worker is about to connect. Then, its folder is removed."""
        folder = Path(self._listening.getsockname()).parent
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if select.select([self._listening], [], [], 0)[0]:
                return False
            shutil.rmtree(folder, ignore_errors=True)
        return True

    def _copied(self, connection: socket.socket) -> bool:
        """Whether this is the copy that has become the command of a connection."""
        kind, streams, _, _ = socket.recv_fds(connection, 1, 3)
        if kind == HOLDS:
            self._holding.add(connection)
            return False
        text = b""
        while not text.endswith(b"\n") and (part := connection.recv(1 << 16)):
            text += part
        child = os.fork() if text.endswith(b"\n") else 1
        if not child:
            address = self._listening.getsockname()
            connection.close()
            self._close()
            _become(streams, ast.literal_eval(text.decode()), address)
            return True
        for stream in streams:
            os.close(stream)
        if text:
            self._running[child] = connection
            self._answer(connection, child)
        return False

    def _close(self) -> None:
        """Leaves to a copy nothing of what this process uses."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for connection in (self._listening, *self._holding, *self._running.values()):
            connection.close()
        for end in (self._ended, self._wakes):
            os.close(end)

    def _report(self) -> None:
        """Answers for the copies that have ended."""
        while self._running:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            with self._running.pop(child) as connection:
                self._answer(connection, os.waitstatus_to_exitcode(status))

    @staticmethod
    def _answer(connection: socket.socket, number: int) -> None:
        # Who asked may have ended since.
        with contextlib.suppress(OSError):
            connection.sendall(b"%d\n" % number)


def _leave() -> int:
    """Goes on in a process of its own, while this one waits until it is loaded. Returns what to
    write to then."""
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        os._exit(0 if os.read(read, 1) else 1)
    os.close(read)
    os.setsid()
    return write


def _serve(address: str, modules: Sequence[str]) -> None:
    """Serves at this address, once the modules are loaded. Only copies return."""
    loaded = _leave()
    _load(modules)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        os.write(loaded, b"x")
        os.close(loaded)
        Server(listening).serve()


def _become(streams: Sequence[int], job: dict[str, Any], address: str) -> None:
    """Gives this process all that the command has of its own. It was copied at this address."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for kind, limit in job.get("limits", ()):
        resource.setrlimit(kind, (limit, limit))
    os.chdir(job["folder"])
    forked_popen.set_environment(job["environment"])
    forked_popen.replace_popen()
    if not job.get("draws"):
        drawings.share(address)
    main = importlib.util.find_spec("armillary.cli.__main__")
    assert main is not None and main.origin is not None
    sys.path[0] = job["folder"]
    sys.argv = [main.origin, *job["arguments"]]


def _work() -> int:
    """The exit code of the command or of the program in Python."""
    try:
        if sys.argv[1:2] == ["-c"]:
            exec(sys.argv[2], {"__name__": "__main__"})
            return 0
        from armillary.cli import main as command

        return command()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        raise


def _end(status: int) -> NoReturn:
    """Ends as Python does, but frees no memory: that of PyTorch takes 0.3 CPU seconds."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        # Python says so, at its own end.
        sys.exit(status)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
    _end(_work())
