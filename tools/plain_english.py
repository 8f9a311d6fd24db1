"""tools/plain_english.py [--renew] [FOLDER...]: texts inside the code that readers stumble over.

Lists them. `--renew` writes the counts that `tests/python/test_plain_english.py` allows, which may
only fall, into `tests/python/data/plain_english.yml`."""

from __future__ import annotations

import ast
import collections
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
LIMITS = ROOT / "tests/python/data/plain_english.yml"
OTHERS = "others"
"""All folders without limits of their own."""
HOUSES = ("", "train/", "lab/")
"""Folders that have a `python` and a `crates`."""
PROGRAMS = ("adapters", "examples", "fuzz", "lab/bench", "tests/backend", "tests/golden", "tools")
"""Folders with programs of other kinds, without tests of Python."""

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
"""Phrases, and better ones."""
OPENINGS = {
    r"What\b(?!.*\?)": "name the thing: Bytes that each rank sends",
    r"Of\b": "repeat the noun: Optimizer of the tables",
    r"As given\b": "say where it is given: Path from the command line",
    r"By (?!default\b)[\w`'-]+(?: [\w`'-]+)?[,.:;]": "begin with a noun: Time of each model",
    r"Its\b": "repeat the noun: Name of the table",
}
"""First words of a text that leans on a noun elsewhere, and better ones."""
_PHRASES = re.compile("|".join(PHRASES), re.I)
_OPENINGS = re.compile(f"(?:{'|'.join(OPENINGS)})")
_RUST_STRING = re.compile(r'(?<![\w\'])b?"((?:[^"\\]|\\.)*)"', re.S)
_RUST_COMMENT = re.compile(r"^[ \t]*(//[/!]?)(?!/).*(?:\n[ \t]*\1(?![/!]).*)*", re.M)


class Text(NamedTuple):
    """A text in a file."""

    path: str
    line: int
    words: str
    kind: str
    """`comment` (also of documentation), `docstring` or `string`."""

    @property
    def folder(self) -> str:
        """The room or the crate of the file."""
        parts = self.path.split("/")[:-1]
        return "/".join(parts[: parts.index("crates") + 2 if "crates" in parts else 3])


def texts() -> Iterator[Text]:
    """All texts of the packages, of the crates and of programs next to them."""
    python = [*(f"{house}python" for house in HOUSES), *PROGRAMS]
    for path in sorted(path for folder in python for path in (ROOT / folder).rglob("*.py")):
        yield from python_texts(path)
    rust = [*(f"{house}crates/*/src" for house in HOUSES), *(f"{each}/**/src" for each in PROGRAMS)]
    for path in sorted({path for folder in rust for path in ROOT.glob(f"{folder}/**/*.rs")}):
        yield from rust_texts(path)


def python_texts(path: Path) -> Iterator[Text]:
    """Strings, docstrings and comments of a file."""
    source, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr):  # comes before its constant
            docstrings.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            kind = "docstring" if id(node) in docstrings else "string"
            yield Text(name, node.lineno, " ".join(node.value.split()), kind)
    before = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lead = "" if token.start[0] == before + 1 else "#"  # goes on, or begins
            yield Text(name, token.start[0], token.string.removeprefix(lead).strip(), "comment")
            before = token.start[0]


def rust_texts(path: Path) -> Iterator[Text]:
    """Strings outside of tests, and comments, of a file."""
    source, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
    for found in _RUST_COMMENT.finditer(source):
        words = " ".join(re.sub(r"^[ \t]*//[/!]?", "", found[0], flags=re.M).split())
        yield Text(name, source.count("\n", 0, found.start()) + 1, words, "comment")
    if path.stem.endswith("tests"):
        return
    code = source.partition("#[cfg(test)]\nmod ")[0]
    code = re.sub(r"^[ \t]*//.*$", "", code, flags=re.M)
    for found in _RUST_STRING.finditer(code):
        words = " ".join(re.sub(r"\\\n\s*", "", found[1]).split())
        yield Text(name, code.count("\n", 0, found.start()) + 1, words, "string")


def opening(text: Text) -> str:
    """First words of a text that leans on a noun elsewhere, or nothing."""
    found = _OPENINGS.match(text.words)
    if found is None or " " not in text.words:
        return ""
    word = found[0].split()[0]
    heading = not text.words.endswith(".")  # such as "What would help"
    return "" if text.kind == "string" and (word == "Its" or (word != "Of" and heading)) else word


def phrase(text: Text) -> str:
    """A phrase of the text that has a better one, or nothing."""
    found = _PHRASES.search(text.words)
    return found[0].strip() if found else ""


def counts(all_texts: Iterable[Text], folders: Iterable[str]) -> dict[str, int]:
    """Texts with an opening, and comments with a phrase, for each folder and for the others."""
    found = collections.Counter[str]()
    for text in all_texts:
        if opening(text) or (text.kind == "comment" and phrase(text)):
            found[text.folder if text.folder in folders else OTHERS] += 1
    return dict(sorted(found.items()))


def main() -> int:
    """The command line."""
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    if "--renew" in sys.argv[1:]:
        old: dict[str, int] = yaml.safe_load(LIMITS.read_text(encoding="utf-8"))
        now = counts(texts(), old)
        new = {folder: min(limit, now.get(folder, 0)) for folder, limit in old.items()}
        LIMITS.write_text(yaml.safe_dump(new), encoding="utf-8")
        return 0
    for text in texts():
        word = opening(text) or (text.kind == "comment" and phrase(text))
        if word and (not names or text.path.startswith(tuple(names))):
            print(f"{text.path}:{text.line}: {word}: {text.words[:160]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
