"""The papers, item by item: the page is that of the data, and commands print what it says.

`tools/papers.py` has the format. Commands that take more than a second run in
`lab/numbers/test_slow_papers.py`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import papers
import pytest
from conftest import ROOT

ALL = papers.papers()
ITEMS = [item for paper in ALL for item in paper.items]


def test_the_page_is_that_of_the_data() -> None:
    """Otherwise run `python tools/papers.py`."""
    assert papers.PAGE.read_text(encoding="utf-8") == papers.page(ALL)


def test_no_item_is_lost() -> None:
    """The review of November 2026 counted them."""
    assert [len(paper.items) for paper in ALL] == [61, 69, 61, 41, 62]


@pytest.mark.parametrize("paper", ALL, ids=lambda paper: paper.title)
def test_each_item_has_a_command_or_a_reason(paper: papers.Paper) -> None:
    for item in paper.items:
        assert item.at
        assert item.item
        assert item.state in papers.STATES
        assert bool(item.why) == (item.state != "works"), item
        assert item.run or item.state == "limit", item
        assert bool(item.shows) == bool(item.run and not item.is_test), item


def names_of_tests() -> list[str]:
    return sorted({each for item in ITEMS if item.is_test for each in item.run})


@pytest.mark.parametrize("command", names_of_tests())
def test_a_named_test_exists(command: str) -> None:
    first, *words = shlex.split(command)
    if first == "pytest":
        file, _, name = words[0].partition("::")
        path = ROOT / file
        assert path.exists()
        assert not name or f"def {name}(" in path.read_text(encoding="utf-8")
    else:
        assert words[:2] == ["test", "-p"]
        crate = ROOT / "crates" / words[2]
        code = "".join(each.read_text(encoding="utf-8") for each in crate.rglob("*.rs"))
        assert re.search(rf"fn \w*{words[3]}\w*\(", code)


def test_every_input_is_used() -> None:
    commands = " ".join(each for item in ITEMS for each in item.run)
    unused = [path for path in (ROOT / "examples/papers").iterdir() if path.name not in commands]
    assert not unused


def test_quick_commands_print_what_the_page_says(tmp_path: Path) -> None:
    """All of them in one process, which handles signals as the command line does."""
    run = subprocess.run(
        [sys.executable, ROOT / "tools/papers.py", "--check"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_wrong_output_is_found() -> None:
    """Both a missing piece and an exit code that is not expected."""
    run = ("armillary platform show paper-w-2d",)
    right, wrong, refused = (
        papers.Item("I", "item", "works", run, shows, "", slow=False)
        for shows in ("512 NPUs ... paper-w-2d", "513 NPUs", "error: 512 NPUs")
    )
    assert not list(papers.failures([right]))
    assert len(list(papers.failures([right, wrong, refused]))) == 2
