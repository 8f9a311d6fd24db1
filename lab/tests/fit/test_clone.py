"""Programs that write documents and presets of the repository, outside of a clone of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from armillary_lab import clone
from armillary_lab.fit import library_presets
from armillary_lab.pages import accuracy


def test_a_clone_is_demanded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (library_presets, accuracy):
        monkeypatch.setattr(module, "PAGE", clone.ROOT / "docs/none.md")
    runs: list[Callable[[], int]] = [lambda: library_presets.main([]), accuracy.main]
    for run in runs:
        with pytest.raises(SystemExit, match="2"):
            run()
        assert "error: no docs/none.md\n  allowed: the laboratory in" in capsys.readouterr().err


def test_the_root_is_that_of_the_repository() -> None:
    assert library_presets.PAGE.is_file() and accuracy.PAGE.is_file()
