"""Prose is easy to read: lines fit in 100 columns, and phrases that readers stumble over are
gone."""

from __future__ import annotations

import re
from collections.abc import Callable

import prose
from conftest import ROOT

STUMBLES = {
    r"\btold\b": "reported, predicted, known",
    r"\bbeside\b": "next to, in addition to, in parallel with",
    r"(?<!to )\bwhom\b": "split the sentence",
    r"\bof which\b": "split the sentence",
    r"\bas many\b": "the number",
    r"\bcomes? to\b": "equals, is",
    r"(?<!there )\bis no [a-z]": "is not a ..., unknown ...",
    r"\bninth decile\b": "90th percentile",
    r"\b(?:one|a) (?:file|row|byte|page) a [a-z]": "one ... for each ...",
    r"\bstands? still\b": "stalls",
}


def wrong(found: Callable[[str], object]) -> dict[str, object]:
    """Faults in the text of each document."""
    texts = {path: path.read_text(encoding="utf-8") for path in prose.documents()}
    each = {str(path.relative_to(ROOT)): found(text) for path, text in texts.items()}
    return {name: what for name, what in each.items() if what}


def test_lines_fit() -> None:
    """`python tools/prose.py` breaks lines that are too long. Tables, code and links may be."""
    assert wrong(long_lines) == {}


def long_lines(text: str) -> list[str]:
    allowed = set(prose.filled(text).split("\n"))
    return [line for line in text.split("\n") if len(line) > prose.WIDTH and line not in allowed]


def test_plain_english() -> None:
    assert wrong(stumbles) == {}


def stumbles(text: str) -> list[str]:
    text = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.M | re.S)
    text = re.sub(r"<!-- (\S+) -->.*?<!-- \1 end -->", "", text, flags=re.S)  # written by programs
    text = re.sub(r"`[^`]*`|<!--.*?-->", "", text, flags=re.S)
    return [
        f"{match[0]!r}: {better}"
        for phrase, better in STUMBLES.items()
        for match in re.finditer(phrase, text, re.I)
    ]


def sentences(text: str) -> list[str]:
    """The sentences of a document, with a word for each piece of code. Without tables."""
    text = re.sub(r"^\s*```.*?^\s*```|<!--.*?-->", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`]*`", "Code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)", text):
        if paragraph.strip() and paragraph.strip()[0] not in "#<!|":
            found += re.split(r"(?<=[.:;!?])\s+(?=[A-Z*\"(])", " ".join(paragraph.split()))
    return found


def test_sentences_are_short() -> None:
    """Nine of ten sentences of a document have at most 28 words."""
    assert wrong(long_sentences) == {}


def long_sentences(text: str) -> list[str]:
    every = sentences(text)
    found = [sentence for sentence in every if len(sentence.split()) > 28]
    return found if len(every) - len(found) <= int(len(every) * 0.9) else []


def test_sentences() -> None:
    text = "# Title\n\nA `b` [link here](x.md). Two: three\nfour.\n\n- Five.\n- Six.\n\n| a |"
    assert sentences(text) == ["A Code link here.", "Two: three four.", "- Five.", "- Six."]


def test_filling() -> None:
    long = " ".join(["word"] * 30)
    text = f"# A title\n\n{long}\n\n- {long}\n\n| {long} |\n\n```text\n{long}\n```\n"
    lines = prose.filled(text).split("\n")
    assert [line for line in lines if len(line) > prose.WIDTH] == [f"| {long} |", long]
    assert lines[2] == " ".join(["word"] * 20)
    assert [line[:6] for line in lines if line.startswith(("- ", "  "))] == ["- word", "  word"]
    assert "".join(prose.filled(text).split()) == "".join(text.split())
    assert prose.filled(prose.filled(text)) == prose.filled(text)


def test_code_and_links_stay_whole() -> None:
    code = "`" + "a b " * 30 + "`"
    assert code in prose.filled(f"Some words before {code} and after it.")
