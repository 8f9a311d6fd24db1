"""`armillary check`: every problem at once, nothing simulated."""

from __future__ import annotations

import json
from pathlib import Path

import et
import toy
from conftest import Armillary


def test_nothing_wrong(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    run = armillary("check", "traces", "-p", "toy.yml")
    assert (run.returncode, run.stdout, run.stderr) == (0, "no problem found\n", "")


def test_platform_alone(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path)
    assert armillary("check", "-p", "toy.yml").returncode == 0


def test_problems_of_both_files(armillary: Armillary, tmp_path: Path) -> None:
    """One wrong file does not hide the other."""
    (tmp_path / "bad.yml").write_text("topology: R(4)_SW(2)\nlinks: {bandwidth: -5 GB/s, latency: 7}\nshape: round\n")
    run = armillary("check", "no-such-trace", "-p", "bad.yml", "--json", "-")
    assert run.returncode == 2
    result = json.loads(run.stdout)
    assert result["schema"] == "armillary.check/1"
    said = [(problem["file"], problem["place"]) for problem in result["problems"]]
    assert ("no-such-trace", "") in said
    assert sum(file == "bad.yml" for file, _ in said) >= 3
    assert run.stderr.endswith(f"{len(said)} problems\n")
    assert all(problem["help"] for problem in result["problems"])


def test_what_the_run_would_refuse(armillary: Armillary, tmp_path: Path) -> None:
    """An algorithm that can't be read, and one of more steps than fit: both at once, and in the words of `run`."""
    links = "links: {bandwidth: 50 GB/s, latency: 500 ns}\n"
    (tmp_path / "big.yml").write_text(f"topology: R(5000)\n{links}collectives: {{all_reduce: {{custom: none.xml}}}}\n")
    all_to_all = 6
    et.write(tmp_path / "calls", [[et.collective(0, 64), et.collective(1, 64, kind=all_to_all)]])
    arguments = ("calls/trace.0.et", "-p", "big.yml", "--backend", "link")
    run = armillary("check", *arguments, "--json", "-")
    assert run.returncode == 2
    problems = json.loads(run.stdout)["problems"]
    assert [(problem["file"], problem["place"]) for problem in problems] == [
        ("none.xml", ""),
        ("calls/trace.0.et", "rank 0 node 1"),
    ]
    assert "12497500 steps" in problems[1]["message"]
    assert run.stderr == armillary("run", *arguments).stderr


def test_what_does_not_fit_together(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.stalled(tmp_path)
    run = armillary("check", "stalled", "-p", "toy.yml")
    assert run.returncode == 2
    assert "in: stalled: rank 0" in run.stderr
