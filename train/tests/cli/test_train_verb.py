"""`armillary train` before it trains: what it refuses, and that nothing needs PyTorch for it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

WITHOUT = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
from armillary.cli import app
sys.exit(app.main(["train", "dlrm-small"]))
"""


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=60, check=False
    )


def test_without_pytorch_one_line_says_how_to_install_it() -> None:
    run = ran("-c", WITHOUT)
    assert run.returncode == 2
    assert "training needs PyTorch, which is not installed" in run.stderr
    assert "allowed: pip install armillary-train" in run.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["dlrm-smal"], "there is no such model"),
        (["llama-3-8b"], "llama-3-8b is a transformer model"),
        (["dlrm-small", "--global-batch", "0"], "0 is out of range"),
        (["dlrm-small", "--json", "/none/x.json"], "can't be written"),
        (["dlrm-small", "--steps", "2", "--samples", "3", "--lr", "0"], "2 problems"),
    ],
)
def test_wrong_input_is_refused_before_pytorch_is_loaded(options: list[str], said: str) -> None:
    run = ran("-X", "importtime", "-m", "armillary.cli", "train", *options)
    assert run.returncode == 2
    assert said in run.stderr
    assert "|   torch" not in run.stderr and " torch\n" not in run.stderr


@pytest.mark.parametrize("verb", ["train", "ingest", "checkpoint", "bench"])
def test_helps_load_no_library_that_computes(verb: str) -> None:
    main = "from armillary.cli import app; app.main(sys.argv[1:])"
    run = ran("-c", f"import sys; {main}; print(*sys.modules, file=sys.stderr)", verb, "--help")
    assert run.returncode == 0
    found = set(run.stderr.split())
    assert f"armillary_train.cli.{verb}" in found
    assert not found & {"torch", "numpy", "yaml", "rich", "msgspec", "armillary.workload"}


def test_benchmarks_refuse_a_model_before_pytorch_is_loaded() -> None:
    run = ran("-X", "importtime", "-m", "armillary.cli", "bench", "dlrm-smal")
    assert run.returncode == 2
    assert "there is no such model" in run.stderr
    assert " torch\n" not in run.stderr


def test_other_verbs_dont_load_pytorch() -> None:
    run = ran(
        *[
            "-X",
            "importtime",
            "-m",
            "armillary.cli",
            "collective",
            "all_reduce",
            "-b",
            "1M",
            "-e",
            "1M",
            "-p",
            "tpu-v4-pod",
        ]
    )
    assert run.returncode == 0, run.stderr
    assert "armillary" in run.stderr and " torch\n" not in run.stderr


def test_help_has_headings_and_the_ten_options_that_matter_first() -> None:
    shown = ran("-m", "armillary.cli", "train", "--help").stdout
    titles = re.findall(r"^(\w.*):$", shown, re.M)
    assert titles[:3] == ["Arguments", "Job", "Tables and their memory"]
    job = shown.partition("\nJob:\n")[2].partition("\n\n")[0]
    listed = re.findall(r"^  --([a-z-]+)", job, re.M)
    assert len(listed) == 10
    assert {"data", "steps", "samples", "optimizer", "lr", "device", "checkpoint"} < set(listed)
