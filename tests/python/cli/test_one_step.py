"""Models where workloads can stand."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import toy
from conftest import ROOT, Armillary
from thorough import some

import armillary as arm
from armillary.cli import check, convert, explain, run
from armillary.errors import flag
from armillary.model.files import FAMILIES
from armillary.workload import families

SMALL = ["--tp", "8", "--dp", "4"]


def test_a_model_runs_in_one_step(armillary: Armillary) -> None:
    """The platform takes as many NPUs as there are ranks, and that is said."""
    found = armillary("run", "llama-3-8b", *SMALL, "-p", "dgx-h100-16n")
    assert found.returncode == 0, found.stderr
    assert found.stderr == "dgx-h100-16n: 128 NPUs resized to 32, one for each rank of llama-3-8b\n"
    assert "llama-3-8b --tp 8 --dp 4 on dgx-h100-16n, analytical" in found.stdout.splitlines()[0]
    assert "tokens/s" in found.stdout and "(MFU)" in found.stdout


def test_the_same_as_in_two_steps(armillary: Armillary, tmp_path: Path) -> None:
    one = armillary("run", *SMALL, "-p", "dgx-h100-16n", "llama-3-8b", "--json", "one.json")
    assert one.returncode == 0, one.stderr
    armillary("workload", "llama-3-8b", *SMALL, "-o", "made")
    armillary("run", "made", "-p", "dgx-h100-16n", "--npus", "32", "--json", "two.json")
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
    assert first["config"]["workload"]["model"] == {
        "name": "llama-3-8b",
        "options": {"tp": 8, "dp": 4},
    }
    assert first["digest"] == second["digest"]
    assert first["step_time_ns"] == second["step_time_ns"]


def test_a_report_of_a_model_is_explained_with_what_would_help(armillary: Armillary) -> None:
    armillary("run", "llama-3-8b", "--tp", "8", "-p", "dgx-h100", "--json", "r.json")
    found = armillary("explain", "r.json", "--seconds", "1", "--json", "-")
    assert found.returncode == 0, found.stderr
    assert "can't be repeated" not in found.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "llama-3-8b", "--tp", "8", "-p", "dgx-h100", "--no-what-if"],
        ["check", "llama-3-8b", "--tp", "8", "--dp", "32", "-p", "dgx-h100-16n"],
        ["convert", "resnet-50", "--dp", "8", "-o", "made"],
        ["run", "resnet-50", "--dp", "8", "--passes", "2", "-p", "dgx-h100"],
        ["run", "llama-3-8b", "--tp=8", "--framework-set", "kernels=eager", "-p", "dgx-h100"],
    ],
    ids=" ".join,
)
def test_other_verbs_take_models_too(arguments: list[str], armillary: Armillary) -> None:
    found = armillary(*arguments)
    assert found.returncode == 0, found.stderr


def test_a_hugging_face_file_and_its_directory(armillary: Armillary, tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3",
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_hidden_layers": 4,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "vocab_size": 32000,
    }
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen/config.json").write_text(json.dumps(config))
    for name in ("qwen/config.json", "qwen"):
        found = armillary("run", name, "--tp", "4", "-p", "dgx-h100")
        assert found.returncode == 0, found.stderr
        assert "tokens/s" in found.stdout


def test_a_file_of_that_name_comes_first(armillary: Armillary, tmp_path: Path) -> None:
    armillary("workload", "resnet-50", "--dp", "8", "-o", "llama-3-8b")
    found = armillary("run", "llama-3-8b", "-p", "dgx-h100")
    assert found.returncode == 0, found.stderr
    refused = armillary("run", "llama-3-8b", "--tp", "8", "-p", "dgx-h100")
    assert refused.returncode == 2
    assert "for models and texts only" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "llama-3-70", "-p", "dgx-h100"], "a model such as llama-3-70b"),
        (["run", "llama-3-70", "--tp", "8", "-p", "dgx-h100"], "llama-3-70b"),
        (["run", "llama-3-8b", "--ep", "8", "-p", "dgx-h100"], "no such option: --ep 8"),
        (["run", "llama-3-8b", "--tp", "x", "-p", "dgx-h100"], "a whole number"),
        (["run", "llama-3-8b", "--globl-batch", "8", "-p", "dgx-h100"], "--global-batch"),
        (["run", "llama-3-8b", "--tp", "3", "-p", "dgx-h100"], "32 heads are not divisible by 3"),
        (
            ["run", "llama-3-8b", "--tp", "2", "--dp", "6", "-p", "dgx-h100-16n"],
            "can't be resized to the 12 ranks",
        ),
        (
            ["run", "llama-3-8b", "--tp", "8", "-p", "dgx-h100-16n", "--npus", "16"],
            "--npus 8 resizes",
        ),
        (
            ["run", "llama-3-8b", "--groups", "g.json", "-p", "dgx-h100"],
            "a model has groups of its own",
        ),
        (["run", "made", "-p", "dgx-h100-16n"], "--npus 64 resizes"),
        (["explain", "r.json", "--tp", "8"], "is for a workload"),
        (["explain", "r.json", "--backend", "link"], "in: --backend"),
        (["explain", "r.json", "--passes", "2"], "in: --passes"),
        (["explain", "llama-3-8b"], "-p P as well"),
        (["workload", "--model", "llama-3-8b"], "MODEL first"),
        (["workload", "llama-3-8b", "--model", "x"], "no such option: --model"),
        (["run", "--modle", "x", "-p", "dgx-h100"], "no such option: --modle"),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, list) else "",
)
def test_wrong_input_says_what_is_missing(
    arguments: list[str], said: str, armillary: Armillary, tmp_path: Path
) -> None:
    if "made" in arguments:
        armillary("workload", "resnet-50", "--dp", "64", "-o", "made")
    found = armillary(*arguments)
    assert found.returncode == 2
    assert said in found.stderr, found.stderr
    assert "Traceback" not in found.stderr


def test_a_single_node_that_grows_says_so(armillary: Armillary) -> None:
    found = armillary("run", "llama-3-8b", "--tp", "8", "--dp", "4", "-p", "dgx-h100")
    assert found.returncode == 0
    assert "dgx-h100: 8 NPUs resized to 32" in found.stderr
    assert "warning: npus: 32 makes Switch(8) a single node of Switch(32)" in found.stdout


def test_help_says_what_a_model_takes(armillary: Armillary) -> None:
    said = " ".join(armillary("run", "--help").stdout.split())
    assert "`armillary workload -o`" in said
    assert "armillary run llama-3-70b --tp 8 --dp 64 -p dgx-h100-16n" in said
    assert "--column-shards" not in said


@pytest.mark.parametrize(
    "model", ["llama-3-8b", "mixtral-8x7b", "resnet-50", "dlrm-hoti", "ispass-transformer"]
)
def test_every_option_of_a_model_is_explained(model: str, armillary: Armillary) -> None:
    """In words for people who don't read Python."""
    said = armillary("workload", model, "--help").stdout
    family = arm.workload.load_model(model).family
    assert "Raises" not in said and "`" not in said and "docstring" not in said
    for option in families.options(family):
        assert flag(option) in said
        assert families.explanations(family)[option]


@pytest.mark.parametrize("verb", [run.run, explain.explain, check.check, convert.convert])
def test_no_option_of_a_model_means_something_else_on_a_verb(verb: Callable[..., None]) -> None:
    """`passes` is handed on to models that have it, `ranks` is what --npus says."""
    own = set(inspect.signature(verb).parameters)
    assert {name for family in FAMILIES for name in families.options(family)} & own <= {
        "ranks",
        "passes",
    }


def test_from_python() -> None:
    result = arm.simulate("llama-3-8b", "dgx-h100-16n", tp=8, dp=4)
    assert result.report["ranks"] == 32
    assert (
        arm.simulate(
            arm.load("llama-3-8b", tp=8, dp=4), arm.Platform.load("dgx-h100-16n", npus=32)
        ).report["digest"]
        == (result.report["digest"])
    )
    with pytest.raises(arm.InputError, match="is not an option of a run"):
        arm.simulate(arm.load("llama-3-8b"), arm.Platform.load("dgx-h100", npus=1), tp=8)
    with pytest.raises(arm.InputError, match="the workload has 32 ranks"):
        arm.simulate("llama-3-8b", arm.Platform.load("dgx-h100-16n"), tp=8, dp=4)


def test_rates_of_a_result() -> None:
    result = arm.simulate("llama-3-8b", "dgx-h100", tp=8, recompute="full")
    seconds = result.step_time_s
    assert result.step_time_ns == seconds * 1e9
    assert result.samples_per_s == pytest.approx(1 / seconds)
    assert result.tokens_per_s == pytest.approx(8192 / seconds)
    assert result.mfu is not None and result.hfu is not None
    assert 0 < result.mfu < result.hfu < 1
    said = repr(result)
    assert said.startswith("<Result: llama-3-8b on dgx-h100, 8 ranks, step time ")
    assert "samples/s, MFU " in said


def test_nothing_known_of_a_workload_is_no_rate(tmp_path: Path) -> None:
    toy.platform(tmp_path)
    result = arm.simulate(toy.traces(tmp_path), tmp_path / "toy.yml")
    assert result.rates is None
    assert (result.mfu, result.hfu, result.tokens_per_s, result.samples_per_s) == (
        None,
        None,
        None,
        None,
    )
    assert repr(result).endswith("on toy, 8 ranks, step time 1.701 ms>")


OFFERED: list[tuple[list[str], set[str]]] = [
    (["run", "-p", "dgx-h"], {"dgx-h100", "dgx-h100-16n"}),
    (["run", "llama-3-8"], {"llama-3-8b"}),
    (["workload", "resnet"], {"resnet-50"}),
    (["collective", "all_r"], {"all_reduce"}),
    (["comp"], {"compare"}),
    (["run", "--set", "scheduler.ch"], {"scheduler.chunks="}),
    (["run", "--set", "links[0].l"], {"links[0].latency="}),
    (["run", "--set", "network.model=l"], {"network.model=link"}),
]
"""Words, and names that complete the last one."""


@pytest.mark.parametrize(
    ("shell", "words", "offered"),
    [*(("zsh", *each) for each in OFFERED), *(("bash", *each) for each in some(OFFERED, 4))],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_completion(shell: str, words: list[str], offered: set[str], armillary: Armillary) -> None:
    """As bash asks it, of a real start."""
    line = ["armillary", *words]
    asked = {
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
        "_TYPER_COMPLETE_ARGS": " ".join(line),
        "_ARMILLARY_COMPLETE": f"complete_{shell}",
    }
    if shell == "bash":
        found = subprocess.run(
            [sys.executable, "-m", "armillary.cli"],
            env={**os.environ, **asked},
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
    else:
        found = armillary(**asked)
    assert found.returncode == 0, found.stderr
    assert all(name in found.stdout for name in offered)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_installed(shell: str, armillary: Armillary) -> None:
    found = armillary("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert found.returncode == 0, found.stderr
    assert "_ARMILLARY_COMPLETE" in found.stdout


def test_an_unknown_model_is_reported_once(armillary: Armillary) -> None:
    """However many options of models come with it."""
    found = armillary("run", "llama-405b", "--tp", "8", "--pp", "16", "-p", "dgx-h100")
    assert found.returncode == 2
    assert found.stderr.count("there is no such model") == 1
    assert "llama-3-405b" in found.stderr
