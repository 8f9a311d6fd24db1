"""tools/numbers_of_documents.py [--list]: runs the commands that documents name for tables.

A table of results has a mark above it, which is a comment of one line:

    <!-- rerun: COMMAND -->                        the command prints or compares these numbers
    <!-- measured: DATE, commit HASH, MACHINE -->  a rerun takes too long, or another machine
    <!-- given: SOURCE -->                         definitions, or numbers of other publications

A mark right below the title of a page is for all tables of the page that have none of their own.
This program runs each COMMAND of all documents once, and ends with 1 if one of them fails.
`tests/python/test_docs_tables.py` finds tables without a mark."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import prose

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"<!-- (rerun|measured|given): (.+) -->$")
MEASURED = re.compile(r"\d{4}-\d\d-\d\d, commit [0-9a-f]{7,40}, \S.*")
_RULE = re.compile(r"\s*\|[-| :]+\|\s*$")
_GENERATED = re.compile(r"<!-- (?:keys|fields): [^>]*-->$")
"""Tables of names, types and defaults, which a test of their own compares with the code."""
_END = re.compile(r"<!-- (\S+) end -->")
"""The last line of a part that a program writes between two comments."""
_CODE_OR_LINK = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)")
_RESULT = re.compile(
    r"\d[\d,]*\.\d+|\d ?%|\d+x\b|\d,\d{3}"
    r"|\d (?:us|ms|ns|s|GB|MB|kB|TB|GiB|MiB|B|[TGM]FLOP\S*|M|k|K)\b"
    r"|^\s*[+-]?\d+\s*$"
)
"""A cell with decimals, a percentage, a factor, a unit, or nothing else than a number."""


@dataclass(frozen=True)
class Table:
    """A table of a document that holds results, and what its mark says."""

    document: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def tables() -> Iterator[Table]:
    """All tables in which at least one cell of four is a result."""
    for document in prose.documents():
        lines = _without_code(document.read_text(encoding="utf-8").split("\n"))
        page = next(filter(None, (MARK.match(line) for line in lines[:4])), None)
        for at, line in enumerate(lines[:-1]):
            if line.lstrip().startswith("|") and _RULE.match(lines[at + 1]):
                marks = list(_marks(lines, at))
                if _GENERATED.match(" ".join(marks)) or not _has_results(lines[at + 2 :]):
                    continue
                mark = next(filter(None, map(MARK.match, marks)), page)
                yield Table(document, at + 1, mark[1] if mark else "", mark[2] if mark else "")


def _without_code(lines: list[str]) -> list[str]:
    """The lines, with nothing in place of fenced code."""
    found, inside = [], False
    for line in lines:
        fence = line.lstrip().startswith("```")
        found.append("" if inside or fence else line)
        inside ^= fence
    return found


def _marks(lines: list[str], at: int) -> Iterator[str]:
    """Comments right above line `at`, or above the generated part that it is in, the nearest one
    first."""
    ends = (i for i in range(at, len(lines)) if _END.match(lines[i]))
    end = next((_END.match(lines[i]) for i in ends), None)
    if end and (start := f"<!-- {end[1]} -->") in lines[:at]:
        at = lines.index(start)
    for line in reversed(lines[:at]):
        if line.startswith("<!--"):
            yield line
        elif line.strip():
            return


def _has_results(lines: list[str]) -> bool:
    """Whether a quarter of the cells in the rows that begin here are results."""
    cells: list[str] = []
    for line in lines:
        if not line.lstrip().startswith("|"):
            break
        cells += _CODE_OR_LINK.sub("", line.strip().strip("|")).split("|")
    return bool(cells) and 4 * sum(map(bool, map(_RESULT.search, cells))) >= len(cells)


def commands() -> list[str]:
    """Each command that a table names, once, in order of documents."""
    return list(dict.fromkeys(each.text for each in tables() if each.kind == "rerun"))


def words(command: str) -> list[str]:
    """The command with the Python of this process, and pytest in it."""
    first, *rest = shlex.split(command)
    if first == "pytest":
        return [sys.executable, "-m", "pytest", "--quiet", *rest]
    return [sys.executable if first == "python" else first, *rest]


def main() -> int:
    """Runs the commands one after the other, and lists those that failed."""
    if "--list" in sys.argv[1:]:
        print(*commands(), sep="\n")
        return 0
    failed = []
    for command in commands():
        print(f"== {command}", flush=True)
        environment = {**os.environ, "OPENBLAS_CORETYPE": "Haswell"}
        if subprocess.run(words(command), cwd=ROOT, env=environment, check=False).returncode:
            failed.append(command)
    print(f"numbers: {len(commands())} commands, {len(failed)} failed", *failed, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
