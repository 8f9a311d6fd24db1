"""Old names of modules that are now in other packages."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from armillary import _moved, old_modules


def test_names_that_did_not_move_are_left_alone() -> None:
    for name in ("armillary.api", "armillary.studied", "armillary", "validation.sweeps", "json"):
        assert _moved.today(name) is None


def test_parts_of_a_package_moved_with_it() -> None:
    assert _moved.today("armillary.studies.neo") == "armillary_lab.studies.neo"
    assert _moved.today("armillary.validation.sweeps") == "armillary_lab.measured.sweeps"
    assert _moved.today("armillary.validation.none") is None


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(old_modules.MODULES, "gone", "armillary_nobody.gone")
    with (
        pytest.warns(DeprecationWarning, match="armillary.gone is now armillary_nobody.gone"),
        pytest.raises(
            ModuleNotFoundError, match="package armillary-nobody, which is not installed"
        ),
    ):
        importlib.import_module("armillary.gone")


def test_a_program_of_an_absent_package_is_refused() -> None:
    code = (
        "import armillary._moved as m; m.MODULES['gone'] = 'armillary_nobody.gone'; "
        "m.run('armillary.gone')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        "warning: python -m armillary.gone is now python -m armillary_nobody.gone",
        "error: armillary.gone is now in the package armillary-nobody, which is not installed",
    ]


def test_the_planner_is_found_by_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match=r"^armillary\.planner[.a-z]* is now"):
        old = importlib.import_module("armillary.planner.costs")
    assert old is importlib.import_module("armillary.plan.costs")
