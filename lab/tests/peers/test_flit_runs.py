"""Reference runs of Garnet and BookSim2 again, by the module that users call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armillary_lab.peers import flits

DATA = Path(__file__).parents[3] / "lab/crates/peers/tests/data"


@pytest.mark.parametrize(
    ("name", "figures"),
    [("garnet_collectives", 68), ("garnet_vc_turnaround", 8), ("garnet_deadlock", 2)],
)
def test_garnets_runs_are_exact(
    name: str, figures: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flits.main([str(DATA / f"{name}.json")]) == 0
    assert f"{figures} of {figures} figures within tolerance" in capsys.readouterr().out


def part(name: str, key: str, fits: Callable[[dict[str, Any]], bool], path: Path) -> str:
    """A file with some of the cases of another."""
    file = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    found = {**file, key: [case for case in file[key] if fits(case)]}
    (path / "part.json").write_text(json.dumps(found), encoding="utf-8")
    return str(path / "part.json")


def test_booksims_empty_networks_are_exact(capsys: pytest.CaptureFixture[str]) -> None:
    assert flits.main([str(DATA / "booksim_zero_load.json")]) == 0
    assert "360 of 360 figures within tolerance" in capsys.readouterr().out


def test_booksims_deterministic_batches_are_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = part("booksim_batch", "cases", lambda case: bool(case["deterministic"]), tmp_path)
    assert flits.main([file]) == 0
    assert "27 of 27 figures within tolerance" in capsys.readouterr().out


def test_a_curve_of_booksim_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "ring_16/neighbor/flits1/rc1va1sa1st1"
    file = part("booksim_latency_throughput", "curves", lambda case: case["id"] == name, tmp_path)
    assert flits.main([file]) == 0
    out = capsys.readouterr()
    assert out.out.splitlines()[0] == name
    assert "4 of 4 figures within tolerance" in out.out
    assert "case 1 of 1" in out.err


def test_the_spread_of_booksims_seeds_holds_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = part("booksim_seed_noise", "cases", lambda case: case["offered"] == 0.25, tmp_path)
    assert flits.main([file]) == 0
    assert "1 of 1 figures within tolerance" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topology": "fly"}, "topology is fly; allowed: torus, mesh"),
        ({"num_vcs": 0}, "virtual channels is 0; allowed: 1 to 64"),
        ({"vc_buf_size": 0}, "flits of a virtual channel is 0"),
        ({"sw_allocator": "loa"}, "sw_allocator is loa; allowed: islip"),
        ({"k": 3, "traffic": "transpose"}, "transpose needs a power of 4"),
        ({"traffic": "sunny"}, 'traffic is "sunny"; allowed: uniform, transpose'),
    ],
)
def test_networks_that_cannot_be_are_named(
    change: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = json.loads((DATA / "booksim_latency_throughput.json").read_text(encoding="utf-8"))
    curve = file["curves"][0]
    curve["config"].update(change)
    curve["traffic"] = change.get("traffic", curve["traffic"])
    (tmp_path / "one.json").write_text(json.dumps({"curves": [curve]}), encoding="utf-8")
    assert flits.main([str(tmp_path / "one.json")]) == 2
    assert words in capsys.readouterr().err


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
