"""Results of a training run as a page.

Here: what is shown. Not here: the run (`run/loop.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from armillary.report import roofline
from armillary.report.page import Fact, Page, Section, Table
from armillary.units import counted

_COLUMNS = {
    "loss": ("Loss", "{:.4f}"),
    "ne": ("NE", "{:.4f}"),
    "auc": ("AUC", "{:.4f}"),
    "calibration": ("Calibration", "{:.3f}"),
}


def page(found: Mapping[str, Any]) -> Page:
    """The speed of a run, and the scores of each evaluation with the best possible ones; `found` is
    the result that `armillary train --json` writes."""
    settings = found["settings"]
    heads = ("After samples", *(head for head, _ in _COLUMNS.values()))
    rows = [(f"{each['trained']:,}", *_scores(each)) for each in found["evaluations"]]
    if found["bound"] is not None:
        rows.append(("best possible", *_scores(found["bound"])))
    return Page(
        title=f"{settings['model']} on {counted(settings['ranks'], 'process')}: "
        f"{counted(found['samples'], 'sample')} in {found['seconds']:,.1f} s, "
        f"{found['samples_per_second']:,.0f} samples/s",
        facts=list(_facts(found)),
        warnings=found["warnings"],
        sections=[Section("Scores", [Table("Scores", heads, rows)])],
    )


def _facts(found: Mapping[str, Any]) -> Iterator[Fact]:
    if found["roofline"] is not None:
        yield Fact(found["roofline"]["platform"], roofline.line(found["roofline"]))
    if found["cache"] is not None:
        yield Fact("Caches", _cache(found["cache"]))
    if found["checkpoints"] is not None:
        yield Fact("Checkpoints", _checkpoints(found["checkpoints"]))
    trains = found["tensor_trains"]
    if trains:
        each = ", ".join(
            f"{name} {ratio:,.{1 if ratio < 2 else 0}f} times" for name, ratio in trains.items()
        )
        yield Fact("Tables made smaller", each)


def _cache(found: Mapping[str, Any]) -> str:
    return (
        f"{counted(found['cached_rows'], 'row')} in "
        f"{found['memory_bytes'] / 2**20:,.0f} MiB: {found['hit_rate']:.1%} of lookups hit, "
        f"{counted(found['evictions'], 'eviction')}, "
        f"{counted(found['rows_written'], 'row')} written back, "
        f"{found['stall_seconds']:.1f} s waited"
    )


def _checkpoints(found: Mapping[str, Any]) -> str:
    resumed = "" if found["resumed"] is None else f"resumed from step {found['resumed']:,}; "
    return (
        f"{resumed}{found['count']:,}, {found['whole']:,} with all rows, "
        f"{found['bytes'] / 10**6:,.1f} MB, {found['stall_seconds']:.2f} s waited"
    )


def _scores(scores: Mapping[str, Any]) -> list[str]:
    return [
        "n/a" if scores[name] is None else form.format(scores[name])
        for name, (_, form) in _COLUMNS.items()
    ]
