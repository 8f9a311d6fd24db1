"""Results of micro-benchmarks as a page.

Here: what is shown. Not here: the measurements (`bench/run.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from armillary.report.page import Page, Section, Table
from armillary.units import counted

_NOISY = 0.1
"""Part of the median in which the middle half of the repeats lies, from which a note says so."""


def page(found: Mapping[str, Any]) -> Page:
    """Every measurement; `found` is what `armillary bench --json` writes."""
    machine, ranks = found["machine"], found["processes"]
    tables = [table for table in _tables(found) if table.rows]
    keys = ("gemms", "streams", "embeddings", "mlps", "parts", "collectives")
    rows = [row for key in keys for row in found[key]]
    noisy = sum(row["spread"] > _NOISY for row in rows)
    said = (
        f"{noisy} of {len(rows)} measurements vary by more than {_NOISY:.0%}: other work is using "
        "this machine"
    )
    return Page(
        title=f"{machine['processor']}, {machine['cores']} cores",
        lead=f"{counted(ranks, 'process')} of {counted(found['threads'], 'thread')} at the same "
        f"time. Medians of {found['repeats']} repeats.",
        warnings=[said] if noisy else [],
        sections=[Section(table.caption, [table]) for table in tables],
    )


def _tables(found: Mapping[str, Any]) -> Iterator[Table]:
    yield _table(
        "Matrix products",
        ("Product", "Batch", "m", "n", "k", "us", "GFLOP/s"),
        [
            (r["name"], r["batch"], r["m"], r["n"], r["k"], r["us"], r["gflops"])
            for r in found["gemms"]
        ],
    )
    yield _table(
        "Memory",
        ("Operation", "MB", "us", "GB/s"),
        [(r["op"], r["bytes"] / 1e6, r["us"], r["GBps"]) for r in found["streams"]],
    )
    yield _table(
        "Embedding tables",
        ("Operation", "Tables", "Width", "Pooling", "Lookups", "us", "GB/s"),
        [
            (r["op"], r["tables"], r["dim"], r["pooling"], r["lookups"], r["us"], r["GBps"])
            for r in found["embeddings"]
        ],
    )
    yield _table(
        "MLPs, forward and backward, and their optimizer",
        ("MLP", "us"),
        [(r.get("name") or r["op"], r["us"]) for r in found["mlps"]],
    )
    yield _table(
        "Copies",
        ("Direction", "Pinned", "MB", "us", "GB/s"),
        [
            (r["direction"], str(r["pinned"]), r["bytes"] / 1e6, r["us"], r["GBps"])
            for r in found["copies"]
        ],
    )
    yield _table(
        "Other parts of a step", ("Part", "us"), [(r["name"], r["us"]) for r in found["parts"]]
    )
    yield from _collectives(found["collectives"])


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    return Table(title, heads, [[_text(value) for value in row] for row in rows])


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _collectives(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Tables in nccl-tests' columns, one for each collective."""
    for key in dict.fromkeys((r["transport"], r["name"]) for r in rows):
        some = [r for r in rows if (r["transport"], r["name"]) == key]
        yield _table(
            f"{key[1]} over {counted(some[0]['ranks'], 'rank')} by {key[0]}",
            ("size", "count", "type", "redop", "root", "time", "algbw", "busbw"),
            [
                (
                    r["size"], r["count"], r["type"], r["redop"], r["root"], r["time"], r["algbw"],
                    r["busbw"],
                )
                for r in some
            ],
        )  # fmt: skip
