"""Documents tell the truth: every command and example runs, everything the reading order names
exists.

A fenced `console`, `bash` or `python` block runs in a fresh directory in which `examples` and
`systems` are at hand. In `console` blocks the lines after `$ ` are run and what follows is compared
with what they print, `...` standing for anything; one that begins with `error:` is compared with
standard error, and the exit code must be 2. `make` lines are not run here (CI runs the targets) but
must name a target. A block after the comment `<!-- no-run -->` or `<!-- no-run: REASON -->` is left
alone. All blocks of a document that begins with `<!-- one directory -->` run one after the other in
one directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_copies import Copies
from conftest import ROOT

DOCUMENTS = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
    if path.is_file()
]
FENCE = re.compile(
    r"^(?P<mark><!-- no-run(?:: [^>]+)? -->\s*\n+)?"
    r"```(?P<kind>console|bash|python)\n(?P<text>.*?)^```",
    re.M | re.S,
)

TORCH = re.compile(r"\btorch\b|armillary_train|armillary (train|bench|capture|checkpoint)\b")
"""Commands that load PyTorch: the process whose copies run them has loaded it before."""


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


def together() -> list[list[Block]]:
    """Blocks that share a directory."""
    shared: dict[Path | Block, list[Block]] = {}
    for block in blocks():
        whole = block.document.read_text(encoding="utf-8").startswith("<!-- one directory -->")
        shared.setdefault(block.document if whole else block, []).append(block)
    return list(shared.values())


@pytest.mark.parametrize("chain", together(), ids=lambda chain: str(chain[0]))
def test_examples_run(chain: list[Block], request: pytest.FixtureRequest, tmp_path: Path) -> None:
    for name in ("examples", "systems"):
        (tmp_path / name).symlink_to(ROOT / name)
    for block in chain:
        loaded = "trainings" if TORCH.search(block.text) else "commands"
        check(block, request.getfixturevalue(loaded), tmp_path)


def check(block: Block, commands: Copies, folder: Path) -> None:
    """Runs a block in a directory and compares what it prints. The program `armillary` and those in
    Python are copies of one process."""
    search = f"{commands.program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": search, "COLUMNS": "100"}
    for command, expected in steps(block):
        if block.kind == "python":
            run = commands.run(["-c", command], folder, environment)
        else:
            run = shell(runnable(command), folder, environment)
        refused = expected.startswith("error:")
        assert run.returncode == (2 if refused else 0), f"{block}\n{run.stdout}{run.stderr}"
        printed = run.stderr if refused else run.stdout
        if expected.strip():
            pattern = ".*".join(re.escape(piece) for piece in re.split(r"\.\.\.", expected.strip()))
            assert re.fullmatch(pattern, printed.strip(), re.S), (
                f"{block}: {command}\nprinted:\n{printed}"
            )


def shell(code: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def reading_order() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = re.search(r"^#+ .*reading order.*?\n(.*?)(?=^#|\Z)", text, re.M | re.S | re.I)
    assert section, "ARCHITECTURE.md has no reading order"
    return [row for row in section[1].split("\n") if "`" in row]


def test_reading_order_exists() -> None:
    files = 0
    for row in reading_order():
        quoted = re.findall(r"`([^`]+)`", row)
        paths = [ROOT / name for name in quoted if "/" in name]
        near = [name for name in quoted if re.fullmatch(r"\w+\.(rs|py)", name)]
        paths += [paths[0].parent / name for name in near]
        files += len(paths)
        for path in paths:
            assert path.exists(), f"{path} is in the reading order but not in the tree"
        code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        for name in (name for name in quoted if "/" not in name and name not in near):
            assert re.search(rf"\b{re.escape(name)}\b", code), f"{name} is not in {paths}"
    assert files >= 14
