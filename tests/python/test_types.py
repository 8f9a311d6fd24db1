"""The package and its tests pass strict type checking, stubs of the native half included."""

import subprocess
import sys

from conftest import ROOT


def test_mypy() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_stub_names_what_there_is() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "armillary._core", "--concise"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
