"""Workers of sweeps in copies (forks) of one process that has loaded the command line.

A start of a worker costs 0.3 CPU seconds, a copy some hundredths. Each is still a process with
pipes of its own that ends when it is killed or when its input ends. Sweeps that tests start as
commands start their workers as users do."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import command_copies
import pytest

_WORKER = "from armillary.sweep.worker import main; main()"


class CopiedWorker:
    """`subprocess.Popen` of a worker, with what `processes` calls."""

    def __init__(self, copies: command_copies.Copies, environment: dict[str, str]) -> None:
        given, to = os.pipe()
        back, printed = os.pipe()
        self._command = copies.start(
            ["-c", _WORKER], Path.cwd(), environment, output=printed, given=given
        )
        os.close(given)
        os.close(printed)
        self.stdin: IO[bytes] = os.fdopen(to, "wb")
        self.stdout: IO[bytes] = os.fdopen(back, "rb")
        self._lock = threading.Lock()

    def kill(self) -> None:
        """Kills the worker, if it runs."""
        with self._lock:
            self._command.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        """Exit code of the worker, once it has ended."""
        with self._lock:
            self._command.communicate()
        assert self._command.returncode is not None
        return self._command.returncode


def use(copies: command_copies.Copies, patch: pytest.MonkeyPatch) -> None:
    """Makes workers of sweeps in this process copies."""
    from armillary.sweep import processes

    def start(command: Sequence[str], *, env: dict[str, str], **_: int) -> CopiedWorker:
        assert command[1:] == ["-m", "armillary.sweep.worker"]
        return CopiedWorker(copies, env)

    patch.setattr(processes, "subprocess", SimpleNamespace(Popen=start, PIPE=-1))
