"""Networks of other programs as platforms, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armillary import wiring
from armillary.errors import InputError
from armillary.platform import Platform

DATA = Path(__file__).parent / "wiring" / "data"


def imported(
    file: str | Path,
    given: dict[str, str] | None = None,
    gpu: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Platform:
    found = wiring.import_file(
        DATA / file, name="x", assumed=wiring.Assumed(given or {}, gpu), **options
    )
    return Platform.parse(found.text)


def speeds(platform: Platform, kind: str) -> dict[tuple[str, str], float]:
    """GB/s between two names."""
    wired = platform.wiring()
    names = [name for name, _ in wired["nodes"]]
    return {
        (names[cable["ends"][0]], names[cable["ends"][1]]): cable["bandwidth"] / 1e9
        for cable in wired["cables"]
        if cable["kind"] == kind
    }


def refused(file: Path, **options: Any) -> list[str]:  # noqa: ANN401
    with pytest.raises(InputError) as caught:
        imported(file, **options)
    assert all(problem.help for problem in caught.value.problems)
    return [f"{problem.place}: {problem.message}" for problem in caught.value.problems]


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "file"
    file.write_text(text, encoding="utf-8")
    return file
