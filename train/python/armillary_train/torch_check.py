"""Whether PyTorch can be loaded at all, before anything loads it.

Where address space is limited, loading it can end the process without a word: once libraries have
taken what is left, the stack cannot grow. So a process of its own tries it first."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from armillary import machine
from armillary.errors import InputError, Problem, out_of_memory

_INSTALL = "pip install armillary-train"
_LOAD = "import armillary.cli, numpy, torch"


def require(verb: str, subject: str) -> None:
    """Raises `InputError` unless PyTorch is installed and fits into the limit of address space.

    Args:
        verb: The command that needs it, such as "armillary train".
        subject: The subject of the message, with its verb: "training needs".
    """
    if importlib.util.find_spec("torch") is None:
        said = f"{subject} PyTorch, which is not installed"
        raise InputError([Problem("", verb, said, _INSTALL)])
    if machine.addresses() is not None:
        _try()


def _try() -> None:
    """Loads PyTorch in a process that inherits the limit."""
    tried = subprocess.run(
        [sys.executable, "-c", _LOAD], capture_output=True, text=True, errors="replace", check=False
    )
    if tried.returncode == 0:
        return
    last = (tried.stderr.strip().splitlines() or [""])[-1].partition(": ")
    ended = f"loading PyTorch ended with exit code {tried.returncode}"
    error = ImportError(last[2])
    problem = out_of_memory(error) or out_of_memory(MemoryError(ended))
    assert problem is not None
    raise InputError([problem])
