"""Writes the tables of docs/accuracy.md anew: predicted collectives against measured ones (study V1)."""

from __future__ import annotations

import re
from pathlib import Path

from armillary.studies import v1

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"


def main() -> None:
    """Replaces what stands between the marks."""
    lines = ["| what (sweeps) | should be below | error | worst sweep |", "| --- | --- | --- | --- |"]
    for row in v1.rows(("analytical",)):
        most = "" if row.paper is None else f"{row.paper:g} %"
        lines.append(f"| {row.setup} | {most} | {row.ours:.1f} % | {row.why.removeprefix('worst: ')} |")
    table = "\n".join(lines)
    text = PAGE.read_text(encoding="utf-8")
    made = re.sub(r"(<!-- v1 -->\n).*(\n<!-- end -->)", lambda m: m[1] + table + m[2], text, flags=re.S)
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
