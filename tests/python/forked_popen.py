"""`subprocess.Popen` that starts `python -m armillary.cli` as a copy (a fork) of this process.

A process that has loaded PyTorch starts its ranks with it, so that they need not load PyTorch
again. Pipes, folder, environment, session and exit code are those of a started process."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

_STREAMS = ("p2cread", "c2pwrite", "errwrite")
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_DESCRIPTORS = 1 << 12


class ForkedPopen(subprocess.Popen[Any]):
    """A started process, or a copy of this one if it is to run Armillary's command line."""

    def _execute_child(self, args: Any, *rest: Any) -> None:  # noqa: ANN401
        start = super()._execute_child  # type: ignore[misc]
        if list(args[:3]) != [sys.executable, "-m", "armillary.cli"]:
            start(args, *rest)
            return
        given = inspect.signature(start).bind(args, *rest).arguments
        self.pid = os.fork()
        if not self.pid:
            _run(args[3:], given)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]


def replace_popen() -> None:
    """Makes what this process starts from now on a `ForkedPopen`."""
    subprocess.Popen = ForkedPopen  # type: ignore[misc]


def _run(arguments: list[str], given: Mapping[str, Any]) -> NoReturn:
    """The command in the copy, which ends here, without what this process would do at its end."""
    from armillary.cli import main

    status: Any = 1
    try:
        _prepare(arguments, given)
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
    os.closerange(3, _DESCRIPTORS)
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
