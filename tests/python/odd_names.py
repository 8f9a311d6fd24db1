"""Commands with names that are not UTF-8, in processes of their own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_RUN = "import sys, armillary_command as a; sys.exit(a.main())"
BAD = "bad\udcff"
"""Python's reading of the byte FF."""


def run(arguments: Sequence[str], folder: Path, files: int = 1024) -> tuple[int, str]:
    """Exit code and standard error of a command that may open so many files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    done = subprocess.run(
        [sys.executable, "-c", _RUN, *map(os.fsencode, arguments)],
        cwd=folder,
        capture_output=True,
        preexec_fn=limit,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stderr.decode("utf-8", "backslashreplace")


def check(arguments: Sequence[str], folder: Path) -> None:
    """Fails if a command has neither a result nor an error of its input."""
    code, said = run(arguments, folder)
    assert code in (0, 2), said
    assert "internal error" not in said
    assert "Traceback" not in said
