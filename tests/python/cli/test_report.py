"""`armillary report` and `armillary run --report`, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import toy
from conftest import Armillary

from armillary.schema import Report


def test_the_page_of_a_run_and_of_its_json_are_the_same(
    armillary: Armillary, tmp_path: Path
) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    run = armillary("run", "traces", "-p", "toy.yml", "--json", "r.json", "--report", "run.html")
    assert run.returncode == 0, run.stderr
    assert "report written to run.html" in run.stderr
    made = armillary("report", "r.json", "--figures", "figures")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "r.html").read_bytes() == (tmp_path / "run.html").read_bytes()
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {
        "classes.svg",
        "classes.png",
        "classes.csv",
        "layers.csv",
        "platform.svg",
        "platform.png",
    } <= names
    assert f"{len(names)} files written to figures" in made.stderr
    shown = armillary("report", "r.json", "-o", "-")
    assert shown.stdout == (tmp_path / "run.html").read_text(encoding="utf-8")


def test_what_is_no_report_is_refused(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"schema": "armillary.check/1"}', encoding="utf-8")
    run = armillary("report", "r.json")
    assert run.returncode == 2
    assert "armillary.check/1" in run.stderr
    assert not (tmp_path / "r.html").exists()


def test_an_unwritable_page_is_refused_before_the_run(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    run = armillary("run", "traces", "-p", "toy.yml", "--report", "no/such/dir.html")
    assert run.returncode == 2
    assert "no/such/dir.html" in run.stderr
    assert run.stdout == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to RLIMIT_AS")
def test_under_a_limit_on_addresses_the_page_is_written(report: Report, tmp_path: Path) -> None:
    """`ulimit -v`, as batch systems set it: V8 ended the process with SIGTRAP."""
    (tmp_path / "r.json").write_text(json.dumps(report), encoding="utf-8")
    command = (
        f"ulimit -v 16000000; exec '{sys.executable}' -m armillary.cli report r.json --figures f"
    )
    ran = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0
    assert ran.stderr.count("warning: charts are not drawn") == 2
    assert (tmp_path / "r.html").exists()
    assert (tmp_path / "f/classes.csv").exists()
    assert (tmp_path / "f/platform.svg").exists()
    assert not (tmp_path / "f/classes.svg").exists()
