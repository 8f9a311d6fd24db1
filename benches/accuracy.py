"""Writes the tables of docs/reference/accuracy.md anew, a study each, between the marks that bear its
name."""

from __future__ import annotations

import re
from pathlib import Path

from armillary.studies import BACKENDS, Row, study

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
MARKS = re.compile(r"(<!-- ([\w-]+) -->\n).*?(<!-- \2 end -->)", re.DOTALL)
GOALS = {"<": "below ", ">": "above ", "=": ""}


def main() -> None:
    """Replaces what stands between the marks."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKS.sub(lambda found: found[1] + _table(found[2]) + "\n" + found[3], text), encoding="utf-8")


def _table(name: str) -> str:
    lines = [_line(row) for row in study(name).rows(BACKENDS)]
    return "\n".join(["| what | should be | is | of which |", "| --- | --- | --- | --- |", *lines])


def _line(row: Row) -> str:
    goal = "" if row.paper is None else f"{GOALS[row.relation]}{row.paper:g} {row.unit}"
    ours = f"{row.ours:.1f} {row.unit}" if row.unit else f"{row.ours:.2f}"
    return f"| {row.setup} | {goal} | {ours} | {row.why} |"


if __name__ == "__main__":
    main()
