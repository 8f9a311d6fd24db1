"""Captured configurations on the command line."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from conftest import ROOT, Armillary

pytest.importorskip("torch")
pytest.importorskip("transformers")

import yaml

from armillary.workload import build

SHAPES = ROOT / "tests/python/data/hugging_face"
MAMBA = f"capture:{SHAPES / 'mamba2-2.7b.json'}"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cache with the capture, so that commands need not load PyTorch."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder))
        importlib.import_module("armillary.workload.captured")._recorded.cache_clear()
        build(MAMBA, seq=256)
    return str(folder)


def test_run(armillary: Armillary, tmp_path: Path) -> None:
    """With nothing in the cache."""
    words = ("run", MAMBA, "-p", "dgx-h100", "--dp", "8", "--seq", "256")
    run = armillary(*words, "--json", tmp_path / "r.json", XDG_CACHE_HOME=str(tmp_path))
    assert run.returncode == 0, run.stderr
    report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    made = report["config"]["workload"]
    assert made["model"]["name"] == MAMBA
    assert made["summary"]["parameters"] == 2702599680
    assert made["summary"]["family"] == "captured"


def test_a_type_that_is_not_known_names_the_way(armillary: Armillary) -> None:
    run = armillary("run", SHAPES / "mamba2-2.7b.json", "-p", "dgx-h100")
    assert run.returncode == 2
    assert MAMBA in " ".join(run.stderr.split()).replace("- ", "-")


def test_degrees_do_not_need_another_capture() -> None:
    module = importlib.import_module("armillary.workload.captured")
    module._recorded.cache_clear()
    for dp, zero, pp, tp in ((8, 0, 1, 1), (8, 1, 1, 4), (4, 3, 1, 2), (2, 0, 4, 8)):
        build(MAMBA, dp=dp, zero=zero, pp=pp, tp=tp, seq=256)
    assert module._recorded.cache_info().misses == 1


@pytest.mark.parametrize(("share", "answer"), [(1.1, "yes"), (1.02, "near"), (0.9, "no")])
def test_the_limit_of_memory_is_that_of_other_models(
    armillary: Armillary, cache: str, share: float, answer: str
) -> None:
    """Reserve and band are of the platform, so captures have the same three answers."""
    made = build(MAMBA, seq=256, dp=8)
    assert made.summary is not None
    held = f"npu.memory.capacity={int(made.summary.memory * share)} B"
    words = ("check", MAMBA, "--seq", "256", "--dp", "8", "-p", "dgx-h100", "--set", held)
    checked = armillary(*words, XDG_CACHE_HOME=cache)
    assert (checked.returncode == 2) == (answer == "no")
    assert ("they may not fit, or run slowly" in checked.stderr) == (answer == "near")


def test_sweep(armillary: Armillary, cache: str, tmp_path: Path) -> None:
    study = {
        "workload": {"model": MAMBA, "options": {"seq": 256, "dp": 8}},
        "platform": "dgx-h100",
        "parameters": {"workload.zero": [0, 1]},
    }
    (tmp_path / "study.yml").write_text(yaml.safe_dump(study), encoding="utf-8")
    run = armillary("sweep", "study.yml", "-o", "out", XDG_CACHE_HOME=cache)
    assert run.returncode == 0, run.stderr
    assert "2 points, 0 failed" in run.stdout


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("capture:nowhere.json", [], "there is no such model"),
        (MAMBA, ["--mp", "2"], "no such option"),
        (MAMBA, ["--cp", "2", "--seq", "256"], "which only attention divides"),
        (MAMBA, ["--seq", "0"], "invalid count: 0"),
        (MAMBA, ["--recompute", "selective"], "recompute"),
        (f"capture:{ROOT / 'models/resnet-50.yml'}", [], "is not a configuration"),
        (MAMBA, ["--seq", "256", "--pp", "99"], "layers for 99"),
    ],
    ids=["missing", "option", "scans", "tokens", "choice", "yaml", "layers"],
)
def test_refusals(
    armillary: Armillary, cache: str, model: str, options: list[str], said: str
) -> None:
    run = armillary("workload", model, *options, XDG_CACHE_HOME=cache)
    assert run.returncode == 2, run.stdout
    assert said in " ".join(run.stderr.split())
    assert "Traceback" not in run.stderr
