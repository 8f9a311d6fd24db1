"""Numbers about serving in the documents."""

from __future__ import annotations

import pytest
from conftest import ROOT
from documented import plain

from armillary_lab.score.aiconfigurator import pairs, table

PAGE = ROOT / "lab/accuracy/serving.md"
RECORD = str(ROOT / "tests/golden/peers/aiconfigurator.json")


def test_errors_next_to_aiconfigurator() -> None:
    found, ours, theirs = pairs(RECORD)
    page = PAGE.read_text(encoding="utf-8")
    missing = [line for line in table(found) if line not in page]
    if missing:
        pytest.fail("the page lacks:\n" + "\n".join(missing))
    said = f"Both know {len(found)} of 98 runs. The peer alone knows {theirs}, and we alone know "
    assert f"{said}{ours}." in plain(page)
