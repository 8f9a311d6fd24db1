"""Measured training of ResNet-50, DLRM and DCNv2 on V100 and A100: `vision.csv`, a row a run.

Samples a second are those of NVIDIA/DeepLearningExamples' tables, as the column `source` says;
batches of ResNet-50 in PyTorch are those of its configs.yml. PyTorch ran eager kernels, TensorFlow
fused ones (XLA). PyTorch's DLRM does the bottom MLP on the first GPU (dlrm/model/distributed.py);
TensorFlow's is data-parallel."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Vision:
    """One measured run."""

    name: str
    group: str
    model: str
    """`resnet50`, `dlrm` or `dcnv2`."""
    size: str
    """`small`, `large`, `xlarge`; empty for ResNet-50."""
    system: str
    gpu: str
    gpus: int
    precision: str
    """`mixed` (16 bits), `tf32` or `fp32`."""
    framework: str
    xla: bool
    batch: int
    """Samples a GPU."""
    samples_per_s: float
    source: str

    @property
    def width(self) -> int:
        """Bytes of an element of weights and activations as kernels see them."""
        return 2 if self.precision == "mixed" else 4

    @property
    def generation(self) -> str:
        """`V100` or `A100`."""
        return self.gpu.split()[0]


@cache
def visions() -> tuple[Vision, ...]:
    """All measured runs, in the order of their file."""
    with resources.files(__package__).joinpath("vision.csv").open(encoding="utf-8") as file:
        return tuple(map(_vision, csv.DictReader(file)))


def _vision(row: Mapping[str, str]) -> Vision:
    words = {
        key: row[key]
        for key in ("name", "group", "model", "size", "system", "gpu", "precision", "framework")
    }
    return Vision(
        **words,
        gpus=int(row["gpus"]),
        xla=row["xla"] == "1",
        batch=int(row["batch"]),
        samples_per_s=float(row["samples_per_s"]),
        source=row["source"],
    )
