"""Verbs of packages that may not be installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from armillary.cli import app, houses

ABSENT = houses.House("armillary_of_nobody", "armillary-nobody", "nobody")


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
    house = houses.House("armillary_of_somebody", "armillary-somebody", "somebody")
    monkeypatch.setitem(houses.HOMES, "study", house)
    assert app.main(["study"]) == 0
    assert capsys.readouterr().out == "hello\n"
    for name in [name for name in sys.modules if name.startswith("armillary_of_somebody")]:
        del sys.modules[name]
