"""`armillary explain` and `armillary compare`, as a user calls them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import toy
from conftest import Armillary


@pytest.fixture
def results(armillary: Armillary, tmp_path: Path) -> Path:
    """A run on both networks, beside its traces and platform."""
    toy.platform(tmp_path), toy.traces(tmp_path)
    for backend in ("analytical", "link"):
        run = armillary("run", "traces", "-p", "toy.yml", "--backend", backend, "--json", f"{backend}.json")
        assert run.returncode == 0, run.stderr
    return tmp_path


def test_a_result_and_its_workload_say_the_same(armillary: Armillary, results: Path) -> None:
    assert (results / "analytical.json").is_file()
    read = armillary("explain", "analytical.json", "--json", "-", "--seconds", "100")
    ran = armillary("explain", "traces", "-p", "toy.yml", "--json", "-", "--seconds", "100")
    assert (read.returncode, ran.returncode) == (0, 0), read.stderr + ran.stderr
    told = json.loads(read.stdout)
    assert told["schema"] == "armillary.explanation/1"
    assert told["what_if"]
    again = json.loads(ran.stdout)
    assert (told["step"], told["what_if"]) == (again["step"], again["what_if"])


def test_text_for_people(armillary: Armillary, results: Path) -> None:
    assert results.is_dir()
    step = armillary("explain", "analytical.json", "--no-what-if")
    collective = armillary("explain", "link.json", "all_reduce", "--no-what-if")
    assert (step.returncode, collective.returncode) == (0, 0), step.stderr + collective.stderr
    assert "The step takes" in step.stdout
    assert "Lower bounds" in step.stdout
    assert "What the time is made of" in collective.stdout
    assert max(map(len, (step.stdout + collective.stdout).splitlines())) <= 100


def test_files_that_are_gone_are_said(armillary: Armillary, results: Path) -> None:
    shutil.rmtree(results / "traces")
    run = armillary("explain", "analytical.json")
    assert run.returncode == 0, run.stderr
    assert "Left out: the run can't be repeated: traces" in run.stdout


def test_compare(armillary: Armillary, results: Path) -> None:
    assert results.is_dir()
    run = armillary("compare", "analytical.json", "link.json")
    same = armillary("compare", "link.json", "link.json")
    data = armillary("compare", "analytical.json", "link.json", "analytical.json", "--json", "-")
    assert (run.returncode, same.returncode, data.returncode) == (0, 0, 0), run.stderr + same.stderr + data.stderr
    assert run.stdout.startswith("link.json takes ")
    assert same.stdout.startswith("link.json takes as long as link.json")
    assert [pair["name"] for pair in json.loads(data.stdout)["pairs"]] == ["link.json", "analytical.json"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "no.json"], "no.json"),
        (["explain", "toy.yml"], "toy.yml"),
        (["explain", "analytical.json", "nobody"], "is no operation of the report"),
        (["explain", "analytical.json", "99:0"], "there is no rank 99"),
        (["explain", "analytical.json", "--set", "scheduler.chunks=2"], "--set"),
        (["explain", "traces", "-p", "no-such-preset"], "no-such-preset"),
        (["explain", "analytical.json", "--json", "no/such/dir.json"], "no/such/dir.json"),
        (["compare", "analytical.json"], "nothing to compare"),
        (["compare", "analytical.json", "plain.json"], "plain.json"),
        (["compare", "analytical.json", "no.json"], "no.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input(arguments: list[str], said: str, armillary: Armillary, results: Path) -> None:
    report = json.loads((results / "analytical.json").read_text())
    (results / "plain.json").write_text(json.dumps({**report, "detail": None}))
    before = sorted(results.rglob("*"))
    run = armillary(*arguments)
    assert run.returncode == 2, run.stdout + run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert sorted(results.rglob("*")) == before, "no file appears"
