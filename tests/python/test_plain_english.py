"""Plain English in texts of the package and errors of the core: phrases that have others."""

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
    "beside",  # an old key of platform files
    "so many proposals in a row",
}
"""Texts that are right as they are."""
RUST_STRING = re.compile(r'(?<![\w\'])b?"((?:[^"\\]|\\.)*)"', re.S)


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


def rust_texts() -> Iterator[tuple[str, str]]:
    """Every string of the crates outside tests and comments, with its place."""
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        if path.stem.endswith("tests"):
            continue
        source = path.read_text(encoding="utf-8").partition("#[cfg(test)]\nmod ")[0]
        source = re.sub(r"^[ \t]*//.*$", "", source, flags=re.M)
        for found in RUST_STRING.finditer(source):
            line = source.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}", re.sub(r"\\\n\s*", "", found[1])


@pytest.mark.parametrize("texts", [python_texts, rust_texts], ids=["python", "rust"])
def test_texts_have_no_such_phrase(texts: type[Iterator[tuple[str, str]]]) -> None:
    found, count = [], 0
    for place, text in texts():
        count += 1
        words = " ".join(text.split())
        found += [
            f"{place}: {words[:80]!r}: {instead}"
            for phrase, instead in PHRASES.items()
            if re.search(phrase, words, re.IGNORECASE) and words not in ALLOWED
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
