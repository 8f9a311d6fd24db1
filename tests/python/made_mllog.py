"""Results of MLPerf Training whose blocks have known times, in the form of published ones.

Source: mlcommons/training_results_v3.1 (NVIDIA, gpt3) and training_results_v4.0 (ASUSTeK:
dlrm_dcnv2, llama2_70b_lora)."""

from __future__ import annotations

import json
from collections.abc import Sequence

SAMPLES = 4_195_197_692
"""Samples of an epoch of the recommendation model."""


def line(key: str, ms: float, value: object = None, **metadata: object) -> str:
    """A line as mllog writes it, after what a launcher puts before it."""
    kind = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(key[-5:].strip("_"), "")
    held = {"file": "/workspace/callbacks.py", "lineno": 161, **metadata}
    content = {
        "namespace": "",
        "time_ms": round(ms),
        "event_type": kind or "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": held,
    }
    return f"0: :::MLLOG {json.dumps(content)}\n"


def begin(batch: int, samples: int) -> str:
    """Until the run begins."""
    return (
        line("cache_clear", 0, True)
        + line("submission_benchmark", 5, "made")
        + line("global_batch_size", 10, batch)
        + line("train_samples", 11, samples)
        + line("run_start", 20)
        + line("run_start", 21)
    )


def blocks(times: Sequence[float], batch: int, steps: int = 50) -> str:
    """Blocks of `steps` steps of these times (s), with evaluations of 38 s between them."""
    text, now, count = begin(batch, 3901), 1000.0, 0
    for each in times:
        text += line("block_start", now, samples_count=count)
        now += 1e3 * each * steps
        count += batch * steps
        text += line("tracked_stats", now, {"throughput": 12345.0}, step=count)
        text += line("block_stop", now, samples_count=count)
        text += line("eval_start", now, samples_count=count)
        now += 38_000
        text += line("eval_stop", now, samples_count=count)
    return text + line("run_stop", now, status="success", samples_count=count)


def evaluations(times: Sequence[float], batch: int, steps: int = 4000) -> str:
    """Only evaluations, with the part of the epoch that was trained."""
    text, now, count = begin(batch, SAMPLES), 1000.0, 0
    text += line("epoch_start", now, epoch_num=0)
    text += line("eval_start", now, epoch_num=0)
    text += line("eval_stop", now, epoch_num=0)
    for each in times:
        now += 1e3 * each * steps
        count += batch * steps
        text += line("eval_start", now, epoch_num=count / SAMPLES)
        now += 1800
        text += line("eval_stop", now, epoch_num=count / SAMPLES)
    return text + line("run_stop", now, status="success", epoch_num=count / SAMPLES)


def timings(times: Sequence[float], batch: int) -> str:
    """A time of each step. What counts samples counts tokens here, as in GPT-3."""
    text, now = begin(batch, 0), 1000.0
    text += line("block_start", now, first_epoch_num=0, epoch_count=2048 * batch * len(times))
    for at, each in enumerate(times, 1):
        now += 1e3 * each
        step = 2048 * batch * at
        text += line("tracked_stats", now, {"train_step_timing": each}, step=step)
    return text + line("run_stop", now, status="success")
