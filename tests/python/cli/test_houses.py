"""Verbs of packages that may not be installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from armillary.cli import app, houses

ABSENT = houses.House("armillary_of_nobody", "_native", "armillary-nobody", "nobody", "nobodys")
SOMEBODY = ("armillary_of_somebody", "_native", "armillary-somebody", "somebody", "somebodys")


@pytest.mark.parametrize(
    "arguments", [["study"], ["study", "themis", "--json", "x.json"], ["study", "--no-such-option"]]
)
def test_verb_of_an_absent_package_says_how_to_install_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(houses.HOMES, "study", ABSENT)
    with pytest.raises(SystemExit, match="2"):
        app.main(arguments)
    said = capsys.readouterr().err
    assert "this verb needs the package armillary-nobody, which is not installed" in said
    assert "armillary study" in said
    assert "pip install ./nobody" in said


def test_help_lists_verbs_of_absent_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(houses.HOMES, "study", ABSENT)
    assert app.main(["--help"]) == 0
    assert "Needs the package armillary-nobody." in capsys.readouterr().out


@pytest.fixture
def forget() -> Iterator[None]:
    """Forgets the modules that a test made."""
    yield
    for name in [name for name in sys.modules if name.startswith(SOMEBODY[0])]:
        del sys.modules[name]


@pytest.mark.usefixtures("forget")
def test_verb_of_a_package_without_its_native_part_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / SOMEBODY[0]).mkdir()
    (tmp_path / SOMEBODY[0] / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(houses.HOMES, "train", houses.House(*SOMEBODY))
    with pytest.raises(SystemExit, match="2"):
        app.main(["train", "dlrm-small", "--batch", "1"])
    said = capsys.readouterr().err
    assert "this verb needs armillary_of_somebody._native, which is not built" in said
    assert "armillary train" in said
    assert "make somebodys in a clone" in said


@pytest.mark.usefixtures("forget")
def test_verb_comes_from_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "armillary_of_somebody" / "cli"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "study.py").write_text(
        "def study() -> None:\n    'Says hello.'\n    print('hello')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (folder.parent / "_native.py").touch()
    house = houses.House(*SOMEBODY)
    monkeypatch.setitem(houses.HOMES, "study", house)
    assert app.main(["study"]) == 0
    assert capsys.readouterr().out == "hello\n"
