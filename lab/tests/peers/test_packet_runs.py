"""`python -m armillary_lab.peers.packets` on runs of ns-3 and htsim."""

import json
from pathlib import Path

import pytest

from armillary_lab.peers.packets import main

ROTATION = {
    "tool": "ns-3.44", "algo": "a2a", "D": 8000000, "buf": 500000, "mtu": 9000, "cc": "newreno",
    "win": 500000, "iw": 10, "delack": 2, "sack": 1, "order": 1, "seed": 1, "lat_us": 0.5,
    "C": 1024, "P": 64, "T_us": 1279.294, "drops": 0, "retx": 0, "rto": 0,
}  # fmt: skip
LOSSY = ROTATION | {"order": 2, "T_us": 54769.955, "drops": 3835, "retx": 3845, "rto": 828}
TREE = ROTATION | {"algo": "dbt", "D": 7999488, "T_us": 1329.759, "lat_us": 1}
HTSIM = {
    "tool": "csg-htsim 841d9e7 TCP", "N": 128, "D": 8000000, "buf": 500000, "mss": 4056,
    "stagger": 1, "T_us": 1335.322, "drops": 0, "retx": 0, "rto": 0,
}  # fmt: skip


def run(folder: Path, runs: object) -> int:
    """The exit code for a file with these runs."""
    file = folder / "runs.json"
    file.write_text(json.dumps(runs))
    return main([str(file)])


def test_runs_of_both_are_within_tolerance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, [ROTATION, LOSSY, HTSIM]) == 0
    printed = capsys.readouterr().out
    assert "12 of 12 figures within tolerance" in printed
    assert "drops        expected    3,835.000  obtained    3,835.000" in printed


def test_a_wrong_time_is_beyond_the_tolerance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, [ROTATION | {"T_us": 1400.0}]) == 1
    assert "BEYOND" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([{"D": 1}], "[0]: mtu is missing"),
        ([ROTATION | {"cc": "vegas"}], "unknown control vegas"),
        ([ROTATION | {"mtu": 30}], "an MTU of 30 bytes has no room for data"),
        ([ROTATION | {"mtu": 70000}], "mtu is too large"),
        ({"runs": []}, "is not a list of runs"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: object, text: str
) -> None:
    assert run(tmp_path, runs) == 2
    assert text in capsys.readouterr().err


def test_no_file_and_no_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/nowhere.json"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
