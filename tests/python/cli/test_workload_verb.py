"""`armillary workload`: what is printed, written and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.workload import families, load_model, models

GPT = ("workload", "gpt3-175b", "--tp", "8", "--pp", "8", "--dp", "2", "--global-batch", "16")


def test_what_it_writes_can_be_run(armillary: Armillary, tmp_path: Path) -> None:
    made = armillary(*GPT, "-o", "g", "--json", "g.json")
    assert made.returncode == 0, made.stderr
    assert "Parameters: 174,604,259,328" in made.stdout
    assert json.loads((tmp_path / "g.json").read_text())["ranks"] == 128
    ran = armillary("run", "g", "-p", "dgx-h100-16n", "--json", "-")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["step_time_ns"] > 0
    assert made.stderr.startswith("workload written to g\n")
    again = armillary(*GPT, "-o", "g")
    assert again.returncode == 0, again.stderr
    assert again.stderr == "workload replaced in g\n"
    refused = armillary(*GPT, "-o", "g", "--format", "chakra")
    assert "holds a workload in the compact form" in refused.stderr


def test_same_input_same_bytes(armillary: Armillary, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        assert armillary(*GPT, "-o", folder).returncode == 0
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_help_names_presets_and_explains_options(armillary: Armillary) -> None:
    general = armillary("workload", "--help").stdout
    assert all(name in general for name in models())
    lines = dict(re.findall(r"^  ([a-z]+): ([a-z].*)$", general, re.M))
    assert {name: family for family, names in lines.items() for name in names.split(", ")} == {
        name: load_model(name).family for name in models()
    }
    special = armillary("workload", "gpt3-175b", "--help")
    assert special.returncode == 0
    assert "Pipeline stages." in special.stdout


@pytest.mark.parametrize("family", sorted({load_model(name).family for name in models()}))
def test_every_option_is_explained(family: str) -> None:
    assert set(families.options(family)) <= {
        key for key, text in families.explanations(family).items() if text
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("workload", "gpt3-176b"), "no such model"),
        (("workload", "gpt3-175b", "--tpp", "2"), "no such option: --tpp 2"),
        (("workload", "gpt3-175b", "--tp", "two"), "invalid int value: 'two'"),
        (("workload", "gpt3-175b", "--tp", "two"), "allowed: a whole number\n"),
        (
            ("workload", "gpt3-175b", "--schedule", "foo"),
            "allowed: gpipe, 1f1b, interleaved, zb-h1, dualpipe\n",
        ),
        (("workload", "gpt3-175b", "--sp=3"), "allowed: no value\n"),
        (("workload", "gpt3-175b", "--tp", "7"), "96 heads"),
        (("workload", "gpt3-175b", "--format", "xml"), "allowed: compact, chakra"),
        ((*GPT, "-o", "full"), "is not empty and holds no workload"),
        ((*GPT, "-p", "dgx-h100"), "has 8 NPUs, but the workload has 128 ranks"),
        (("workload", "llama-3-70b", "--dp", "8", "-p", "dgx-h100"), "of the 80.0 GB on an NPU"),
        (("run", "nowhere", "-p", "dgx-h100"), "nowhere"),
    ],
)
def test_bad_input(
    armillary: Armillary, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").touch()
    done = armillary(*arguments)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_stages_that_do_the_same_take_one_line(armillary: Armillary) -> None:
    """In tables of 16 stages, and where they need more memory than there is."""
    many = (
        "workload",
        "llama-3-405b",
        "--tp",
        "8",
        "--pp",
        "16",
        "--dp",
        "8",
        "--global-batch",
        "64",
        "--sp",
    )
    for width in ("80", "100"):
        said = armillary(*many, "--zero", "1", COLUMNS=width).stdout
        assert said.count("stages 1-14 ") == 1
        assert "\u2026" not in said
        assert len(re.findall(r"\d (?:GB|MB)\b", said)) >= 9 * 6
    full = armillary(*many, "-p", "dgx-a100-16n", "--npus", "1024")
    assert full.returncode == 2
    assert full.stderr.count("error: ") == 1
    assert re.search(
        r"error: stages \d+-\d+ need [\d.]+ (?:to [\d.]+ )?GB of the [\d.]+ GB on an NPU of "
        r"dgx-a100-16n",
        full.stderr,
    )
