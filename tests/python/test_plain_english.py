"""Texts of the package and of errors in plain English: phrases that have a plainer one stay out."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest
from conftest import ROOT

PHRASES = {
    r"\b(?:told|tells)\b": "say, show, report, determine",
    r"\bwhom\b": "split the sentence",
    r"\bbeside\b": "next to, with, at the same time",
    r"(?<!here) (?:is|are) no (?!larger|more|worse|one|longer|better|such)[a-z]": "is not a",
    r"\bof which\b": "split the sentence",
    r"\b(?:twice )?(?:so|as) many\b": "the number",
    r"\bcomes to\b": "is, equals",
    r"\bnobody\b": "say what is unknown",
    r"\bninth decile\b": "90th percentile",
    r"\bstands still\b": "stalls",
}
"""Phrases, and what to write instead."""
ALLOWED = {
    "Number of points of which it is unknown whether they fit.",
    "so many proposals in a row",
}
"""Texts that are right as they are."""


def python_texts() -> Iterator[tuple[str, str]]:
    """Every string, docstring and comment of the package, with its place."""
    for path in sorted((ROOT / "python").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{name}:{node.lineno}", node.value
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield f"{name}:{token.start[0]}", token.string


def test_texts_have_no_such_phrase() -> None:
    found, count = [], 0
    for place, text in python_texts():
        count += 1
        words = " ".join(text.split())
        found += [
            f"{place}: {words[:80]!r}: {instead}"
            for phrase, instead in PHRASES.items()
            if re.search(phrase, words) and words not in ALLOWED
        ]
    assert count > 1000
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text", ["7 is no count", "tables, of which one is large", "as many ranks as NPUs"]
)
def test_phrases_are_found(text: str) -> None:
    assert any(re.search(phrase, text) for phrase in PHRASES)


@pytest.mark.parametrize("text", ["there is no such file", "it is no larger", "no ranks are left"])
def test_plain_texts_pass(text: str) -> None:
    assert not any(re.search(phrase, text) for phrase in PHRASES)
