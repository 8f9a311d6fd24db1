"""The mutants in tests/mutants: complete, in the right houses, and tried as its README.md says."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = ROOT / "tests/mutants"


@pytest.fixture(scope="module")
def run() -> ModuleType:
    """The program run.py."""
    spec = importlib.util.spec_from_file_location("run_mutants", MUTANTS / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_twenty_of_each_language_in_every_house(run: ModuleType) -> None:
    mutants = run.listed()["mutants"]
    languages = Counter(each["name"].partition("-")[0] for each in mutants)
    assert languages == {"rust": 20, "python": 20}
    assert {each["house"] for each in mutants} == {"simulator", "trainer", "lab"}


def test_each_patch_changes_the_file_of_its_row_alone(run: ModuleType) -> None:
    for each in run.listed()["mutants"]:
        patch = (MUTANTS / f"patches/{each['name']}.patch").read_text(encoding="utf-8")
        assert patch.startswith(f"--- a/{each['file']}\n+++ b/{each['file']}\n@@ ")
        assert patch.count("\n@@ ") == 1
        assert "/tests/" not in each["file"]


def test_every_mutant_is_killed_or_cannot_matter(run: ModuleType) -> None:
    _, *rows = (MUTANTS / "killed.tsv").read_text(encoding="utf-8").splitlines()
    found = [row.split("\t") for row in rows]
    assert [name for name, *_ in found] == [each["name"] for each in run.listed()["mutants"]]
    for name, _, verdict, test in found:
        assert verdict == ("killed" if test else "equivalent"), name
        file, _, function = test.partition("::")
        assert not test or function in (ROOT / file).read_text(encoding="utf-8"), name


def test_a_mutant_is_killed_by_the_first_command_that_fails(
    run: ModuleType, tmp_path: Path
) -> None:
    fine, failing = [sys.executable, "-c", ""], [sys.executable, "-c", "raise SystemExit(1)"]
    never = [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    assert run.killed([fine, fine], tmp_path) == ""
    assert run.killed([fine, failing, never], tmp_path) == " ".join(failing)
    assert not (tmp_path / "ran").exists()


def test_a_choice_without_tests_is_an_error(run: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no test is in"):
        run.killed([[sys.executable, "-c", "raise SystemExit(5)"]], tmp_path)


def test_the_houses_have_tests_in_this_tree(run: ModuleType) -> None:
    for house in ("simulator", "trainer", "lab"):
        rust, python = run.commands(house, "rust", ROOT)
        assert rust[:2] == ["cargo", "test"]
        assert any((ROOT / word).is_dir() for word in python)
