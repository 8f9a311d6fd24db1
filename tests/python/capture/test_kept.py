"""Captures that are kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

pytest.importorskip("torch")
pytest.importorskip("transformers")

from armillary import capture
from armillary.capture import kept
from armillary.capture.result import Capture

VALUES = {"model_type": "mamba2", "layers": 2}


@pytest.fixture(scope="module")
def made() -> Capture:
    return capture(ROOT / "tests/python/data/hugging_face/mamba2-2.7b.json", sequence=64)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "armillary/captures"


def once(found: Capture) -> Callable[[], Capture]:
    """Makes it the first time only."""
    calls: list[int] = []

    def make() -> Capture:
        assert not calls, "it is captured again"
        calls.append(1)
        return found

    return make


def test_a_capture_is_made_once(made: Capture, folder: Path) -> None:
    make = once(made)
    assert kept.capture(VALUES, 1, 64, make) == made
    assert kept.capture(VALUES, 1, 64, make) == made
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("values", "batch", "sequence"),
    [({**VALUES, "layers": 3}, 1, 64), (VALUES, 2, 64), (VALUES, 1, 65)],
)
def test_another_capture_is_another_file(
    values: dict[str, object], batch: int, sequence: int, made: Capture, folder: Path
) -> None:
    kept.capture(VALUES, 1, 64, lambda: made)
    kept.capture(values, batch, sequence, lambda: made)
    kept.capture(values, batch, sequence, lambda: made, 1, 224, "")
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut", "byte", "empty", "folder"])
def test_damaged_files_are_captured_again(damage: str, made: Capture, folder: Path) -> None:
    kept.capture(VALUES, 1, 64, lambda: made)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        parts = {"cut": content[:-9], "byte": content.replace(b"mm", b"mn", 1), "empty": b""}
        file.write_bytes(parts[damage])
    assert kept.capture(VALUES, 1, 64, once(made)) == made


def test_the_oldest_go_first(made: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.capture(VALUES, 1, 64, lambda: made)
    (first,) = folder.iterdir()
    monkeypatch.setattr(kept, "MOST_BYTES", first.stat().st_size * 3 // 2)
    kept.capture(VALUES, 1, 65, lambda: made)
    (second,) = folder.iterdir()
    assert second != first
