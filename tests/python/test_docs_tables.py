"""Every table of results in the documents says where its numbers come from.

`tools/numbers_of_documents.py` has the marks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numbers_of_documents as numbers
import prose
import pytest
from conftest import ROOT


def test_a_table_of_results_has_a_mark() -> None:
    """Rerun, measured or given. A measurement has its date, commit and machine."""
    tables = [*numbers.tables()]
    assert len(tables) > 100
    assert [str(table) for table in tables if not table.kind] == []
    measured = [table for table in tables if table.kind == "measured"]
    assert [str(each) for each in measured if not numbers.MEASURED.fullmatch(each.text)] == []


@pytest.mark.parametrize("command", numbers.commands())
def test_a_command_names_files_that_exist(command: str) -> None:
    first, *rest = shlex.split(command)
    assert first in {"pytest", "python", "cargo"}
    files = [each.partition("::")[0] for each in rest if re.search(r"\.py\b", each)]
    if rest[:1] == ["-m"]:  # A program of the laboratory.
        files.append(f"lab/python/{rest[1].replace('.', '/')}.py")
    assert files or first == "cargo"
    assert all((ROOT / each).is_file() for each in files), command


def test_the_marks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table without results needs no mark, one with results has the nearest mark."""
    page = tmp_path / "page.md"
    rows = "| a | b |\n| --- | --- |\n| {} | 1.5 ms |\n\n"
    page.write_text(
        "# Title\n<!-- given: the standard -->\n\n"
        + rows.format("x")
        + "<!-- rerun: pytest tests/x.py -->\n\n"
        + rows.format("y")
        + "```text\n"
        + rows.format("code")
        + "```\n"
        + "| a | b |\n| --- | --- |\n| `1.5` | word |\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(prose, "documents", lambda: [page])
    assert [(each.line, each.kind) for each in numbers.tables()] == [(4, "given"), (10, "rerun")]
    assert numbers.commands() == ["pytest tests/x.py"]
