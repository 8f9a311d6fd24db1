"""Options that many verbs have: the same words, the same meaning, the same checks."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from conftest import ROOT, Armillary

from armillary.cli import app, options

SHARED = {
    "--json": ["--json"],
    "--report": ["--report"],
    "--set": ["--set"],
    "--output": ["--output", "-o"],
}
NO_JSON = {"network", "astra-sim"}
"""Verbs whose output is not ours."""


def commands(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Every command with its name: `platform show`."""
    for verb, each in getattr(found, "commands", {}).items():
        yield from commands(each, f"{name} {verb}".strip())
    if not hasattr(found, "commands"):
        yield name, found


@cache
def every() -> dict[str, Any]:
    """All commands by their names."""
    return dict(commands(typer.main.get_command(app.application())))


def verbs(option: str) -> dict[str, Any]:
    return {
        name: param
        for name, command in every().items()
        for param in command.params
        if option in param.opts
    }


@pytest.mark.parametrize("option", SHARED)
def test_an_option_is_spelled_and_explained_alike(option: str) -> None:
    found = verbs(option)
    assert len(found) >= 9
    assert {tuple(each.opts) for each in found.values()} == {tuple(SHARED[option])}
    if option != "--output":
        assert len({each.help for each in found.values()}) == 1
        assert len({each.metavar for each in found.values()}) == 1
    else:
        for name, each in found.items():
            is_file = each.metavar in ("FILE", "PLATFORM", "TABLE")
            assert ("- for standard output" in each.help) >= is_file, name


def test_every_verb_has_json() -> None:
    """`workload` reads its options itself, and its help lists them."""
    assert set(every()) - set(verbs("--json")) == NO_JSON


def test_verbs_with_a_platform_set_its_values() -> None:
    """All but those that only look at its size or its memory."""
    with_platform = set(verbs("--platform")) - {"workload", "train", "import"}
    assert with_platform <= set(verbs("--set"))
    assert {"sweep", "design"} <= set(verbs("--set"))


SWEEP = "workload: {model: resnet-50}\nplatform: {file: dgx-h100}\nparameters: {workload.dp: [8]}\n"
DESIGN = """\
npus: 8
topologies: ["Ring(8)"]
npu: {peak: 400 TFLOPS}
bandwidth: 300 GB/s
workloads: [{model: resnet-50, dp: 8}]
simulate: 1
"""
BENCH = ROOT / "tests/python/data"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    (tmp_path / "s.yml").write_text(SWEEP)
    (tmp_path / "d.yml").write_text(DESIGN)
    (tmp_path / "gemm.csv").write_text("m,n,k,us\n128,256,512,18.5\n")
    return tmp_path


RUN = ["resnet-50", "--dp", "8", "-p", "dgx-h100"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", *RUN, "--json", "x", "--report", "x"], "is also the file of"),
        (["run", *RUN, "--json", "-", "--report", "-"], "is also the file of"),
        (["run", *RUN, "--timeline", "-"], "can't go to standard output"),
        (["convert", "resnet-50", "--dp", "8", "-o", "x", "--json", "x"], "is also the file of"),
        (["workload", "resnet-50", "--dp", "8", "-o", "x", "--json", "x"], "is also the file of"),
        (["workload", "resnet-50", "--dp", "8", "-o", "-"], "can't go to standard output"),
        (["sweep", "s.yml", "-o", "x", "--csv", "x"], "is also the file of"),
        (["sweep", "s.yml", "-o", "-"], "can't go to standard output"),
        (["sweep", "s.yml", "-o", "x", "--set", "scheduler"], "has no '='"),
        (["design", "d.yml", "-o", "x", "--report", "x"], "is also the file of"),
        (["design", "d.yml", "--figures", "x", "--report", "x"], "is also the file of"),
        (["design", "d.yml", "-o", "d.yml"], "is also the file of the input"),
        (["calibrate", "gemm.csv", "-p", "dgx-h100", "--plot", "-"], "can't go to"),
        (["report", "r.json", "-o", "x", "--json", "x"], "is also the file of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_outputs_that_are_refused(
    words: list[str], said: str, armillary: Armillary, inputs: Path
) -> None:
    before = sorted(inputs.iterdir())
    run = armillary(*words)
    assert run.returncode == 2
    assert said in run.stderr
    assert sorted(inputs.iterdir()) == before


def test_a_dash_is_standard_output(armillary: Armillary, inputs: Path) -> None:
    """Nothing else is on it, and no file is called so."""
    plan = armillary("run", "dlrm-hoti", "--dp", "8", "-p", "dgx-h100", "--write-plan", "-")
    assert yaml.safe_load(plan.stdout)["tables"], plan.stderr
    platform = armillary("design", "d.yml", "-o", "-")
    assert yaml.safe_load(platform.stdout)["topology"] == "Ring(8)", platform.stderr
    page = armillary("design", "d.yml", "--report", "-")
    assert page.stdout.startswith("<!doctype html>"), page.stderr
    text = armillary(
        "convert", "resnet-50", "--dp", "8", "--format", "text", "-p", "dgx-h100", "-o", "-"
    )
    assert text.stdout.startswith("DATA"), text.stdout[:200] + text.stderr
    assert not (inputs / "-").exists()


def test_set_changes_every_point_of_a_sweep(armillary: Armillary, inputs: Path) -> None:
    """A quarter of the rate of computation takes longer; what varies can't be set."""
    times = []
    for index, words in enumerate([[], ["--set", "npu.compute.speedup=0.25"]]):
        run = armillary("sweep", "s.yml", "-o", f"o{index}", "--csv", "-", *words)
        assert run.returncode == 0, run.stderr
        (row,) = csv.DictReader(run.stdout.splitlines())
        times.append(float(row["step_time_ns"]))
    assert times[1] > 2 * times[0]
    (inputs / "v.yml").write_text(SWEEP.replace("workload.dp: [8]", "platform.npus: [8]"))
    refused = armillary("sweep", "v.yml", "-o", "o2", "--set", "npus=4")
    assert refused.returncode == 2
    assert "varies in this study" in refused.stderr


def test_set_changes_a_design(armillary: Armillary, inputs: Path) -> None:
    found = armillary("design", "d.yml", "-o", "-", "--set", "scheduler.chunks=4")
    assert yaml.safe_load(found.stdout)["scheduler"]["chunks"] == 4, found.stderr


def test_a_report_has_json(armillary: Armillary, inputs: Path) -> None:
    armillary("run", *RUN, "--json", "r.json")
    run = armillary("report", "r.json", "-o", "p.html", "--no-what-if", "--json", "-")
    found = json.loads(run.stdout)
    assert (found["schema"], found["page"]) == ("armillary.page/1", "p.html")
    assert found["verdict"]


def test_the_same_settings_in_every_verb() -> None:
    assert options.typed_settings(["scheduler.chunks=8", "npu.peak=1 TFLOPS"]) == {
        "scheduler.chunks": 8,
        "npu.peak": "1 TFLOPS",
    }
