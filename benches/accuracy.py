"""Writes the tables of docs/accuracy.md anew: predicted collectives (study V1) and peak memory (V3) against measured
ones."""

from __future__ import annotations

import re
from pathlib import Path

from armillary.studies import v1, v3

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"


def main() -> None:
    """Replaces what stands between the marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, end, table in (("v1", "end", _collectives()), ("v3", "v3 end", _memory())):
        marks = rf"(<!-- {name} -->\n).*(\n<!-- {end} -->)"
        text = re.sub(marks, lambda m, table=table: m[1] + table + m[2], text, flags=re.S)  # type: ignore[misc]
    PAGE.write_text(text, encoding="utf-8")


def _collectives() -> str:
    lines = ["| what (sweeps) | should be below | error | worst sweep |", "| --- | --- | --- | --- |"]
    for row in v1.rows(("analytical",)):
        most = "" if row.paper is None else f"{row.paper:g} %"
        lines.append(f"| {row.setup} | {most} | {row.ours:.1f} % | {row.why.removeprefix('worst: ')} |")
    return "\n".join(lines)


def _memory() -> str:
    lines = ["| what (runs) | should be above | ours | why, worst runs |", "| --- | --- | --- | --- |"]
    for row in v3.rows(()):
        least = "" if row.paper is None else f"{row.paper:g} %"
        lines.append(f"| {row.setup} | {least} | {row.ours:.1f} {row.unit} | {row.why.removeprefix('Worst: ')} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
