"""Names that modules of the laboratory had in `armillary` until 0.1."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from armillary import _moved, old_modules

OLD = [old for old, new in old_modules.MODULES.items() if new.startswith("armillary_lab")]


@pytest.mark.filterwarnings("ignore:armillary.studies is now:DeprecationWarning")
@pytest.mark.parametrize("old", [*OLD, "studies.neo", "studies.themis"])
def test_an_old_name_gives_the_module_of_today(old: str) -> None:
    """A package warns as well, the first time that one of its modules is asked for."""
    sys.modules.pop(f"armillary.{old}", None)
    new = _moved.today(f"armillary.{old}")
    with pytest.warns(DeprecationWarning, match=f"armillary.{old} is now {new}"):
        module = importlib.import_module(f"armillary.{old}")
    assert module.__name__ == new
    assert module is sys.modules[str(new)]


@pytest.mark.parametrize("name", ["flits", "packets", "measurements"])
def test_programs_run_under_their_old_names(name: str, tmp_path: Path) -> None:
    """A file that isn't there is refused by the program itself."""
    command = [sys.executable, "-m", f"armillary.validation.{name}", "none.json"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 2
    warned, said = run.stderr.splitlines()[:2]
    assert warned.startswith("warning: python -m armillary.validation.")
    assert "is now python -m armillary_lab." in warned
    assert "none.json" in said or "none.json" in run.stderr
