"""`armillary workload`: what is printed, written and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.workload import families, load_model, models

GPT = ("workload", "gpt3-175b", "--tp", "8", "--pp", "8", "--dp", "2", "--global-batch", "16")


def test_what_it_writes_can_be_run(armillary: Armillary, tmp_path: Path) -> None:
    made = armillary(*GPT, "-o", "g", "--json", "g.json")
    assert made.returncode == 0, made.stderr
    assert "parameters   174,604,259,328" in made.stdout
    assert json.loads((tmp_path / "g.json").read_text())["ranks"] == 128
    ran = armillary("run", "g", "-p", "dgx-h100-16n", "--json", "-")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["step_time_ns"] > 0
    again = armillary(*GPT, "-o", "g")
    assert again.returncode == 0, again.stderr


def test_same_input_same_bytes(armillary: Armillary, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        assert armillary(*GPT, "-o", folder).returncode == 0
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_help_names_presets_and_explains_options(armillary: Armillary) -> None:
    general = armillary("workload", "--help").stdout
    assert all(name in general for name in models())
    special = armillary("workload", "gpt3-175b", "--help")
    assert special.returncode == 0
    assert "Pipeline stages." in special.stdout


@pytest.mark.parametrize("family", sorted({load_model(name).family for name in models()}))
def test_every_option_is_explained(family: str) -> None:
    text = families.explanations(family) or (families.builder(family).__doc__ or "")
    assert all(option in text for option in families.options(family)), family


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("workload", "gpt3-176b"), "no such model"),
        (("workload", "gpt3-175b", "--tpp", "2"), "unrecognized arguments: --tpp 2"),
        (("workload", "gpt3-175b", "--tp", "two"), "invalid int value: 'two'"),
        (("workload", "gpt3-175b", "--tp", "two"), "allowed: a whole number\n"),
        (("workload", "gpt3-175b", "--schedule", "foo"), "allowed: gpipe, 1f1b, interleaved, zb-h1\n"),
        (("workload", "gpt3-175b", "--sp=3"), "allowed: no value\n"),
        (("workload", "gpt3-175b", "--tp", "7"), "96 heads"),
        (("workload", "gpt3-175b", "--format", "xml"), "allowed: compact, chakra"),
        ((*GPT, "-o", "full"), "is not empty and holds no workload"),
        ((*GPT, "-p", "dgx-h100"), "has 8 NPUs for a workload of 128"),
        (("workload", "llama-3-70b", "--dp", "8", "-p", "dgx-h100"), "of the 80.0 GB on an NPU"),
        (("run", "nowhere", "-p", "dgx-h100"), "nowhere"),
    ],
)
def test_bad_input(armillary: Armillary, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").touch()
    done = armillary(*arguments)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
