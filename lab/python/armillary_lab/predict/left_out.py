"""Platforms with nothing that was fitted to a source: what its steps are predicted with where it is
left out.

The rates of a generation of GPUs are fitted to the other sources (`fit/rates_without_sources.py`
writes `left_out.csv`). A host that launches kernels one by one has the launch time of the other
source whose framework does so. What was read off the runs of a source is not known: the state of
nanotron's hosts, and NVIDIA's clocks. What a source states of its machine and its framework
stays."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from armillary.platform import Platform

from ..measured.training import Training
from ..measured.tried import SOURCES

GENERATIONS: Mapping[str, tuple[str, ...]] = {
    "A100": ("A100", "A100-40GB"),
    "H100": ("H100", "H100-96GB"),
    "B200": ("B200", "GB200", "GB300"),
}
"""GPUs whose steps are fitted together."""
LIKE: Mapping[str, str] = {"H200": "H100", "B300": "B200"}
"""Other GPUs of a generation, which take no part in a fit."""

PARAMETERS: Mapping[str, tuple[str, float | str]] = {
    "gemm": ("efficiency.gemm", 0.55),
    "fp8": ("efficiency_by_type.fp8", "gemm"),
    "fp4": ("efficiency_by_type.fp4", "fp8"),
    "attention": ("efficiency.attention", 0.3),
    "streams": ("memory_efficiency.elementwise", 0.6),
}
"""Name: key of `npu.compute`, and its parent or a round value."""

FAST = ("gemm", "fp8", "fp4")
"""Multiplications, which more power makes faster."""
MOST = 0.9
"""The largest efficiency."""

LAUNCH: Mapping[str, str] = {"vTrain": "140 us", "nanotron": "86 us"}
"""How long a host takes to launch a kernel by the other of two sources (`frameworks/nanotron.yml`,
`frameworks/megatron-lm-2021.yml`)."""

_COMPUTE = "npu.compute."
_PPM = 10**6


def settings(run: Training, preset: str, stated: Mapping[str, object]) -> dict[str, object]:
    """Overrides of the preset for a run whose source is left out; `stated`: those that its source
    states."""
    source = SOURCES[run.group]
    known: dict[str, object] = {**run.framework.settings, **stated}
    if source in LAUNCH:
        known["npu.launch.kernel"] = LAUNCH[source]
    return known | rates(Platform.load(preset, known), ratios(source, run.gpu))


def rates(platform: Platform, changed: Mapping[str, float]) -> dict[str, object]:
    """Overrides that multiply a platform's efficiencies; those of multiplications with what
    training keeps."""
    found: dict[str, object] = {}
    for name, value in efficiencies(platform).items():
        at = min(value * changed.get(name, 1.0), max(MOST, value))
        found[_COMPUTE + PARAMETERS[name][0]] = f"{at:.6f}"
        if name == "streams":
            found[f"{_COMPUTE}memory_efficiency.normalization"] = f"{at:.6f}"
    return found | {f"{_COMPUTE}sustained": 1}


def efficiencies(platform: Platform) -> dict[str, float]:
    """A platform's efficiencies by parameter; those of multiplications with what training keeps."""
    compute: Mapping[str, Any] = platform.describe()["npu"]["compute_settings"]
    rate, by_type = compute["efficiency_ppm"], compute["efficiency_by_type_ppm"]
    sustained = compute["sustained_ppm"] / _PPM
    found = {
        "gemm": rate["gemm"],
        "fp8": by_type["fp8"] or rate["gemm"],
        "fp4": by_type["fp4"] or by_type["fp8"] or rate["gemm"],
        "attention": rate["attention"],
        "streams": compute["memory_efficiency_ppm"]["elementwise"],
    }
    return {
        name: value / _PPM * (sustained if name in FAST else 1) for name, value in found.items()
    }


def ratios(source: str, gpu: str) -> dict[str, float]:
    """Efficiencies without a source over the preset's, for a GPU; none where the source took no
    part in its fit."""
    known = LIKE.get(gpu, gpu)
    generation = next((name for name, gpus in GENERATIONS.items() if known in gpus), "")
    found = dict(_table().get((source, generation), {}))
    more = found.get(gpu, 1.0)
    return {
        name: found[name] * (more if name in FAST else 1.0) for name in PARAMETERS if name in found
    }


@cache
def _table() -> Mapping[tuple[str, str], Mapping[str, float]]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    with resources.files(__package__).joinpath("left_out.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            of = found.setdefault((row["source"], row["generation"]), {})
            of[row["parameter"]] = float(row["ratio"])
    return found
