"""The stub of the native half names what there is. `make lint` checks types."""

import subprocess
import sys
from pathlib import Path

from conftest import ROOT

# Reads the stub and what it needs of Python, and not numpy's stubs, which take 30 times as long:
# names and arguments are compared, and no module of the package has values of numpy.
CONFIGURATION = """\
[mypy]
follow_imports = skip
[mypy-numpy.*]
follow_imports_for_stubs = True
"""


def test_stub_names_what_there_is(tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    settings.write_text(CONFIGURATION)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "mypy.stubtest", "armillary._core", "--concise"),
            *("--mypy-config-file", str(settings)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
