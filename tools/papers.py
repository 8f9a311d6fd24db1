"""tools/papers.py [--check] [--slow] [WORD...]: the items of the five papers, each with a command.

The data is in `tests/python/data/papers/`, one file for each paper. This program writes
`docs/reference/papers.md` from it. With `--check` it runs the commands instead, in one process and
an empty folder with `examples` and `systems`, and compares what they print. Commands that take more
than a second, and examples in Python, are marked `slow: true` and need `--slow`. Words choose the
items whose text has all of them. It ends with 1 if a command prints something else.

An item has these keys:

    at       section, table or figure
    item     what the paper describes, in our words
    state    works, partly, limit
    run      a command, or a list of them; `pytest` and `cargo test` name a test, which is not run
    shows    a piece of what they print; blanks do not count, `...` is anything between two pieces.
             Where it begins with `error:`, the last command ends with exit code 2
    why      of partly and limit: the reason"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import prose
import yaml

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/python/data/papers"
PAGE = ROOT / "docs/reference/papers.md"
STATES = ("works", "partly", "limit")
TESTS = ("pytest", "cargo")
_LONGEST = 3000
"""Characters that a failure shows of an output."""
_KEYS = {"at", "item", "state", "run", "shows", "why", "slow"}
_INTRODUCTION = """\
# The papers, item by item
<!-- rerun: pytest lab/numbers/test_slow_papers.py -->

This page lists what the five papers describe, and a command that shows each item here. What works
in part, or not at all, has its reason. [Studies](studies.md) has the numbers of their tables and
figures.

- *works*: the command prints what the last column says.
- *partly*: the command shows the part that works. The reason says what is missing.
- *limit*: it is not there, for the reason given.

Commands run in the root of the repository. Their input is in `examples/papers`. The tests run those
that take less than a second, and `make numbers` runs the others. `python tools/papers.py` writes
this page from `tests/python/data/papers`, and `python tools/papers.py --check` runs the commands.
"""


@dataclass(frozen=True)
class Item:
    """One thing that a paper describes."""

    at: str
    item: str
    state: str
    run: tuple[str, ...]
    shows: str
    why: str
    slow: bool

    @property
    def is_test(self) -> bool:
        """Whether the commands name a test, which runs with the others."""
        return any(command.split()[0] in TESTS for command in self.run)


@dataclass(frozen=True)
class Paper:
    """A paper and its items, in its order."""

    title: str
    source: str
    items: tuple[Item, ...]


def papers() -> list[Paper]:
    """All papers, in the order of their files."""
    return [_paper(path) for path in sorted(DATA.glob("*.yml"))]


def _paper(path: Path) -> Paper:
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    items = tuple(_item(each, path.name) for each in read["items"])
    return Paper(read["paper"], read["source"], items)


def _item(read: Mapping[str, object], file: str) -> Item:
    assert set(read) <= _KEYS, f"{file}: {read}: unknown keys {set(read) - _KEYS}"
    run = read.get("run", [])
    commands = [run] if isinstance(run, str) else run
    assert isinstance(commands, list), f"{file}: {read}"
    text = {key: str(read.get(key, "")).strip() for key in ("at", "item", "state", "shows", "why")}
    return Item(run=tuple(map(str, commands)), slow=bool(read.get("slow", False)), **text)


def page(all_papers: Sequence[Paper]) -> str:
    """The page of the documentation."""
    rows = [_counts(paper.title, paper.items) for paper in all_papers]
    rows.append(_counts("all", [item for paper in all_papers for item in paper.items]))
    head = ["| paper | items | works | partly | limit |", "| --- | --- | --- | --- | --- |"]
    parts = [_INTRODUCTION, "\n".join([*head, *rows]) + "\n"]
    return prose.filled("\n".join([*parts, *map(_section, all_papers)]))


def _counts(title: str, items: Sequence[Item]) -> str:
    counts = Counter(item.state for item in items)
    numbers = " | ".join(str(counts[state]) for state in STATES)
    return f"| {title} | {len(items)} | {numbers} |"


def _section(paper: Paper) -> str:
    head = ["| section | item | state | command, and what it shows |", "| --- | --- | --- | --- |"]
    rows = [
        f"| {_cell(item.at)} | {_cell(item.item)} | {item.state} | {_evidence(item)} |"
        for item in paper.items
    ]
    return "\n".join([f"## {paper.title}", "", f"{paper.source}", "", *head, *rows]) + "\n"


def _evidence(item: Item) -> str:
    shown = " then ".join(_code(command) for command in item.run)
    if shown and item.shows:
        shown += f" shows {_code(item.shows)}"
    return " ".join(part for part in (f"{shown}." if shown else "", _cell(item.why)) if part)


def _code(text: str) -> str:
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def failures(items: Sequence[Item]) -> Iterator[str]:
    """Wrong output of the commands, item by item. Equal commands run once."""
    for item in items:
        code, text = _run(item.run)
        pieces = (re.escape(" ".join(each.split())) for each in item.shows.split("..."))
        found = re.search(".*".join(pieces), " ".join(text.split()))
        if code != (2 if item.shows.startswith("error:") else 0) or not found:
            head = "\n  ".join([f"{item.at}, {item.item}", *item.run])
            yield f"{head}\n  exit code {code}, wanted {item.shows!r}:\n{text[:_LONGEST]}"


@functools.cache
def _run(commands: tuple[str, ...]) -> tuple[int, str]:
    """The last exit code, and all that the commands print, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in ("examples", "systems", "models"):
            Path(name).symlink_to(ROOT / name)
        code, text = 0, ""
        for command in commands:
            code, printed = _captured(shlex.split(command))
            text += printed
            if code:
                break
    return code, text


def _captured(arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a command of Armillary or of a script, in this process."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before = sys.argv
    sys.argv = list(arguments[arguments[0] == "python" :])
    wide = mock.patch.dict(os.environ, COLUMNS="160")
    try:
        with wide, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = _called(arguments)
    finally:
        sys.argv = before
    printed.seek(0)
    return code, printed.read()


def _called(arguments: Sequence[str]) -> int:
    from armillary.cli import main

    try:
        if arguments[0] == "python":
            runpy.run_path(arguments[1], run_name="__main__")
            return 0
        assert arguments[0] == "armillary", arguments
        return main()
    except SystemExit as end:
        return int(end.code or 0)


def chosen(all_papers: Sequence[Paper], words: Sequence[str], slow: bool) -> list[Item]:
    """Items with commands of ours, and with all of the words."""
    items = [item for paper in all_papers for item in paper.items if item.run and not item.is_test]
    return [
        item
        for item in items
        if (slow or not item.slow) and all(word in f"{item}" for word in words)
    ]


def main() -> int:
    """Writes the page, or runs the commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="run the commands")
    parser.add_argument("--slow", action="store_true", help="those above a second, too")
    parser.add_argument("words", nargs="*", help="of the items to run")
    options = parser.parse_args()
    if not options.check:
        PAGE.write_text(page(papers()), encoding="utf-8")
        return 0
    found = list(failures(chosen(papers(), options.words, options.slow)))
    sys.stdout.write("".join(f"{each}\n\n" for each in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
