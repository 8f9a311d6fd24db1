"""tools/old_words.py [--check]: writes docs/reference/old-words.md from the tables of old words.

The tables are `armillary.old_words`, `armillary.old_modules`, and the keys that crates declare.
With `--check` it ends with 1 if the page differs, and writes nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import prose

from armillary.errors import flag
from armillary.old_modules import MODULES
from armillary.old_words import NEXT, WORDS, OldWord

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/old-words.md"
_RENAMED = re.compile(r"pub (\w+): (?:(?!\bpub ).)*?\bwas \[([^\]]*)\]", re.DOTALL)
_MOVED = re.compile(r'\("([\w.]+)", "(\w+)", "(\w+)", "(\w+)"\)')
"""The mapping, the old key, the mapping in it, and the key there."""
_MARK = "<!-- given: the tables of old words -->"
DECLARING = ("device", "net-settings", "platform")
"""Crates with keys of platform files."""
_TITLES = {
    "verb": "Options of verbs",
    "verb value": "Values of options of verbs",
    "model": "Options of models",
    "model value": "Values of options of models",
    "key": "Keys of YAML files",
}
_PLACES = {
    "verb": "verb",
    "verb value": "verb",
    "model": "model",
    "model value": "model",
    "key": "file",
}
_INTRODUCTION = f"""\
# Old words

This page lists the words that were replaced: options, their values, keys of files, and modules of
Python. Old words still work. A warning names the new word: on standard error, in the `warnings` of
JSON and of reports, and in Python as a `DeprecationWarning`. Release {NEXT} removes them, unless
the table says otherwise.

`python tools/old_words.py` writes this page from `python/armillary/old_words.py`,
`python/armillary/old_modules.py` and the keys that `crates` declare. A test compares.
"""


def page() -> str:
    """The page."""
    parts = [_INTRODUCTION]
    for kind, title in _TITLES.items():
        rows = [each for each in WORDS if each.kind == kind]
        if rows:
            parts.append(_table(title, _PLACES[kind], map(_row, rows)))
    keys = "Paths leave out what is above a key. `armillary check` warns with the whole path."
    parts.append(f"## Keys of platform files\n\n{keys}\n\n" + _plain(_platform_keys()))
    modules = (
        (f"`armillary.{old}`", f"`{new}`" if new else "(its parts moved)")
        for old, new in MODULES.items()
    )
    moved = "A package that moved took its modules with it."
    parts.append(f"## Modules of Python\n\n{moved}\n\n" + _plain(modules))
    return prose.filled("\n".join(parts))


def _table(title: str, place: str, rows: Iterator[tuple[str, ...]]) -> str:
    names = f"| {place} | old word | new word | until |\n| --- | --- | --- | --- |\n"
    return f"## {title}\n\n{_MARK}\n{names}" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _plain(rows: Iterator[tuple[str, str]]) -> str:
    head = f"{_MARK}\n| old word | new word |\n| --- | --- |\n"
    return head + "".join(f"| {old} | {new} |\n" for old, new in rows)


def _row(word: OldWord) -> tuple[str, str, str, str]:
    """A row of a table."""
    old, new = (_spelled(word, each) for each in (word.old, word.new))
    more = f"; {word.help}" if word.help else ""
    return ", ".join(word.places), f"`{old}`", f"`{new}`{more}" if new else "no effect", word.until


def _spelled(word: OldWord, name: str) -> str:
    """A word as users write it."""
    if not name or word.kind in ("verb", "key"):
        return name
    if word.option:
        return f"{word.option if word.kind == 'verb value' else flag(word.option)} {name}"
    option, _, key = name.partition(".")
    return f"{flag(option)} {key}=VALUE" if key else flag(option)


def _platform_keys() -> Iterator[tuple[str, str]]:
    """Old and new names of keys of platform files, as their declarations have them."""
    found = set[tuple[str, str]]()
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        if path.relative_to(ROOT).parts[1] in DECLARING and "tests" not in path.stem:
            for new, old in _RENAMED.findall(path.read_text(encoding="utf-8")):
                found |= {(f"`{each}`", f"`{new}`") for each in re.findall(r'"(\w+)"', old)}
    moved = ROOT / "crates/platform/src/config/native/moved.rs"
    for _, old, mapping, new in _MOVED.findall(moved.read_text(encoding="utf-8")):
        found.add((f"`{old}`", f"`{mapping}.{new}`"))
    yield from sorted(found)


def main(arguments: list[str]) -> int:
    """Writes the page, or compares it."""
    text = page()
    if "--check" in arguments:
        return int(text != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
