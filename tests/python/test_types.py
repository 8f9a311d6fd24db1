"""The stub of the native half names what there is. `make lint` checks types."""

import subprocess
import sys

from conftest import ROOT


def test_stub_names_what_there_is() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "armillary._core", "--concise"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
