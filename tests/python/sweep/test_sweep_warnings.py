"""Warnings of points: said on the console, on the page, in JSON and Python, once for all points."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest
import yaml
from conftest import Armillary
from frames import framed
from test_sweep_failures import study

import armillary as arm
from armillary.sweep.point_warnings import Warned, warned

pytestmark = pytest.mark.usefixtures("workers_in_copies")

SEQUENCE, SHARDS = "sp has no effect with tp 1", "ZeRO 1 has no effect with dp x cp 1"


def test_every_face_says_them(armillary: Armillary, tmp_path: Path) -> None:
    """Sequence parallelism does nothing at tp 1; ZeRO does nothing without copies."""
    path = tmp_path / "s.yml"
    path.write_text(yaml.safe_dump(study(tp=[1, 8], dp=[8, 1], sp=[True], zero=[1])))
    ran = armillary("sweep", str(path), "-o", str(tmp_path / "r"), "--json", str(tmp_path / "j"))
    summary = json.loads((tmp_path / "j").read_text())
    assert summary["warnings"] == [
        {"text": SEQUENCE, "points": 1, "first": 0},
        {"text": SHARDS, "points": 1, "first": 3},
    ]
    for text in (f"{SEQUENCE} (1 of 2 points, first 0)", f"{SHARDS} (1 of 2 points, first 3)"):
        assert f"warning: {text}" in ran.stdout
        assert text in (tmp_path / "r/report.html").read_text()


def test_a_warning_of_all_points_is_said_once() -> None:
    found = arm.sweep(study(dp=[8], sp=[True], recompute=["none", "full"]), workers=1)
    assert [(each.text, each.points, each.first) for each in found.warnings] == [(SEQUENCE, 2, 0)]
    assert SEQUENCE in found.page().warnings


def test_texts_that_differ_in_numbers_are_one_warning() -> None:
    table = polars.DataFrame(
        {
            "index": [0, 1, 2],
            "warning_texts": ["24 layers over 5 parts\nother", "", "24 layers over 1,000 parts"],
            "error": [None, None, None],
        }
    )
    assert warned(framed(table)) == [Warned("24 layers over 5 parts", 2, 0), Warned("other", 1, 0)]
    assert warned(framed(table.drop("warning_texts"))) == []
