"""`armillary calibrate`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Armillary
from made_logs import SIZES, library, log

import armillary as arm


def test_the_verb_writes_a_platform_that_reads_back(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "all_reduce.log").write_text(log(library({"library.call_overhead": "12 us"})))
    run = armillary(
        "calibrate",
        "all_reduce.log",
        "-p",
        "dgx-a100",
        "-o",
        "mine.yml",
        "--json",
        "-",
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["schema"] == "armillary.calibration/1"
    assert len(result["points"]) == len(SIZES)
    mine = arm.Platform.load(tmp_path / "mine.yml")
    assert mine.name == "mine" and "all_reduce.log" in mine.source and mine.has_library


def test_a_platform_without_library_is_refused(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "all_reduce.log").write_text(log(library({})))
    run = armillary(
        "calibrate", "all_reduce.log", "-p", "paper-w-2d", "--set", "npus=8", cwd=tmp_path
    )
    assert run.returncode == 2
    assert "has no library to calibrate" in run.stderr or "dimension" in run.stderr


def test_the_page_shows_before_and_after(armillary: Armillary, tmp_path: Path) -> None:
    path, page, out = tmp_path / "all_reduce.log", tmp_path / "c.html", tmp_path / "c.json"
    path.write_text(log(library({"library.call_overhead": "12 us"})))
    done = armillary(
        "calibrate", str(path), "-p", "dgx-a100", "--report", str(page), "--json", str(out)
    )
    assert "collectives without a measurement change by at most" in " ".join(done.stdout.split())
    found = json.loads(out.read_text())
    measured = [curve for curve in found["curves"] if curve["measured"]]
    assert [curve["collective"] for curve in measured] == ["all_reduce"]
    assert len(measured[0]["bytes"]) > len(SIZES)
    text = page.read_text()
    for words in (
        "Calibration of dgx-a100",
        "Collectives without a measurement",
        "bus bandwidth",
        "kept",
    ):
        assert words in text
