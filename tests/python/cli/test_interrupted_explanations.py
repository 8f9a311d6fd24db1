"""`armillary explain` and `compare --backends` after a Ctrl-C: what is finished is written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import toy

from armillary.cli import output
from armillary.cli.app import main


def _interrupt_at(monkeypatch: pytest.MonkeyPatch, wanted: str, share: float = 0.0) -> None:
    """A Ctrl-C while the display named `wanted` shows that at least `share` is done."""

    @contextlib.contextmanager
    def progress(name: str, **_: object) -> Iterator[Callable[[float, float], None] | None]:
        def interrupt(done: float, *_: object) -> None:
            if done >= share:
                raise KeyboardInterrupt

        if name != wanted:
            yield None
        elif share:
            yield interrupt
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(output, "progress", progress)


def _run(arguments: list[str], tmp_path: Path) -> tuple[dict[str, object], str]:
    """JSON and page of a run that a Ctrl-C ends."""
    file, page = tmp_path / "found.json", tmp_path / "found.html"
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json", str(file), "--report", str(page)])
    assert ended.value.code == 130
    found: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    return found, page.read_text(encoding="utf-8")


@pytest.fixture
def on_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    toy.platform(tmp_path), toy.traces(tmp_path)
    monkeypatch.chdir(tmp_path)
    return ["traces", "-p", "toy.yml"]


def test_explain_keeps_the_changes_that_were_tried(
    on_toy: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _interrupt_at(monkeypatch, "what would help", 0.3)
    found, page = _run(["explain", *on_toy], tmp_path)
    tried, left = found["what_if"], found["left_out"]
    assert isinstance(tried, list)
    assert isinstance(left, list)
    assert tried
    assert "interrupted" in left[-1]
    number = f"{len(tried)} change{'s' if len(tried) > 1 else ''}"
    assert found["warnings"] == [f"interrupted: {number} simulated again"]
    assert "interrupted" in page


@pytest.mark.parametrize(
    ("wanted", "networks", "warning"),
    [
        ("link", ["analytical"], "interrupted: 1 of 2 networks"),
        (
            "link without store and forward",
            ["analytical", "link"],
            "interrupted: 2 of 2 networks, without causes",
        ),
    ],
)
def test_compare_keeps_the_networks_that_ran(
    on_toy: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    networks: list[str],
    warning: str,
) -> None:
    _interrupt_at(monkeypatch, wanted)
    stored = ["--set", "network.link.switching=store_and_forward"]
    found, page = _run(["compare", *on_toy, "--backends", "analytical,link", *stored], tmp_path)
    rungs = found["networks"]
    assert isinstance(rungs, list)
    assert [each["backend"] for each in rungs] == networks
    warnings = found["warnings"]
    assert isinstance(warnings, list)
    assert warnings[-1] == warning
    assert warning in page


def test_nothing_is_written_before_the_first_network_ran(
    on_toy: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _interrupt_at(monkeypatch, "analytical")
    with pytest.raises(SystemExit) as ended:
        main(["compare", *on_toy, "--backends", "analytical,link", "--json", "found.json"])
    assert ended.value.code == 130
    assert not (tmp_path / "found.json").exists()
