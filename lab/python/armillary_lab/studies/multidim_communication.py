"""How much models communicate in a step (multi-dimensional topologies, Fig. 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from armillary.units import GB
from armillary.workload import build

from ..study import Study, StudyRow, claimed, drawn
from .multidim import MODELS, workload

if TYPE_CHECKING:
    from armillary.report.chart import Chart

CONVOLUTIONS: Mapping[str, tuple[str, int]] = {
    "AlexNet": ("alexnet", 2012),
    "VGG-16": ("vgg-16", 2014),
    "ResNet-50": ("resnet-50", 2015),
}
"""Model and year."""
YEARS = {"Transformer-17B": 2020, "GPT-3": 2020, "Transformer-1T": 2021}
PAIRS = (
    ("Transformer-17B", "VGG-16"),
    ("GPT-3", "Transformer-17B"),
    ("Transformer-1T", "GPT-3"),
)
"""A model, and the largest before it."""

WHERE = "Fig. 2 and section I"
MARGIN = 0.1
SIZES = (
    "the figure's models are not named in the text; bytes that an NPU gives to collectives in a "
    "step"
)
GROWS = "the figure shows growth; the sizes of tensor parallelism grow with the batch, 16 samples"


@cache
def size(model: str) -> float:
    """Bytes that an NPU gives to collectives in a step."""
    if model in MODELS:
        made = workload(model)
    else:
        options: dict[str, Any] = {"dp": 1024}
        made = build(CONVOLUTIONS[model][0], **options)
    summary = made.summary
    assert summary is not None, "generated workloads have a summary"
    return max(sum(each.bytes for each in kind.volumes) for kind in summary.classes)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """The size of each model, and whether it grows. No network is simulated."""
    del backends
    sizes = [
        StudyRow(f"{model} ({year})", "model", drawn("Fig. 2"), size(model) / GB, "GB", SIZES)
        for model, year in _years().items()
    ]
    grows = claimed(1.0, WHERE, ">", MARGIN)
    return sizes + [
        StudyRow(f"{later} over {before}", "model", grows, size(later) / size(before), "x", GROWS)
        for later, before in PAIRS
    ]


def _years() -> Mapping[str, int]:
    return {model: year for model, (_, year) in CONVOLUTIONS.items()} | YEARS


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 2: sizes by model, in the order of years."""
    from armillary.report.chart import Chart

    records = [{"model": row.setup, "size": row.ours} for row in rows if row.unit == "GB"]
    spec = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "model", "type": "nominal", "title": None, "sort": None},
            "x": {
                "field": "size",
                "type": "quantitative",
                "scale": {"type": "log", "domain": [0.01, 10_000]},
                "title": "GB of an NPU in a step",
            },
        },
    }
    return [Chart("multidim-communication", "Communication of a step", records, spec)]


STUDY = Study(
    "Bytes that an NPU gives to collectives in a step: convolutional networks with data "
    "parallelism over 1,024 NPUs and 32 bits, the three workloads of Table IV as that says, with "
    "16 samples a replica. The figure prints no numbers, and the text names no model of it.",
    rows,
    charts,
)
