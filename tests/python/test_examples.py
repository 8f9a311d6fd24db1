"""Every numbered example runs as it is."""

import importlib.util
import os
from pathlib import Path

import pytest
from conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example(example: Path, request: pytest.FixtureRequest) -> None:
    """In a copy of a process that has loaded Armillary, and PyTorch where the example needs it."""
    torch = "import torch" in example.read_text(encoding="utf-8")
    if torch and importlib.util.find_spec("torch") is None:
        pytest.skip("no PyTorch")
    copies = request.getfixturevalue("trainings" if torch else "commands")
    program = f"import runpy; runpy.run_path({str(example)!r}, run_name='__main__')"
    run = copies.run(["-c", program], ROOT, os.environ)
    assert run.returncode == 0, run.stderr
    assert run.stdout
    assert run.stderr == ""
