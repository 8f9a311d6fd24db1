"""`armillary workload --from` and `--export`, as a user calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.launch import EXPORTS, READERS

LAYOUT = ("--framework", "megatron-lm", "--tp", "2", "--sp", "--dp", "4", "--zero", "1")


def test_a_layout_goes_out_and_comes_back(armillary: Armillary, tmp_path: Path) -> None:
    made = armillary("workload", "llama-3-8b", *LAYOUT, "--export", "megatron", "run.sh")
    assert made.returncode == 0, made.stderr
    assert "launch file written to run.sh" in made.stderr
    back = armillary(
        "workload", "--from", "auto", "run.sh", "--json", "j.json", "--write-model", "m.yml"
    )
    assert back.returncode == 0, back.stderr
    assert back.stdout.splitlines()[1:] == made.stdout.splitlines()[1:]
    found = json.loads((tmp_path / "j.json").read_text(encoding="utf-8"))["launch"]
    assert found["format"] == "megatron-args"
    assert found["options"]["zero"] == 1
    assert found["model"]["layers"] == 32
    # The model and the printed options repeat the job.
    (line,) = [line for line in back.stderr.splitlines() if line.startswith("options: ")]
    again = armillary("workload", "m.yml", *line.removeprefix("options: ").split())
    assert again.stdout.splitlines()[1:] == made.stdout.splitlines()[1:]


def test_options_behind_the_file_win(armillary: Armillary) -> None:
    armillary("workload", "llama-3-8b", *LAYOUT, "--export", "megatron", "run.sh")
    run = armillary(
        "workload", "--from", "megatron-args", "run.sh", "--micro-batch", "2",
        "--global-batch", "16", "--zero", "3",
        "--export", "megatron", "-",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("#!/bin/bash\n")
    assert "--micro-batch-size 2\n" in run.stdout
    assert "--data-parallel-sharding-strategy optim_grads_params\n" in run.stdout


def test_the_help_lists_all_formats(armillary: Armillary) -> None:
    """The help loads no format, so that its lists stand in its text."""
    text = armillary("workload", "--help").stdout
    source = re.search(r"--from FORMAT FILE(.*?)--write-model", text, re.S)
    target = re.search(r"--export FRAMEWORK FILE(.*?)Presets", text, re.S)
    assert source is not None
    assert target is not None
    assert re.findall(r"[a-z-]+", source[1].partition(":")[2]) == ["auto", *READERS]
    assert re.findall(r"[a-z]+", target[1].partition(":")[2]) == list(EXPORTS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "megatron", "run.sh"), "allowed: auto, megatron-args"),
        (("--from", "auto", "nowhere.sh"), "can't be read"),
        (("--from", "auto", "empty"), "no known format"),
        (("llama-3-8b", "--export", "megatron-lm", "-"), "unknown framework 'megatron-lm'"),
        (("llama-3-8b", "--write-model", "m.yml"), "is given without --from"),
        (("resnet-50", "--dp", "8", "--export", "megatron", "-"), "model of the family 'cnn'"),
        (("resnet-50", "--from", "auto", "empty"), "model of the family 'cnn'"),
        (("--from", "auto", "run.sh", "--export", "megatron", "run.sh"), "is also the file"),
        (("--from", "auto"), "requires 2 arguments"),
        (("--from", "auto", "run.sh", "--tpp", "3"), "no such option: --tpp"),
    ],
)
def test_bad_input(
    armillary: Armillary, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "run.sh").write_text("pretrain_gpt.py --num-layers 2")
    run = armillary("workload", *arguments)
    assert run.returncode == 2, run.stdout
    assert said in run.stderr, run.stderr
    assert "Traceback" not in run.stderr
