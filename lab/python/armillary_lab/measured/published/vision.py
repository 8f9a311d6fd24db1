"""Training of ResNet-50, DLRM and DCNv2 in NVIDIA's examples: from a row to the run that it is.

Here: the rule of these tables. Not here: the runs that presets are fitted to
(`measured/vision.csv`), and what we predict (`predict/vision.py`)."""

from __future__ import annotations

import re

from armillary.kernels.tables import Left

from ..vision import Vision
from . import reading
from .file import Row, source
from .reading import Part
from .run import Missing, count

GROUPS = ("nvidia_dle_dlrm", "nvidia_dle_dcnv2", "nvidia_dle_resnet50")
"""Groups of these tables."""
_MODELS = ("resnet50", "dlrm", "dcnv2")
_SIZES = {"small": "small", "large": "large", "extra large": "xlarge", "None": ""}
_PRECISIONS = {"mixed precision": "mixed", "TF32": "tf32", "FP32": "fp32"}
_FRAMEWORKS = ("PyTorch", "TensorFlow", "TensorFlow2")
_HYBRID = "model-parallel embeddings + data-parallel MLP"


def run(measured: Row) -> Vision | Left:
    """A row as a run, or why it can't be one."""
    row = Part(measured)
    try:
        found = _run(row)
        reading.check(row, "training")
    except Missing as missing:
        return Left(str(missing))
    return found


def _run(row: Part) -> Vision:
    model, hardware, parallel = row["model"], row["hardware"], row["parallel"]
    name, size = str(model.get("name")), str(model.get("size"))
    framework = str(row["id"]).split("_")[2] if str(row["id"]).count("_") > 1 else ""
    if name not in _MODELS or size not in _SIZES:
        raise Missing(f"no model for {name}" if name not in _MODELS else f"size is {size!r}")
    if framework not in _FRAMEWORKS:
        raise Missing("no framework of ours describes it")
    gpus, nodes = count(hardware, "gpus"), count(hardware, "nodes", 1)
    if nodes != 1 or parallel.get("dp", gpus) != gpus or parallel.get("hybrid", _HYBRID) != _HYBRID:
        raise Missing("a layout that these tables don't have")
    said, _, xla = str(row.get("precision")).partition(" + ")
    if said not in _PRECISIONS or xla not in ("", "XLA"):
        raise Missing(f"precision is {row.get('precision')!r}")
    rate = row["metric"].get("samples_per_s")
    if not rate:
        raise Missing("no rate of samples")
    return Vision(
        str(row["id"]),
        str(row["group"]),
        name,
        _SIZES[size],
        re.sub(r" \(.*\)$", "", str(hardware.get("system"))),
        re.sub(r"G$", "GB", str(hardware.get("gpu"))),
        gpus,
        _PRECISIONS[said],
        framework,
        bool(xla),
        _batch(str(row["batch"].get("per_gpu_batch")), said),
        float(rate),
        source(row),
    )


def _batch(text: str, precision: str) -> int:
    """Samples of a GPU: a number, thousands (`8k`), or one for each precision."""
    each = re.fullmatch(r"(\d+) \(FP32\) / (\d+) \(AMP\)", text)
    if each:
        return int(each[2 if precision == "mixed precision" else 1])
    found = re.fullmatch(r"(\d{1,6})(k?)", text)
    if found is None or not int(found[1]):
        raise Missing("the batch of a GPU is not stated")
    return int(found[1]) * (1024 if found[2] else 1)
