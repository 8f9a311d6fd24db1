"""Names that are not UTF-8 in the trainer's verbs: results, or exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Armillary
from odd_names import BAD

VERBS = [
    ["ingest", "log.csv", "-o", BAD],
    ["ingest", BAD, "-o", "out"],
    ["checkpoint", "show", BAD],
    ["train", BAD],
]


@pytest.mark.parametrize("arguments", VERBS, ids=lambda arguments: " ".join(arguments)[:40])
def test_names_that_are_not_utf_8(
    arguments: list[str], armillary: Armillary, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text("1\t2\t3\n" * 10, encoding="utf-8")
    call = armillary(*arguments)
    assert call.returncode in (0, 2), call.stderr
    assert "internal error" not in call.stderr
    assert "Traceback" not in call.stderr
