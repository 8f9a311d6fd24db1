"""The checkpoints of a folder: a table for the terminal.

Here: what is shown. Not here: what a checkpoint is (`checkpoint/`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from armillary.units import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

_MB = 10**6


def terminal(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """One line for each checkpoint, and the tables of the last one; `found` is what `armillary
    checkpoint show --json` writes."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("Step", "Samples", "Ranks", "MB"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("Rows")
    table.add_column("Weights")
    for each in found["checkpoints"]:
        rows = "all" if each["base"] is None else f"changed since {each['base']:,}"
        table.add_row(
            f"{each['step']:,}",
            f"{each['samples']:,}",
            str(each["ranks"]),
            f"{each['bytes'] / _MB:,.1f}",
            rows,
            each["precision"] or "every bit",
        )
    yield table
    last = found["last"]
    model = "imported" if last["settings"] is None else last["settings"]["model"]
    elements = sum(each["rows"] * each["dim"] for each in last["tables"])
    yield Text(f"step {last['step']:,} of {model}: {counted(len(last['tables']), 'table')}, "
               f"{elements:,} elements")  # fmt: skip
    if found["verified"]:
        yield Text("all checksums are right")
