"""`armillary plan` of a decoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Armillary

_JOB = ("plan", "llama-3-8b", "-p", "dgx-h100-16n", "--ranks", "16", "--global-batch", "32")
_VALUES = ("--layout", "tp=1,2", "--layout", "pp=1,2", "--layout", "zero=1,3", "--seq", "4096")
_FEW = (*_VALUES, "--framework", "megatron-lm")


def test_the_best_layout_in_words_as_json_and_as_a_page(
    armillary: Armillary, tmp_path: Path
) -> None:
    """The best layout runs, and every form says the same."""
    words = armillary(*_JOB, *_FEW)
    assert words.returncode == 0, words.stderr
    assert "No other of the" in " ".join(words.stdout.split())
    asked = armillary(*_JOB, *_FEW, "--json", "-", "--report", "p.html", cwd=tmp_path)
    found = json.loads(asked.stdout)
    assert found["schema"] == "armillary.layout-plan/1"
    assert found["ranks"] == 16 and found["seq"] == 4096
    best = found["best"][0]
    assert best["bound_ns"] <= best["step_ns"] <= best["high_ns"]
    assert 0 <= found["gap"] <= 0.01
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in best["options"].items()]
    run = armillary("run", "llama-3-8b", "-p", "dgx-h100-16n", "--json", "-", *flags)
    assert json.loads(run.stdout)["step_time_ns"] == best["step_ns"]
    assert "Searched values" in (tmp_path / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--layout", "tp"), "has no values"),
        (("--layout", "tpp=1"), "is unknown"),
        (("--schemes", "row"), "is for embedding tables"),
        (("--output", "plan.yml"), "is for embedding tables"),
        (("--framework", "unheard-of"), "unheard-of"),
        (("--framework", "internevo"), "no bound knows what it changes"),
        (("--backend", "carrier-pigeon"), "carrier-pigeon"),
        (("--ranks", "12"), "12"),
        (("--global-batch", "0"), "0"),
        (("--set", "npu.launch.kernel=80 us"), "no bound knows"),
        (("--layout", "tp=3"), "no layout of these values"),
        (("--layout", "precision=bf16,fp8"), "several values of precision"),
    ],
)
def test_bad_input_is_refused(
    armillary: Armillary, given: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """Exit code 2, and a message that names the value."""
    run = armillary(*_JOB, *given, cwd=tmp_path)
    assert run.returncode == 2, run.stdout
    assert said in run.stderr and "Traceback" not in run.stderr


def test_options_for_decoders_are_refused_for_tables(armillary: Armillary) -> None:
    """A recommendation model has no such layout."""
    run = armillary("plan", "dlrm-small", "-p", "dgx-h100", "--layout", "tp=1")
    assert run.returncode == 2 and "is for decoders" in run.stderr
