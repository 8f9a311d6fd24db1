"""Traces of steps for tests: one-forward-one-backward pipelines whose operations have given
durations, by a simulation of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from armillary.explain.step_trace import StepTrace, of_columns

Row = dict[str, Any]
Duration = Callable[[str, int, int, int], float]
"""Seconds of an operation by kind, data-parallel rank, stage and number."""


def schedule(stages: int, stage: int, batches: int) -> list[tuple[str, int]]:
    """Passes of a stage in their order: warm-up, one forward and one backward, cool-down."""
    warm = min(stages - 1 - stage, batches)
    order = [("forward", n) for n in range(warm)]
    for n in range(batches - warm):
        order += [("forward", warm + n), ("backward", n)]
    return [*order, *(("backward", n) for n in range(batches - warm, batches))]


def step(dp: int, stages: int, batches: int, took: Duration, number: int = 0) -> list[Row]:
    """The operations of a step. Each begins as soon as it can."""
    orders = [schedule(stages, stage, batches) for stage in range(stages)]

    @cache
    def gathered(stage: int) -> float:
        return took("params-all-gather", -1, stage, 0)

    @cache
    def passed(rank: int, stage: int, way: str, n: int) -> tuple[float, float]:
        """Start and end of a pass."""
        at = orders[stage].index((way, n))
        before = passed(rank, stage, *orders[stage][at - 1])[1] if at else gathered(stage)
        first = stage == (0 if way == "forward" else stages - 1)
        start = before if first else max(before, moved(rank, stage, way, n)[2])
        return start, start + took(f"{way}-compute", rank, stage, n)

    @cache
    def moved(rank: int, stage: int, way: str, n: int) -> tuple[float, float, float]:
        """Starts of the send and the receive of what a pass on `stage` gets, and their end."""
        source = stage - 1 if way == "forward" else stage + 1
        earlier = moved(rank, stage, way, n - 1)[2] if n else 0.0
        sent = max(passed(rank, source, way, n)[1], earlier)
        received = max(gathered(stage), earlier)
        return sent, received, max(sent, received) + took(f"{way}-message", rank, stage, n)

    rows: list[Row] = []

    def row(kind: str, rank: int, stage: int, n: int, start: float, end: float) -> None:
        chunk = 0 if "message" not in kind and "-send" not in kind and "-recv" not in kind else -1
        names = {"dp_rank": rank, "stage": stage, "rank": stage * dp + rank, "step": number}
        times = {"start_ts": start, "duration": end - start}
        rows.append({**names, "optype": kind, **times, "seq_id": n, "mc": chunk, "mb_id": n})

    for stage in range(stages):
        ready = [passed(rank, stage, *orders[stage][-1])[1] for rank in range(dp)]
        scattered = max(ready) + took("grads-reduce-scatter", -1, stage, 0)
        for rank in range(dp):
            row("params-all-gather", rank, stage, 0, 0.0, gathered(stage))
            for way, n in orders[stage]:
                row(f"{way}-compute", rank, stage, n, *passed(rank, stage, way, n))
                if stage != (0 if way == "forward" else stages - 1):
                    sent, received, end = moved(rank, stage, way, n)
                    row(f"{way}-recv", rank, stage, n, received, end)
                    source = stage - 1 if way == "forward" else stage + 1
                    row(f"{way}-send", rank, source, n, sent, end)
            row("grads-reduce-scatter", rank, stage, 0, ready[rank], scattered)
            end = scattered + took("optimizer", rank, stage, 0)
            row("optimizer", rank, stage, 0, scattered, end)
    return rows


def write(rows: list[Row], path: Path) -> Path:
    """The rows as Parquet."""
    import polars as pl

    pl.DataFrame(rows).write_parquet(path)
    return path


def trace_of(rows: list[Row]) -> StepTrace:
    """The rows as a trace, without a file."""
    names = dict.fromkeys(name for row in rows for name in row)
    return of_columns({name: [row[name] for row in rows] for name in names}, "t.parquet")
