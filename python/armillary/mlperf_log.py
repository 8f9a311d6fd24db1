"""Step times in a result of MLPerf Training: lines of `:::MLLOG` with JSON.

| content of the log | time of a step |
| --- | --- |
| `tracked_stats` with `train_step_timing` | this time, in seconds |
| `block_start` and `block_stop` with `samples_count` | time of the block over its steps |
| `eval_stop` and `eval_start` with `epoch_num`, `train_samples` before the run | the same |

Steps of a block are its samples over `global_batch_size`. The `throughput` of `tracked_stats` is
not used, for its unit differs: samples a second of BERT, tokens of GPT-3. Nor are epochs that count
samples, as those of BERT. Source: mlperf_logging/mllog/constants.py of mlcommons/logging; results
in mlcommons/training_results_v3.1 (NVIDIA, gpt3) and training_results_v4.0 (ASUSTeK: bert,
dlrm_dcnv2, llama2_70b_lora)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import InputError, Problem

LINE = re.compile(r":::MLLOG +(\{.*\})")
HELP = "a result of MLPerf Training, with train_step_timing, or blocks with samples_count"
_TIMES = ("run_start", "run_stop", "block_start", "block_stop", "eval_start", "eval_stop")
_LATEST_MS = 1e14
_MOST = 1e15
"""Samples of a run."""


@dataclass(frozen=True)
class MlperfRun:
    """Times of steps in seconds, in the order of the log, and samples of each step."""

    times: tuple[float, ...]
    batch: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Event:
    """A line: its number, key, time and content."""

    line: int
    key: str
    ms: float
    value: object
    metadata: Mapping[str, Any]


@dataclass
class _Log:
    """Events of a log by what they are for."""

    batches: dict[float, int] = field(default_factory=dict)
    """Global batch sizes, and the lines of the first of each."""
    epoch: float = 0.0
    """Samples of an epoch; 0 where the log does not say them before the run."""
    starts: list[int] = field(default_factory=list)
    """Lines of `run_start`."""
    aborted: bool = False
    timings: list[tuple[int, float]] = field(default_factory=list)
    events: list[_Event] = field(default_factory=list)


def read(name: str, lines: Sequence[str]) -> MlperfRun:
    """The steps of a result. Raises `InputError` for a damaged line, for several runs or batches,
    and for a result that does not say how many samples were trained when."""
    log = _Log()
    for number, line in enumerate(lines, 1):
        if found := LINE.search(line):
            _take(log, _event(name, number, found[1]))
    return _run(name, log)


def _event(name: str, line: int, text: str) -> _Event:
    where = f"line {line}"
    try:
        value = json.loads(text, parse_constant=lambda word: word)
    except (ValueError, RecursionError):
        raise _refused(name, where, "is not a whole line of MLLOG") from None
    key, ms = value.get("key"), value.get("time_ms")
    metadata = value.get("metadata")
    if not isinstance(key, str) or not _is_number(ms, _LATEST_MS):
        raise _refused(name, where, "has no key, or no time_ms")
    held = metadata if isinstance(metadata, dict) else {}
    return _Event(line, key, float(ms), value.get("value"), held)


def _take(log: _Log, event: _Event) -> None:
    if event.key == "global_batch_size" and _is_number(event.value, _MOST):
        log.batches.setdefault(_number(event.value), event.line)
    elif event.key == "train_samples" and not log.starts and _is_number(event.value, _MOST):
        log.epoch = _number(event.value)
    elif event.key == "tracked_stats" and isinstance(event.value, dict):
        timing = event.value.get("train_step_timing")
        if timing is not None:
            log.timings.append((event.line, _number(timing)))
    elif event.key in _TIMES:
        # Each rank may write that the run begins.
        if event.key == "run_start" and (log.events or not log.starts):
            log.starts.append(event.line)
        elif event.key != "run_start":
            log.events.append(event)
        log.aborted |= event.key == "run_stop" and event.metadata.get("status") == "aborted"


def _run(name: str, log: _Log) -> MlperfRun:
    if len(log.starts) > 1:
        where = f"line {log.starts[1]}"
        raise _refused(name, where, "begins a second run", "the log of one run")
    if len(log.batches) > 1:
        where = f"line {[*log.batches.values()][1]}"
        raise _refused(name, where, "has a second global_batch_size", "the log of one run")
    batch = next(iter(log.batches), 0.0)
    if batch < 1 or batch != int(batch):
        raise _refused(name, "global_batch_size", "is not in the log, or not a whole number")
    notes = ["the run was aborted"] if log.aborted else []
    if log.timings:
        for line, each in log.timings:
            if not math.isfinite(each) or each <= 0:
                raise _refused(name, f"line {line}", "has a train_step_timing that is not a time")
        return MlperfRun(tuple(each for _, each in log.timings), int(batch), tuple(notes))
    spans = [*_blocks(log, "block_start", "block_stop", "samples_count", 1.0)]
    if not spans and log.epoch:
        spans = [*_blocks(log, "eval_stop", "eval_start", "epoch_num", log.epoch)]
    if not spans:
        said = "does not say when how many samples were trained"
        raise _refused(name, "", said)
    times = tuple(seconds * batch / samples for seconds, samples in spans)
    steps = sorted(samples / batch for _, samples in spans)
    notes.append(
        f"each time is the mean of the steps of a block: {steps[0]:,.0f} to {steps[-1]:,.0f} steps"
    )
    return MlperfRun(times, int(batch), tuple(notes))


def _blocks(
    log: _Log, begin: str, end: str, key: str, samples: float
) -> Iterator[tuple[float, float]]:
    """Seconds and samples between each `begin` and the `end` that follows, where both say `key`."""
    first: _Event | None = None
    for event in log.events:
        if event.key == begin:
            first = event
        elif event.key == end and first is not None:
            before, after = (each.metadata.get(key) for each in (first, event))
            if _is_number(before, _MOST) and _is_number(after, _MOST):
                count = (_number(after) - _number(before)) * samples
                seconds = (event.ms - first.ms) / 1e3
                if count > 0 and seconds > 0:
                    yield seconds, count
            first = None


def _is_number(value: object, most: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= most  # type: ignore[operator]


def _number(value: object) -> float:
    """A number; not a number for what is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return math.inf


def _refused(name: str, where: str, said: str, allowed: str = HELP) -> InputError:
    return InputError([Problem(name, where, said, allowed)])
