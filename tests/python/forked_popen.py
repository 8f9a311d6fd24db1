"""`subprocess.Popen` that starts `python -m armillary.cli`, and what reads data for the trainer, as
a copy (a fork) of this process.

A process that has loaded PyTorch starts its ranks with it, and these their readers, so that they
need not load modules again. Pipes, folder, environment, session and exit code are those of a
started process."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NoReturn

_COMMAND = [sys.executable, "-m", "armillary.cli"]
_READER = [sys.executable, "-c", "from armillary_train.data.reader_process import main; main()"]
_STREAMS = ("p2cread", "c2pwrite", "errwrite")
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_DESCRIPTORS = 1 << 12


class ForkedPopen(subprocess.Popen[Any]):
    """A started process, or a copy of this one if it is to run Armillary's command line."""

    def _execute_child(self, args: Any, *rest: Any) -> None:  # noqa: ANN401
        start = super()._execute_child  # type: ignore[misc]
        words = list(args)
        if words[:3] != _COMMAND and words != _READER:
            start(args, *rest)
            return
        given = inspect.signature(start).bind(args, *rest).arguments
        self.pid = os.fork()
        if not self.pid:
            _run(words, given)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]


def replace_popen() -> None:
    """Makes what this process starts from now on a `ForkedPopen`."""
    subprocess.Popen = ForkedPopen  # type: ignore[misc]


def _run(words: list[str], given: Mapping[str, Any]) -> NoReturn:
    """The command in the copy, which ends here, without what this process would do at its end."""
    status: Any = 1
    try:
        _prepare(words[3:], given)
        if words == _READER:
            # Without what was read ahead of the streams of this process.
            sys.stdin, sys.stdout = (open(at, "rw"[at], closefd=False) for at in (0, 1))  # noqa: SIM115
            exec(words[2], {"__name__": "__main__"})
            status = 0
        else:
            from armillary.cli import main

            status = main()
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
    finally:
        os._exit(status if isinstance(status, int) else 1)


def _prepare(arguments: list[str], given: Mapping[str, Any]) -> None:
    """The state that a started process has."""
    if given["start_new_session"]:
        os.setsid()
    for number, name in enumerate(_STREAMS):
        if given[name] != -1:
            os.dup2(given[name], number)
    for before, after in pairwise((2, *sorted(given["pass_fds"]), _DESCRIPTORS)):
        os.closerange(before + 1, after)
    if given["cwd"]:
        os.chdir(given["cwd"])
    set_environment(given["env"] or os.environ.copy())
    sys.argv[1:] = arguments


def set_environment(environment: Mapping[str, str]) -> None:
    """The environment, also for PyTorch, which reads the number of its threads as it is loaded."""
    os.environ.clear()
    os.environ.update(environment)
    if "torch" in sys.modules and environment.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
