"""Results of micro-benchmarks: tables for the terminal.

Here: what is shown. Not here: the measurements (`bench/run.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from armillary.units import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

_NOISY = 0.1
"""Part of the median in which the middle half of the repeats lies, from which a note says so."""


def terminal(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Every measurement; `found` is what `armillary bench --json` writes."""
    from rich.text import Text

    machine, ranks = found["machine"], found["processes"]
    yield Text(
        f"{machine['processor']}, {machine['cores']} cores: {ranks} "
        f"process{'es' if ranks > 1 else ''} of {found['threads']} "
        f"thread{'s' if found['threads'] > 1 else ''} at the same time. Medians of "
        f"{found['repeats']} repeats."
    )
    yield from _table(
        "Matrix products",
        ("Product", "Batch", "m", "n", "k", "us", "GFLOP/s"),
        [
            (r["name"], r["batch"], r["m"], r["n"], r["k"], r["us"], r["gflops"])
            for r in found["gemms"]
        ],
    )
    yield from _table(
        "Memory",
        ("Operation", "MB", "us", "GB/s"),
        [(r["op"], r["bytes"] / 1e6, r["us"], r["GBps"]) for r in found["streams"]],
    )
    yield from _table(
        "Embedding tables",
        ("Operation", "Tables", "Width", "Pooling", "Lookups", "us", "GB/s"),
        [
            (r["op"], r["tables"], r["dim"], r["pooling"], r["lookups"], r["us"], r["GBps"])
            for r in found["embeddings"]
        ],
    )
    yield from _table(
        "MLPs, forward and backward, and their optimizer",
        ("MLP", "us"),
        [(r.get("name") or r["op"], r["us"]) for r in found["mlps"]],
    )
    yield from _table(
        "Copies",
        ("Direction", "Pinned", "MB", "us", "GB/s"),
        [
            (r["direction"], str(r["pinned"]), r["bytes"] / 1e6, r["us"], r["GBps"])
            for r in found["copies"]
        ],
    )
    yield from _table(
        "Other parts of a step", ("Part", "us"), [(r["name"], r["us"]) for r in found["parts"]]
    )
    yield from _collectives(found["collectives"])
    rows = [r for key in ("gemms", "streams", "embeddings", "mlps", "parts") for r in found[key]]
    noisy = sum(r["spread"] > _NOISY for r in (*rows, *found["collectives"]))
    if noisy:
        yield Text(
            f"\nnote: {noisy} of {len(rows) + len(found['collectives'])} measurements vary by more "
            f"than {_NOISY:.0%}: other work is using this machine"
        )


def _table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]
) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(_text, row))
    yield Text(f"\n{title}")
    yield table


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _collectives(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Tables in nccl-tests' columns, one for each collective."""
    for key in dict.fromkeys((r["transport"], r["name"]) for r in rows):
        some = [r for r in rows if (r["transport"], r["name"]) == key]
        yield from _table(
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
