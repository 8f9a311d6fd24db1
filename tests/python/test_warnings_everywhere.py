"""Warnings and assumptions of runs: every verb, its JSON, its page and Python say them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import armillary as arm
from armillary.cli.app import main

OWN = """
name: own
topology: Switch(8)_Switch(4)
links: [{bandwidth: 450 GB/s, per: npu, latency: 300 ns}, {bandwidth: 50 GB/s, latency: 1350 ns}]
npu: {name: H100, peak: 989 TFLOPS, memory: {bandwidth: 3350 GB/s, capacity: 80 GB}}
"""
SPEC = {
    "name": "own",
    "npus": 16,
    "npu": {"peak": "989 TFLOPS"},
    "workloads": [{"model": "llama-3-8b", "tp": 8, "micro_batch": 1}],
    "topologies": ["Switch(8)_Switch(2)"],
    "bandwidth": "300 GB/s",
    "simulate": 1,
}
FULL_SPEED = "assumed: kernels reach 100 % of the peak (989 TFLOP/s)"
SMALL = "assumed: small collectives (up to 1 MiB per rank;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.yml").write_text(OWN, encoding="utf-8")
    (folder / "spec.yml").write_text(json.dumps(SPEC), encoding="utf-8")
    point = {
        "model": {"name": "llama-3-8b"},
        "parameters": {"model.tp": [8]},
        "platform": "own.yml",
    }
    (folder / "sweep.yml").write_text(json.dumps(point), encoding="utf-8")
    return folder


STEP = ["llama-3-8b", "--tp", "8", "--dp", "4", "-p", "own.yml"]
VERBS = {
    "explain": (["explain", *STEP, "--no-what-if"], FULL_SPEED),
    "networks": (["compare", *STEP, "--backends", "analytical"], FULL_SPEED),
    "collective": (["collective", "all_reduce", "-b", "4K", "-e", "4K", "-p", "own.yml"], SMALL),
    "design": (["design", "spec.yml"], FULL_SPEED),
    "plan": (["plan", "dlrm-small", "-p", "own.yml", "--ranks", "8"], FULL_SPEED),
}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_says_what_its_runs_assumed(
    name: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    arguments, wanted = VERBS[name]
    file, page = tmp_path / "found.json", tmp_path / "found.html"
    assert main([*arguments, "--json", str(file), "--report", str(page)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"warning: {wanted}" in shown
    assert [text for text in json.loads(file.read_text())["warnings"] if text.startswith(wanted)]
    assert wanted in page.read_text(encoding="utf-8")


def test_python_says_it_too(folder: Path) -> None:
    platform = arm.Platform.load(str(folder / "own.yml"))
    workload = arm.workload.build("llama-3-8b", tp=8, dp=4)
    run = arm.simulate(workload, platform, detail=True)
    for found in (
        run.explain(what_if=False).data["warnings"],
        arm.compare(run, run).data["warnings"],
        arm.ladder(workload, platform, ["analytical"]).data["warnings"],
        arm.design(folder / "spec.yml").warnings,
    ):
        assert [text for text in found if text.startswith(FULL_SPEED)]
    [texts] = arm.collective("all_reduce", 4096, platform)["warnings"].to_list()
    assert [text for text in texts if text.startswith(SMALL)]
