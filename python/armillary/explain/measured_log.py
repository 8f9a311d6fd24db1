"""A predicted step against steps that training logs state.

Model: the median of a log's steady steps over the predicted step. Here: the numbers and their page.
Not here: reading logs (`training_log.py`), intervals of predictions (`step_interval.py`)."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import Any

from .. import run_warnings, training_log
from ..errors import InputError, Problem
from ..report.page import Fact, Page, Section, Table
from ..report.quantity import Quantity, number, share, time
from ..schema import Report
from ..training_log import LoggedStep, TrainingLog
from ..units import NS_PER_S, counted
from . import step_interval, throughput
from .explanation import MEASURED, Comparison
from .throughput import Throughput

_FEW = 5
"""Steady steps below which the spread says little."""


def against(
    report: Report, name: str, paths: Sequence[str | os.PathLike[str]], called: Sequence[str]
) -> Comparison:
    """Compares the predicted step of a report with the steps of logs.

    Raises `InputError` for a file without steps, and for steps of another batch."""
    work = throughput.of(report)
    tokens = work.tokens / work.npus if work.tokens else None
    predicted = step_interval.data(report)
    rows, warnings = [], [*run_warnings.of(report)]
    for path, each in zip(paths, called, strict=True):
        log = training_log.read(path, tokens)
        steps = _of_batch(log, work)
        rows.append(_row(work, predicted, each, log, steps))
        warnings += (f"{each}: {note}" for note in log.notes)
        if len(steps) <= _FEW:
            warnings.append(f"{each}: {counted(len(steps), 'step')}; the spread says little")
        if left := len(log.steady()) - len(steps):
            said = f"{counted(left, 'step')} of another batch {'is' if left == 1 else 'are'}"
            warnings.append(f"{each}: {said} left out")
    data = {
        "schema": MEASURED,
        "version": report["version"],
        "predicted": {
            "name": name,
            **work.as_dict(),
            "utilisation": work.utilisation or None,
            "interval": predicted,
        },
        "measured": rows,
        "warnings": warnings,
    }
    return Comparison(_page(data), data)


def _of_batch(log: TrainingLog, work: Throughput) -> list[LoggedStep]:
    """Steady steps that have the batch of the predicted one."""
    steps = log.steady()
    kept = [each for each in steps if each.batch in (None, work.samples) or not work.samples]
    if not kept:
        batches = sorted({each.batch for each in steps if each.batch is not None})
        said = f"its steps have {', '.join(map(number, batches[:4]))} samples"
        allowed = f"a run with --global-batch {batches[-1]}"
        where = f"the predicted one {number(work.samples)}"
        raise InputError([Problem(log.file, "global batch size", f"{said}, {where}", allowed)])
    return kept


def _row(
    work: Throughput,
    interval: dict[str, Any] | None,
    name: str,
    log: TrainingLog,
    steps: Sequence[LoggedStep],
) -> dict[str, Any]:
    """Numbers of one log; times in ns."""
    times = sorted(each.time_s * NS_PER_S for each in steps)
    median = statistics.median(times)
    deciles = statistics.quantiles(times, n=10, method="inclusive") if len(times) > 1 else times
    slowest = max(steps, key=lambda each: each.time_s)
    measured = Throughput(
        work.model, work.npus, median, work.samples, work.tokens, work.flops, work.utilisation
    )
    used = work.utilisation * work.step_ns / median if work.utilisation else None
    return {
        "name": name,
        "framework": log.framework,
        "steps": len(steps),
        **measured.as_dict(),
        "low_ns": deciles[0],
        "high_ns": deciles[-1],
        "slowest_ns": times[-1],
        "slowest_step": slowest.number,
        "utilisation": used,
        "ratio": median / work.step_ns if work.step_ns else None,
        "within_interval": interval and interval["low_ns"] <= median <= interval["high_ns"],
    }


def _page(data: dict[str, Any]) -> Page:
    predicted, rows = data["predicted"], data["measured"]
    first = rows[0]
    interval = predicted["interval"]
    facts = [
        Fact("Measured step", time(first["step_ns"]), f"median of {number(first['steps'])}"),
        Fact("Predicted step", time(predicted["step_ns"]), predicted["name"]),
    ]
    if interval:
        span = f"{time(interval['low_ns'])} to {time(interval['high_ns'])}"
        facts.append(
            Fact("Interval of the prediction", span, f"{100 * interval['level']:.0f} % of steps")
        )
    names = ", ".join(row["name"] for row in rows)
    heads = ("Log", "Framework", "Steps", "Median", "10 %", "90 %", "Slowest", "Over predicted")
    table = Table("Steps without the first one", heads, [_cells(row) for row in rows], labels=2)
    rated = [("predicted", predicted), *((row["name"], row) for row in rows)]
    rates = Table(
        "Rates",
        ("Step", "Samples/s", "Tokens/s", "MFU"),
        [
            (
                each,
                _rate(row["samples_per_s"]),
                _rate(row["tokens_per_s"]),
                share(row["utilisation"]) if row["utilisation"] else "",
            )
            for each, row in rated
        ],
    )
    known = any(row["samples_per_s"] for _, row in rated)
    return Page(
        f"{names} against {predicted['name']}",
        [Section("Steps", [table]), *([Section("Rates", [rates])] if known else [])],
        verdict=_verdict(predicted, first),
        facts=facts,
        warnings=data["warnings"],
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    slowest = time(row["slowest_ns"])
    if row["slowest_step"] is not None:
        slowest = Quantity(f"{slowest} (step {row['slowest_step']})", row["slowest_ns"])
    times = (time(row[key]) for key in ("step_ns", "low_ns", "high_ns"))
    ratio = Quantity(f"{row['ratio']:.3f}", row["ratio"]) if row["ratio"] else ""
    return (row["name"], row["framework"], number(row["steps"]), *times, slowest, ratio)


def _rate(value: float | None) -> str:
    return throughput.rate(value) if value else ""


def _verdict(predicted: dict[str, Any], row: dict[str, Any]) -> str:
    """How far the prediction is off, in one sentence."""
    if not row["ratio"]:
        return "The predicted step takes no time."
    off = abs(row["ratio"] - 1) * 100
    way = "longer" if row["ratio"] > 1 else "less time"
    said = f"The measured step takes {off:.1f} % {way} than predicted"
    if off < 0.05:
        said = "The measured step takes as long as predicted"
    if predicted["interval"] is None:
        return f"{said}."
    level = f"{100 * predicted['interval']['level']:.0f} % interval of the prediction"
    return f"{said}, {'within' if row['within_interval'] else 'outside'} the {level}."
