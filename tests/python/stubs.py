"""Comparison of an extension module with its stub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import ROOT

# Reads the stub and what it needs of Python, and not numpy's stubs, which take 30 times as long:
# names and arguments are compared, and no module of the packages has values of numpy.
_CONFIGURATION = """\
[mypy]
follow_imports = skip
[mypy-numpy.*]
follow_imports_for_stubs = True
"""


def check(module: str, folder: Path) -> None:
    """Fails if the stub of `module` names what there isn't, or lacks what there is."""
    settings = folder / "mypy.ini"
    settings.write_text(_CONFIGURATION)
    command = [sys.executable, "-m", "mypy.stubtest", module, "--concise"]
    run = subprocess.run(
        [*command, "--mypy-config-file", str(settings)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
