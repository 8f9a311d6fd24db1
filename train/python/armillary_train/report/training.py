"""Results of a training run: a table for the terminal.

Here: what is shown. Not here: the run (`run/loop.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from armillary.report import roofline
from armillary.units import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = {
    "loss": ("Loss", "{:.4f}"),
    "ne": ("NE", "{:.4f}"),
    "auc": ("AUC", "{:.4f}"),
    "calibration": ("Calibration", "{:.3f}"),
}


def terminal(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The scores of each evaluation, and the best possible ones; `found` is the result that
    `armillary train --json` writes."""
    from rich.table import Table
    from rich.text import Text

    settings = found["settings"]
    ranks = settings["ranks"]
    processes = counted(ranks, "process")
    yield Text(
        f"{settings['model']} on {processes}: {counted(found['samples'], 'sample')} in "
        f"{found['seconds']:,.1f} s, {found['samples_per_second']:,.0f} samples/s"
    )
    if found["roofline"] is not None:
        yield Text(f"{found['roofline']['platform']}: {roofline.line(found['roofline'])}")
    if found["cache"] is not None:
        yield Text(_cache(found["cache"]))
    if found["checkpoints"] is not None:
        yield Text(_checkpoints(found["checkpoints"]))
    trains = found["tensor_trains"]
    if trains:
        each = ", ".join(
            f"{name} {ratio:,.{1 if ratio < 2 else 0}f} times" for name, ratio in trains.items()
        )
        yield Text(f"tables made smaller: {each}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("After samples", justify="right", no_wrap=True)
    for head, _ in _COLUMNS.values():
        table.add_column(head, justify="right", no_wrap=True)
    for each in found["evaluations"]:
        table.add_row(f"{each['trained']:,}", *_scores(each))
    if found["bound"] is not None:
        table.add_row("best possible", *_scores(found["bound"]))
    yield table


def _cache(found: Mapping[str, Any]) -> str:
    return (
        f"caches of {counted(found['cached_rows'], 'row')} in "
        f"{found['memory_bytes'] / 2**20:,.0f} MiB: {found['hit_rate']:.1%} of lookups hit, "
        f"{counted(found['evictions'], 'eviction')}, "
        f"{counted(found['rows_written'], 'row')} written back, "
        f"{found['stall_seconds']:.1f} s waited"
    )


def _checkpoints(found: Mapping[str, Any]) -> str:
    resumed = "" if found["resumed"] is None else f"resumed from step {found['resumed']:,}; "
    return (
        f"{resumed}{counted(found['count'], 'checkpoint')}, {found['whole']:,} with all rows, "
        f"{found['bytes'] / 10**6:,.1f} MB, {found['stall_seconds']:.2f} s waited"
    )


def _scores(scores: Mapping[str, Any]) -> list[str]:
    return [
        "n/a" if scores[name] is None else form.format(scores[name])
        for name, (_, form) in _COLUMNS.items()
    ]
