"""Reference runs of Garnet again, by the module that users call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armillary.validation import flits

DATA = Path(__file__).parents[3] / "crates/net-flit/tests/data"


@pytest.mark.parametrize(
    ("name", "figures"),
    [("garnet_collectives", 68), ("garnet_vc_turnaround", 8), ("garnet_deadlock", 2)],
)
def test_garnets_runs_are_exact(
    name: str, figures: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flits.main([str(DATA / f"{name}.json")]) == 0
    assert f"{figures} of {figures} figures within tolerance" in capsys.readouterr().out


def test_what_is_off_gives_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = json.loads((DATA / "garnet_collectives.json").read_text(encoding="utf-8"))
    right = file["cases"][1]["sim_cycles"]
    case = {**file["cases"][1], "sim_cycles": right + 1}
    (tmp_path / "one.json").write_text(json.dumps({"cases": [case]}), encoding="utf-8")
    assert flits.main([str(tmp_path / "one.json")]) == 1
    [line] = [line for line in capsys.readouterr().out.splitlines() if "BEYOND" in line]
    assert line.split()[:2] == ["cycles", "expected"]
    assert f"obtained {right}" in " ".join(line.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "is not an object"),
        ('{"cases": [{"a": 1}]}', "no case of a known kind"),
        ('{"cases": [{"mode": "allreduce"}]}', "dims is missing"),
    ],
)
def test_bad_files_are_named(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    assert flits.main([str(tmp_path / "bad.json")]) == 2
    assert words in capsys.readouterr().err
