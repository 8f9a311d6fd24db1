"""Old words of options, values and keys: each is read as the new word, with a warning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import old_words as page
import pytest
from conftest import Armillary

import armillary as arm
from armillary import old_words
from armillary.errors import InputError
from armillary.old_words import OldWord
from armillary.sweep import check

OURS = (
    OldWord("verb", ("run",), "--procs", "--npus"),
    OldWord("verb", ("run",), "--sort", ""),
    OldWord("verb", ("run",), "--loud", "", is_flag=True),
    OldWord("verb value", ("run",), "row-wise", "rowwise", option="--optimizer"),
    OldWord("model", ("cnn",), "width", "precision", convert=lambda value, _: f"fp{value}"),
    OldWord("model", ("cnn",), "plain", "framework_set.plain", is_flag=True),
    OldWord("model value", ("cnn",), "row-wise", "rowwise", option="optimizer"),
)


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_words, "WORDS", OURS)


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize(
    ("given", "today", "warned"),
    [
        (["run", "x", "--procs", "4"], ["run", "x", "--npus", "4"], 1),
        (["run", "--procs=4", "x"], ["run", "--npus", "4", "x"], 1),
        (["run", "--sort", "up", "x"], ["run", "x"], 1),
        (["run", "--loud", "x"], ["run", "x"], 1),
        (["run", "--optimizer", "row-wise"], ["run", "--optimizer", "rowwise"], 1),
        (["run", "--optimizer=row-wise"], ["run", "--optimizer=rowwise"], 1),
        (["run", "--other", "row-wise"], ["run", "--other", "row-wise"], 0),
        (["run", "--", "--procs", "4"], ["run", "--", "--procs", "4"], 0),
        (["sweep", "--procs", "4"], ["sweep", "--procs", "4"], 0),
        (["run", "--procs"], ["run", "--npus"], 1),
        ([], [], 0),
    ],
)
def test_arguments(given: list[str], today: list[str], warned: int) -> None:
    found, warnings = old_words.arguments(given)
    assert (found, len(warnings)) == (today, warned)


@pytest.mark.usefixtures("ours")
def test_options_of_a_model() -> None:
    given = {"dp": 2, "width": 16, "plain": True, "optimizer": "row-wise"}
    found, warnings = old_words.options("cnn", given)
    assert found == {
        "dp": 2,
        "precision": "fp16",
        "framework_set": {"plain": True},
        "optimizer": "rowwise",
    }
    assert len(warnings) == 3
    assert old_words.options("cnn", found) == (found, [])
    assert old_words.options("dlrm", given) == (given, [])


@pytest.mark.usefixtures("ours")
def test_an_old_word_next_to_another_value_of_the_new_one_is_refused() -> None:
    given = {"plain": True, "framework_set": {"plain": False}}
    with pytest.raises(InputError, match="is the old name of framework_set"):
        old_words.options("cnn", given)


def test_no_old_word_is_one_of_today() -> None:
    """An old word leads to a word of today at once, and stands once in a place."""
    for word in old_words.WORDS:
        for place in word.places:
            same = [
                each
                for each in old_words.WORDS
                if each.kind == word.kind and place in each.places and each.option == word.option
            ]
            assert [each.old for each in same].count(word.old) == 1
            assert word.new not in {each.old for each in same}


def test_json_has_the_warning(tmp_path: Path) -> None:
    """Text on standard error, and the `warnings` of JSON."""
    file = tmp_path / "found.json"
    code = (
        "import sys; from armillary import old_words as o; "
        "o.WORDS = (o.OldWord('verb', ('run',), '--outcome', '--json'),); "
        "from armillary.cli.app import main; sys.exit(main(sys.argv[1:]))"
    )
    command = ["run", "resnet-50", "--dp", "2", "-p", "dgx-h100", "--outcome", str(file)]
    run = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    text = "--outcome is now called --json; the old name goes in 0.3"
    assert f"warning: {text}" in run.stderr
    assert json.loads(file.read_text(encoding="utf-8"))["warnings"][0] == text


def test_the_page_is_the_table() -> None:
    assert page.main(["--check"]) == 0, "python tools/old_words.py"
    text = page.page()
    for word in old_words.WORDS:
        assert f"`{page._spelled(word, word.old)}`" in text


OLD_OPTIONS: dict[str, object] = {"merged": False, "kernels": "eager", "bucket_mb": 25.0}


def test_old_options_of_a_model_make_the_same_workload() -> None:
    """With a warning in Python, in the summary and in reports, and the new words in the report."""
    with pytest.warns(DeprecationWarning, match="is now called framework_set"):
        old = arm.workload.build("llama-3-8b", dp=2, **OLD_OPTIONS)
    new = arm.workload.build("llama-3-8b", dp=2, framework_set=OLD_OPTIONS)
    platform = arm.Platform.load("dgx-h100", npus=2)
    reports = [arm.simulate(each, platform).report for each in (old, new)]
    assert reports[0]["digest"] == reports[1]["digest"]
    models = [each["config"]["workload"]["model"] for each in reports]
    assert models[0] == models[1]
    extra = set(reports[0]["warnings"]) - set(reports[1]["warnings"])
    assert len(extra) == len(OLD_OPTIONS)
    assert old.summary is not None
    assert extra < set(old.summary.notes)


def test_a_family_by_its_name_warns_too() -> None:
    with pytest.warns(DeprecationWarning, match="overlap_tp is now called"):
        arm.workload.transformer("llama-3-8b", tp=2, overlap_tp=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"framework_set": {"mergd": True}}, "framework_set.mergd: unknown key.*merged"),
        ({"framework_set": ["merged"]}, "is not a mapping"),
        ({"framework_set": {"merged": 1}}, "framework_set.merged: 1 is neither true nor false"),
        ({"framework_set": {"bucket_mb": 0.0}}, "framework_set.bucket_mb: 0.0 is out of range"),
        ({"framework_set": {"tp": 2}}, "framework_set.tp: unknown key"),
    ],
)
def test_keys_of_a_framework_that_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        arm.workload.build("llama-3-8b", **given)


def test_old_options_on_the_command_line(armillary: Armillary) -> None:
    words = ["run", "llama-3-8b", "--dp", "2", "-p", "dgx-h100", "--json", "-"]
    old = armillary(*words, "--no-merged", "--bucket-mb", "25")
    new = armillary(*words, "--framework-set", "merged=false", "--framework-set", "bucket_mb=25")
    assert (old.returncode, new.returncode) == (0, 0), old.stderr + new.stderr
    reports = [json.loads(each.stdout) for each in (old, new)]
    assert reports[0]["digest"] == reports[1]["digest"]
    assert any("merged is now called" in each for each in reports[0]["warnings"])


@pytest.mark.filterwarnings("default")
def test_old_and_new_options_vary_in_a_sweep() -> None:
    """A key of the framework, and an old option, are targets."""
    study = {
        "workload": {"model": "llama-3-8b", "options": {"dp": 2}},
        "platform": {"file": "dgx-h100", "npus": 2},
        "parameters": {
            "workload.framework_set.merged": [True, False],
            "workload.overlap_tp": [True],
        },
    }
    assert check(study) == []
