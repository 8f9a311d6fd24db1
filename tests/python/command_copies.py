"""The command line in copies (forks) of one process that has loaded it.

A start of Python that loads Armillary costs 0.3 CPU seconds, a copy some hundredths. Each command
still has a process, a directory, an environment and streams of its own, ends as any program does
and leaves nothing behind. What depends on how Python itself starts (`PYTHON...` variables, closed
streams, signals during the start, limits) needs a real start: `test_faults.py` and others.

`Copies` is the side of the tests. As a program, it is the process that is copied."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_TIMEOUT_S = 300
_LONGEST = 1 << 20
CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as to:
    to.connect({address!r})
    job = dict(arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
    socket.send_fds(to, [b"x"], [0, 1, 2])
    to.sendall(json.dumps(job).encode() + b"\\n")
    status = int(to.makefile().readline())
os._exit(status if status >= 0 else 128 - status)
"""


class Copies:
    """The process that commands are copied from, and the program `armillary` of shells."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "socket")
        self.program = folder / "armillary"
        client = CLIENT.format(python=sys.executable, address=self.address)
        self.program.write_text(client, encoding="utf-8")
        self.program.chmod(0o755)
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n", "the process of commands did not start"

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Output and exit code of the command, in the form of `subprocess.run`."""
        texts = {name: str(value) for name, value in environment.items()}
        job = {"arguments": arguments, "folder": str(folder), "environment": texts}
        with Path(os.devnull).open("rb") as nothing, socket.socket(socket.AF_UNIX) as to:
            to.settimeout(_TIMEOUT_S)
            to.connect(self.address)
            readers, ends = zip(*(_reader() for _ in range(2)), strict=True)
            socket.send_fds(to, [b"x"], [nothing.fileno(), *ends])
            for end in ends:
                os.close(end)
            to.sendall(json.dumps(job).encode() + b"\n")
            try:
                answer = to.makefile().readline()
            except TimeoutError:
                os.killpg(self.process.pid, signal.SIGKILL)
                raise
            printed = [reader.text() for reader in readers]
        assert answer, "the process of commands has ended"
        return subprocess.CompletedProcess(["armillary", *arguments], int(answer), *printed)


class _Reader(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, end: int) -> None:
        super().__init__(daemon=True)
        self._stream = os.fdopen(end, encoding="utf-8")
        self._text = ""
        self.start()

    def run(self) -> None:
        """Reads."""
        with self._stream:
            self._text = self._stream.read()

    def text(self) -> str:
        """All that was in the pipe."""
        self.join()
        return self._text


def _reader() -> tuple[_Reader, int]:
    read, write = os.pipe()
    return _Reader(read), write


@contextlib.contextmanager
def copies() -> Iterator[Copies]:
    """The process that commands are copied from, which ends with the block."""
    with tempfile.TemporaryDirectory(prefix="armillary-") as folder:
        made = Copies(Path(folder))
        try:
            yield made
        finally:
            made.process.kill()
            made.process.communicate()


def _load() -> None:
    """Loads what commands load, except what starts threads when it is loaded."""
    from armillary.cli import app, groups

    with contextlib.redirect_stdout(io.StringIO()):
        for verb in groups.VERBS:
            app.application([verb], {verb})
        # What typer loads when it reads arguments.
        app.main(["run", "--help"])
    for name in ("api", "explain", "report.words", "report.terminal", "result", "workload"):
        importlib.import_module(f"armillary.{name}")
    gc.collect()
    gc.freeze()


def _serve(address: str) -> None:
    """Makes a copy for each command. Only copies return: they go on to be the command."""
    _load()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("ready", flush=True)
        # Standard input ends when the process of the tests does.
        while server in select.select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            if not os.fork():
                break
            connection.close()
        else:
            sys.exit()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _become(connection)


def _become(connection: socket.socket) -> None:
    """Waits for the command in one process, which reports how it ended; returns in the other."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    job = json.loads(connection.makefile().readline(_LONGEST))
    child = os.fork()
    if child:
        for stream in (0, 1, 2, *streams):
            os.close(stream)
        _, status = os.waitpid(child, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    connection.close()
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    main = importlib.util.find_spec("armillary.cli.__main__")
    assert main is not None and main.origin is not None
    sys.path[0] = job["folder"]
    sys.argv = [main.origin, *job["arguments"]]


if __name__ == "__main__":
    _serve(sys.argv[1])
    from armillary.cli import main as command

    sys.exit(command())
