"""Plain English in texts of the packages and the crates: phrases and beginnings that have better
ones."""

from __future__ import annotations

import functools
from pathlib import Path

import plain_english
import pytest
import yaml
from plain_english import PHRASES, Text, opening, phrase

# The texts are read once.
pytestmark = pytest.mark.xdist_group("plain_english")

ALLOWED = {
    "beside",  # an old key of platform files
    "so many proposals in a row",
}
"""Texts that are right as they are."""


@functools.cache
def texts() -> list[Text]:
    """All texts."""
    return list(plain_english.texts())


@pytest.mark.parametrize("kind", ["py", "rs"])
def test_texts_have_no_such_phrase(kind: str) -> None:
    """No string, and no comment of Python, has a phrase with a better one."""
    read = [
        text
        for text in texts()
        if text.path.endswith(kind)
        and not text.path.startswith(plain_english.PROGRAMS)
        and (kind == "py" or text.kind == "string")
    ]
    found = [
        f"{text.path}:{text.line}: {phrase(text)!r} in {text.words[:80]!r}"
        for text in read
        if text.words not in ALLOWED and phrase(text)
    ]
    assert len(read) > 1000
    assert not found, "\n".join([*found, *(f"{a}: {b}" for a, b in PHRASES.items())])


def test_texts_do_not_lean_on_other_nouns() -> None:
    """The limits may only fall: `python tools/plain_english.py --renew` lowers them, and
    `python tools/plain_english.py FOLDER` lists the texts of a folder."""
    limits = yaml.safe_load(plain_english.LIMITS.read_text(encoding="utf-8"))
    found = plain_english.counts(texts(), limits)
    assert not {at: count for at, count in found.items() if count > limits[at]}


@pytest.mark.parametrize(
    "text", ["7 is no count", "tables, of which one is large", "as many ranks as NPUs"]
)
def test_phrases_are_found(text: str) -> None:
    assert phrase(Text("", 0, text, "comment"))


@pytest.mark.parametrize("text", ["there is no such file", "it is no larger", "no ranks are left"])
def test_plain_texts_pass(text: str) -> None:
    assert not phrase(Text("", 0, text, "comment"))


@pytest.mark.parametrize(
    "text", ["What a rank sends.", "Of the tables.", "As given.", "By model.", "By rank, [N]."]
)
def test_openings_are_found(text: str) -> None:
    assert opening(Text("", 0, text, "docstring"))


@pytest.mark.parametrize(
    "text", ["Bytes that a rank sends.", "Office hours", "What is it?", "By default, 4", "Its"]
)
def test_plain_openings_pass(text: str) -> None:
    assert not opening(Text("", 0, text, "docstring"))


@pytest.mark.parametrize("text", ["What would help", "By layer", "Its name is"])
def test_headings_and_sentences_pass(text: str) -> None:
    assert not opening(Text("", 0, text, "string"))
    assert opening(Text("", 0, "Of the tables: sgd or adam", "string"))


def test_comments_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_english, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text('"""Of it."""\nx = 1  # What\n# Its name\n# Of ranks\n')
    (tmp_path / "a.rs").write_text('//! Of it\n\n/// One\n/// two.\nfn a() { b("Of c") } // d\n')
    python = [(text.line, text.words) for text in plain_english.python_texts(tmp_path / "a.py")]
    rust = [(text.line, text.words) for text in plain_english.rust_texts(tmp_path / "a.rs")]
    assert python == [(1, "Of it."), (2, "What"), (3, "# Its name"), (4, "# Of ranks")]
    assert rust == [(1, "Of it"), (3, "One two."), (5, "Of c")]


def test_folders() -> None:
    paths = {
        "crates/sim/src/a/b.rs": "crates/sim",
        "train/crates/ingest/src/lib.rs": "train/crates/ingest",
        "python/armillary/cli/run.py": "python/armillary/cli",
        "python/armillary/api.py": "python/armillary",
    }
    assert {path: Text(path, 0, "", "comment").folder for path in paths} == paths
