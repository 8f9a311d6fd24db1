"""`armillary explain` and `armillary compare`, as a user calls them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import toy
from command_copies import Copies
from conftest import Armillary


@pytest.fixture(scope="module")
def made(commands: Copies, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on two networks that differ, with its traces and platform."""
    folder = tmp_path_factory.mktemp("made")
    toy.platform(folder), toy.traces(folder)
    stored = ("--set", "network.link.switching=store_and_forward")
    for backend, settings in (("analytical", ()), ("link", stored)):
        command = ["run", "traces", "-p", "toy.yml", "--backend", backend, *settings]
        run = commands.run([*command, "--json", f"{backend}.json"], folder, os.environ)
        assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    """A copy of `made`, which the test may change."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
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
    assert "Parts of the time" in collective.stdout
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
    assert (run.returncode, same.returncode, data.returncode) == (0, 0, 0), (
        run.stderr + same.stderr + data.stderr
    )
    assert run.stdout.startswith("link.json takes ")
    assert same.stdout.startswith("link.json takes as long as link.json")
    assert [pair["name"] for pair in json.loads(data.stdout)["pairs"]] == [
        "link.json",
        "analytical.json",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "no.json"], "no.json"),
        (["explain", "toy.yml"], "toy.yml"),
        (["explain", "analytical.json", "nobody"], "is not an operation of the report"),
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


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "analytical.json", "link.json"],
        ["explain", "analytical.json", "--seconds", "0"],
        ["explain", "link.json", "all_reduce", "--no-what-if"],
        ["collective", "all_reduce", "-p", "toy.yml", "-b", "1M", "-e", "4M", "-f", "2"],
    ],
    ids=" ".join,
)
def test_a_page_of_it(arguments: list[str], armillary: Armillary, results: Path) -> None:
    run = armillary(*arguments, "--report", "page.html")
    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines()[-1] == "report written to page.html"
    assert run.stdout, "the text as well"
    page = (results / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<svg" in page


def test_a_page_on_standard_output_stands_there_alone(armillary: Armillary, results: Path) -> None:
    assert results.is_dir()
    printed = armillary("compare", "analytical.json", "link.json", "--report", "-").stdout
    assert printed.startswith("<!doctype html>")
    assert printed.endswith("</html>\n")
    assert (
        armillary(
            "compare", "analytical.json", "link.json", "--report", "no/such/page.html"
        ).returncode
        == 2
    )


def test_the_verdict_comes_first_and_can_be_left_short(armillary: Armillary, results: Path) -> None:
    explained = armillary("explain", "analytical.json", "--no-what-if").stdout.splitlines()
    assert explained[1].startswith("Communication bounds the step (")
    for options, helps in (([], True), (["--no-what-if"], False)):
        run = armillary("report", "analytical.json", "-o", "r.html", *options)
        assert run.returncode == 0, run.stderr
        page = (results / "r.html").read_text(encoding="utf-8")
        assert "Communication bounds the step (" in page
        assert ("would help most" in page) is helps


def test_the_page_is_the_same_from_the_run_and_from_its_result(
    armillary: Armillary, results: Path
) -> None:
    options = ["-p", "toy.yml", "--json", "again.json", "--report", "run.html"]
    assert armillary("run", "traces", *options).returncode == 0
    assert armillary("report", "again.json", "-o", "read.html").returncode == 0
    assert (results / "run.html").read_bytes() == (results / "read.html").read_bytes()
