"""Names that are not UTF-8 in the trainer's verbs: results, or exit code 2."""

from __future__ import annotations

from pathlib import Path

import odd_names
import pytest
from odd_names import BAD

VERBS = [
    ["ingest", "log.csv", "-o", BAD],
    ["ingest", BAD, "-o", "out"],
    ["checkpoint", "show", BAD],
    ["train", BAD],
]


@pytest.mark.parametrize("arguments", VERBS, ids=lambda arguments: " ".join(arguments)[:40])
def test_names_that_are_not_utf_8(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("1\t2\t3\n" * 10, encoding="utf-8")
    odd_names.check(arguments, tmp_path)
