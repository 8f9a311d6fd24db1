"""The command line in copies (forks) of one process that has loaded it.

A start of Python that loads Armillary costs 0.3 CPU seconds, a copy some hundredths. Each command
still has a process, a directory, an environment and streams of its own, ends as any program does
and leaves nothing behind. What depends on how Python itself starts (`PYTHON...` variables, closed
streams, signals during the start, limits) needs a real start: `test_faults.py` and others.

`command_server.py` is the program that is copied. All workers of a test run share its process: the
first that needs it starts it, and it ends when no worker is connected."""

from __future__ import annotations

import contextlib
import fcntl
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
from typing import TextIO

from command_server import COMMAND, HOLDS

_TIMEOUT_S = 300
_SERVER = Path(__file__).with_name("command_server.py")

# Loads nothing that is written in Python, which would double the time of its start.
CLIENT = """#!{python} -IS
import _socket as socket, os, sys
to = socket.socket(socket.AF_UNIX)
to.connect({address!r})
job = dict(arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
to.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
to.sendall(ascii(job).encode() + b"\\n")
said = b""
while part := to.recv(99):
    said += part
status = int(said.split()[1])
os._exit(status if status >= 0 else 128 - status)
"""


class Copies:
    """The process that commands are copied from, and the program `armillary` of shells."""

    def __init__(self, folder: Path, modules: Sequence[str], environment: dict[str, str]) -> None:
        self.address = str(folder / "socket")
        self.program = folder / "armillary"
        self._commands: list[Command] = []
        self._held = socket.socket(socket.AF_UNIX)
        with _locked(folder):
            if not self.program.exists():
                subprocess.run(
                    [sys.executable, _SERVER, self.address, *modules],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, **environment},
                    check=True,
                )
                client = CLIENT.format(python=sys.executable, address=self.address)
                self.program.write_text(client, encoding="utf-8")
                self.program.chmod(0o755)
            self._held.connect(self.address)
            self._held.sendall(HOLDS)

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        limits: Mapping[int, int] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Output and exit code of the command, in the form of `subprocess.run`."""
        command = self.start(arguments, folder, environment, limits=limits)
        try:
            texts = command.communicate(_TIMEOUT_S)
        except TimeoutError:
            command.send_signal(signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(
            ["armillary", *arguments], command.returncode or 0, *texts
        )

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        output: int | None = None,
        limits: Mapping[int, int] | None = None,
        given: int | None = None,
    ) -> Command:
        """The command, which runs. `-c` and a program in Python are one as well.

        `output`: descriptor to print to. `limits`: of the process, as `resource` numbers them.
        `given`: descriptor to read from; without it, there is nothing to read."""
        texts = {name: str(value) for name, value in environment.items()}
        job = {
            "arguments": [*arguments],
            "folder": str(folder),
            "environment": texts,
            "limits": [*(limits or {}).items()],
        }
        to = socket.socket(socket.AF_UNIX)
        to.connect(self.address)
        readers, ends = zip(*(_reader() for _ in range(2)), strict=True)
        with Path(os.devnull).open("rb") as nothing:
            printed = ends[0] if output is None else output
            read = nothing.fileno() if given is None else given
            socket.send_fds(to, [COMMAND], [read, printed, ends[1]])
        for end in ends:
            os.close(end)
        to.sendall(ascii(job).encode() + b"\n")
        command = Command(to, readers)
        self._commands.append(command)
        return command

    def end(self) -> None:
        """Ends commands of tests that failed, and the process, unless other workers use it."""
        for command in self._commands:
            if command.poll() is None:
                command.send_signal(signal.SIGKILL)
        self._held.close()


class Command:
    """A copy that runs, with the methods of `subprocess.Popen` that tests need."""

    def __init__(self, to: socket.socket, readers: Sequence[_Reader]) -> None:
        self._socket, self._answers, self._readers = to, to.makefile(), readers
        answer = self._answers.readline()
        assert answer, "the process of commands has ended"
        self.pid = int(answer)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, if the command has ended."""
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self.returncode = self._ended()
        return self.returncode

    def communicate(self, timeout: float = _TIMEOUT_S) -> list[str]:
        """Standard output and standard error, once the command has ended. Raises `TimeoutError`."""
        if self.returncode is None:
            self._socket.settimeout(timeout)
            self.returncode = self._ended()
        self._answers.close()
        self._socket.close()
        return [reader.text() for reader in self._readers]

    def _ended(self) -> int:
        answer = self._answers.readline()
        assert answer, "the process of commands has ended"
        return int(answer)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the command, if it runs."""
        if self.poll() is None:
            # It may have ended since: who started it knows first.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


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


def _locked(folder: Path) -> TextIO:
    """Makes the folder, unless it is there, and keeps others out of it until this is closed."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            lock = (folder / "lock").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            # A process that ends removes the folder.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock.fileno()), (folder / "lock").stat()):
                    return lock
            lock.close()


@contextlib.contextmanager
def copies(name: str, *modules: str, **environment: str) -> Iterator[Copies]:
    """The process of this name that commands are copied from, the same for all workers of a test
    run. It loads the command line and the `modules`."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    folder = Path(tempfile.gettempdir()) / f"armillary-{name}-{run[:12]}"
    made = Copies(folder, modules, environment)
    try:
        yield made
    finally:
        made.end()
