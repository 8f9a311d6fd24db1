"""Rows of a study: predicted rates of ResNet-50, DLRM and DCNv2 against measured ones.

`training_steps.py` includes them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ..measured.vision import Vision, visions
from ..predict.vision import predict
from ..study import StudyRow, measured, unreferenced


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """On each backend the errors of all, then every run next to ours, samples a second."""
    return [row for backend in backends for row in _rows(backend)]


def _rows(backend: str) -> list[StudyRow]:
    each = [_row(run, backend) for run in visions()]
    errors = sorted(abs(row.ratio - 1) for row in each if row.ratio)
    worst = max(each, key=lambda row: abs((row.ratio or 1) - 1))
    name, why = (
        f"ResNet-50, DLRM and DCNv2 ({len(each)})",
        f"Worst: {worst.setup}, ours {worst.ratio:.2f} times.",
    )
    ninth = errors[math.ceil(0.9 * len(errors)) - 1]
    found = (("median error", statistics.median(errors)), ("90th percentile", ninth))
    return [
        *(
            StudyRow(f"{name}: {what}", backend, unreferenced(), 100 * error, "%", why)
            for what, error in found
        ),
        *each,
    ]


def _row(run: Vision, backend: str) -> StudyRow:
    words = ("XLA" if run.xla else "", f"{run.precision}, batch {run.batch}")
    head = " ".join(word for word in (run.model, run.size, "on", str(run.gpus), run.gpu) if word)
    setup = (
        f"{head} ({run.system.removeprefix('NVIDIA ')}), {run.framework} "
        f"{' '.join(filter(None, words))}"
    )
    ours = predict(run, backend)
    return StudyRow(
        setup,
        backend,
        measured(run.samples_per_s, "NVIDIA, DeepLearningExamples"),
        round(ours, 1),
        "samples/s",
        _reason(run, ours / run.samples_per_s),
    )


NEAR = 0.08
"""An error that counts as near."""


def _reason(run: Vision, ratio: float) -> str:
    """Why a run is likely off."""
    if abs(ratio - 1) <= NEAR:
        return "Near."
    if run.model == "resnet50" and run.gpus > 1 and ratio > 1:
        return (
            "Horovod's reductions wait for whole clusters of XLA, input comes through the "
            "host; both are left out."
        )
    if run.model == "resnet50":
        return "cuDNN chooses algorithms by layer, which one efficiency for all layers can't show."
    if run.size == "xlarge" and ratio > 1:
        return (
            "Tables of 57 GB a GPU: lookups miss the TLB more often than those of the large model."
        )
    if run.generation == "V100" and ratio < 1:
        return (
            "DGX-2's V100s clock higher than the preset's."
            if "DGX-2" in run.system
            else "Framework."
        )
    return "The time that a framework adds between kernels is one number for all of its models."
