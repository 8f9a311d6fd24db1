"""The command line in copies (forks) of one process that has loaded it.

A start of Python that loads Armillary costs 0.3 CPU seconds, a copy some hundredths. Each command
still has a process, a directory, an environment and streams of its own, ends as any program does
and leaves nothing behind. What depends on how Python itself starts (`PYTHON...` variables, closed
streams, signals during the start, limits) needs a real start: `test_faults.py` and others.

`Copies` is the side of the tests. As a program, it is the process that is copied."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib.util
import io
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import forked_popen

_TIMEOUT_S = 300
_LONGEST = 1 << 20
CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as to:
    to.connect({address!r})
    job = dict(arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
    socket.send_fds(to, [b"x"], [0, 1, 2])
    to.sendall(json.dumps(job).encode() + b"\\n")
    status = int(to.makefile().read().split()[1])
os._exit(status if status >= 0 else 128 - status)
"""


class Copies:
    """The process that commands are copied from, and the program `armillary` of shells."""

    def __init__(self, folder: Path, modules: Sequence[str], environment: dict[str, str]) -> None:
        self.address = str(folder / "socket")
        self.program = folder / "armillary"
        client = CLIENT.format(python=sys.executable, address=self.address)
        self.program.write_text(client, encoding="utf-8")
        self.program.chmod(0o755)
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.address, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n", "the process of commands did not start"
        self._commands: list[Command] = []

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
            "arguments": arguments,
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
            socket.send_fds(to, [b"x"], [read, printed, ends[1]])
        for end in ends:
            os.close(end)
        to.sendall(json.dumps(job).encode() + b"\n")
        command = Command(to, readers)
        self._commands.append(command)
        return command

    def end(self) -> None:
        """Ends the process, and commands of tests that failed."""
        for command in self._commands:
            if command.poll() is None:
                command.send_signal(signal.SIGKILL)
        self.process.kill()
        self.process.communicate()


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


@contextlib.contextmanager
def copies(*modules: str, **environment: str) -> Iterator[Copies]:
    """The process that commands are copied from, which ends with the block. It loads the command
    line and the `modules`."""
    with tempfile.TemporaryDirectory(prefix="armillary-") as folder:
        made = Copies(Path(folder), modules, environment)
        try:
            yield made
        finally:
            made.end()


_WITH_THREADS = {"calibrate", "capture", "design", "estimate", "plan"}
"""Rooms that load NumPy or PyTorch, which start threads."""


def _load(modules: Sequence[str]) -> None:
    """Loads the modules and what all commands load, except what starts threads when it is
    loaded."""
    from armillary.cli import app, groups

    with contextlib.redirect_stdout(io.StringIO()):
        for verb in groups.VERBS:
            app.application([verb], {verb})
        # What typer loads when it reads arguments.
        app.main(["run", "--help"])
    import armillary

    for found in pkgutil.walk_packages(armillary.__path__, "armillary."):
        _, room, *inner = found.name.split(".")
        if not (inner and room in _WITH_THREADS) and inner[-1:] != ["__main__"]:
            importlib.import_module(found.name)
    _simulate()
    assert not {"numpy", "torch"} & {*sys.modules}
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _simulate() -> None:
    """A small run, for what a first run loads: code, and presets that a platform may be like."""
    import armillary as arm

    settings = {"npu.compute": "roofline", "npu.peak": "1 TFLOPS"}
    pair = arm.Platform("R(2)", bandwidth="1 GB/s", latency="1 us", settings=settings)
    program = arm.workload.Program()
    program.compute("work", [], operations=1, bytes=1)
    arm.simulate(arm.workload.Workload.listed("small", [program], [0, 0], {}), pair)


def _serve(address: str, modules: Sequence[str]) -> None:
    """Makes a copy for each command. Only copies return: they go on to be the command."""
    _load(modules)
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
        connection.sendall(b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    connection.close()
    for kind, limit in job.get("limits", ()):
        resource.setrlimit(kind, (limit, limit))
    os.chdir(job["folder"])
    forked_popen.set_environment(job["environment"])
    forked_popen.replace_popen()
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
