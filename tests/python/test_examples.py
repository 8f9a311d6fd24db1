"""Every numbered example runs as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example(example: Path) -> None:
    if "import torch" in example.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    run = subprocess.run(
        [sys.executable, example],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout
    assert run.stderr == ""
