"""`armillary study`."""

from __future__ import annotations

import json

from conftest import Armillary


def test_lists(armillary: Armillary) -> None:
    run = armillary("study")
    assert run.returncode == 0
    assert "resnet50-scaling" in run.stdout
    assert "ResNet-50" in run.stdout
    listed = json.loads(armillary("study", "--json", "-").stdout)
    assert listed["schema"] == "armillary.study/1"
    assert {"resnet50-scaling", "resnet50-compute-power"} <= {
        each["name"] for each in listed["studies"]
    }


def test_runs_one(armillary: Armillary) -> None:
    run = armillary("study", "d7", "--backend", "analytical")
    assert run.returncode == 0
    assert "< 1 %" in run.stdout
    assert "holds" in run.stdout


def test_json_has_every_row(armillary: Armillary) -> None:
    found = json.loads(armillary("study", "D7", "--json", "-", "--backend", "link").stdout)
    assert found["study"] == "resnet50-compute-power"
    assert len(found["rows"]) == 8
    assert set(found["rows"][0]) >= {"setup", "backend", "paper", "ours", "ratio", "why"}


def test_an_unknown_one_is_refused(armillary: Armillary) -> None:
    run = armillary("study", "z9")
    assert run.returncode == 2
    assert "unknown study 'z9'" in run.stderr
