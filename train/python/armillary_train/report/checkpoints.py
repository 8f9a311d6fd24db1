"""The checkpoints of a folder as a page.

Here: what is shown. Not here: what a checkpoint is (`checkpoint/`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armillary.report.page import Page, Section, Table
from armillary.units import counted

_MB = 10**6
_HEADS = ("Step", "Rows", "Weights", "Samples", "Ranks", "MB")


def page(found: Mapping[str, Any]) -> Page:
    """A row for each checkpoint, and the size of the last one; `found` is what `armillary
    checkpoint show --json` writes."""
    rows = [
        (
            f"{each['step']:,}",
            "all" if each["base"] is None else f"changed since {each['base']:,}",
            each["precision"] or "every bit",
            f"{each['samples']:,}",
            str(each["ranks"]),
            f"{each['bytes'] / _MB:,.1f}",
        )
        for each in found["checkpoints"]
    ]
    last = found["last"]
    model = "imported" if last["settings"] is None else last["settings"]["model"]
    elements = sum(each["rows"] * each["dim"] for each in last["tables"])
    return Page(
        title=f"Checkpoints in {found['folder']}",
        verdict=f"Step {last['step']:,} of {model}: {counted(len(last['tables']), 'table')}, "
        f"{elements:,} elements",
        lead="All checksums are right." if found["verified"] else "",
        sections=[Section("Checkpoints", [Table("Checkpoints", _HEADS, rows, labels=3)])],
    )
