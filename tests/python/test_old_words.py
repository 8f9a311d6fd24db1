"""Old words of options, values and keys: each is read as the new word, with a warning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import old_words as page
import pytest

from armillary import old_words
from armillary.errors import InputError
from armillary.old_words import OldWord

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
