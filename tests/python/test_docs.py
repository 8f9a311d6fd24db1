"""Documents tell the truth: every command and example runs, everything the reading order names
exists.

A fenced `console`, `bash` or `python` block runs in a fresh directory in which `examples` and
`systems` are at hand. In `console` blocks the lines after `$ ` are run and what follows is compared
with what they print, `...` standing for anything. `make` lines are not run here (CI runs the
targets) but must name a target. A block after the comment `<!-- no-run -->` is left alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT

DOCUMENTS = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
    if path.is_file()
]
FENCE = re.compile(
    r"^(?P<mark><!-- no-run -->\s*\n+)?```(?P<kind>console|bash|python)\n(?P<text>.*?)^```",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    document: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks() -> list[Block]:
    found = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start("text"))
            if not match["mark"]:
                found.append(Block(document, line, match["kind"], match["text"]))
    return found


def steps(block: Block) -> list[tuple[str, str]]:
    """Commands of a block, each with what it should print (empty: not said)."""
    if block.kind != "console":
        return [(block.text, "")]
    joined = block.text.replace("\\\n", " ")
    parts = re.split(r"^\$ (.*)\n?", joined, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def runnable(command: str) -> str:
    """The command without `make` lines, whose targets are checked instead."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = []
    for line in command.splitlines():
        if target := re.match(r"\s*make(?:\s+([a-z-]+))?", line):
            assert re.search(rf"^{target[1] or 'help'}:", makefile, re.M), (
                f"no target {target[1]} in the Makefile"
            )
        else:
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_examples_run(block: Block, tmp_path: Path) -> None:
    for name in ("examples", "systems"):
        (tmp_path / name).symlink_to(ROOT / name)
    for command, expected in steps(block):
        code = command if block.kind == "python" else runnable(command)
        program = (
            [sys.executable, "-c", code]
            if block.kind == "python"
            else ["bash", "-euo", "pipefail", "-c", code]
        )
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "100",
        }
        run = subprocess.run(
            program,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        if expected.strip():
            pattern = ".*".join(re.escape(piece) for piece in re.split(r"\.\.\.", expected.strip()))
            assert re.fullmatch(pattern, run.stdout.strip(), re.S), f"printed:\n{run.stdout}"


def reading_order() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = re.search(r"^#+ .*reading order.*?\n(.*?)(?=^#|\Z)", text, re.M | re.S | re.I)
    assert section, "ARCHITECTURE.md has no reading order"
    return [line for line in section[1].splitlines() if "`" in line]


def test_reading_order_exists() -> None:
    files = 0
    for line in reading_order():
        quoted = re.findall(r"`([^`]+)`", line)
        paths = [ROOT / name for name in quoted if "/" in name]
        files += len(paths)
        for path in paths:
            assert path.exists(), f"{path} is in the reading order but not in the tree"
        code = "\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
        for name in (name for name in quoted if "/" not in name):
            assert re.search(rf"\b{re.escape(name.split('(')[0].split('::')[-1])}\b", code), (
                f"{name} is not in {paths}"
            )
    assert files >= 7
