"""Predicted steps of layouts that sources tried for the same job, and whether they fit.

Nothing is fitted to layouts. Aleph Alpha's, DLPerf's and Fugaku's rows took part in no fit. Those
of other sources are predicted with their source left out (`left_out.py`), unless the fitted presets
are asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from armillary.api import simulate
from armillary.errors import ArmillaryError
from armillary.kernels.tables import Left
from armillary.platform import Platform
from armillary.units import NS_PER_S
from armillary.workload import Workload, build

from ..measured.layouts import Layout
from ..measured.published.file import problem
from ..measured.published.tried import TableRun
from ..measured.training import Training
from ..measured.tried import SOURCES, Tried
from . import layouts, left_out, training_steps
from .peak_memory import starts

CARD = "12.5 Gb/s"
"""Share of a GPU in the one card of 100 Gb/s that a node of DLPerf has (Oneflow-Inc/DLPerf,
OneFlow/LanguageModeling/GPT/README.md)."""
FRAMEWORKS: Mapping[str, Mapping[str, object]] = {
    "Megatron-LM": {"framework": "megatron-lm-2021"},
    "OneFlow": {"attention": "unfused"},
    "Megatron-DeepSpeed": {"framework": "megatron-lm-2021"},
}
"""Options of the frameworks of tables."""

RECIPES = ("nemo_megatron_bridge", "dgxc_benchmarking", "nemo_h100_fp8", "mlperf")
"""Groups that do not state all options of memory: that their layouts fit is unknown, which counts
as fitting (docs/models/memory.md)."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A layout with our time of its step, and whether it fits."""

    tried: Tried
    ours: float | None
    """Seconds; nothing where a layout that did not run does not fit."""
    fits: str
    """`yes`, `near` or `no`."""
    room: bool = False
    """Whether a tenth of the memory stays free."""

    @property
    def timed(self) -> bool:
        """Whether the layout ran, and took a known time."""
        return self.ours is not None and self.tried.ran and bool(self.tried.step_s)

    @property
    def log(self) -> float:
        """ln(ours / measured) of a layout that is `timed`."""
        return math.log((self.ours or math.nan) / (self.tried.step_s or math.nan))


def predict(tried: Tried, fitted: bool = False) -> Predicted | Left:
    """The prediction for a layout, or why there is none; `fitted`: with what was fitted to its
    source."""
    run = tried.run
    try:
        if isinstance(run, Training):
            return _training(tried, run, fitted)
        if isinstance(run, Layout):
            return _simulated(tried, layouts.workload(run), layouts.machine(run))
        return _simulated(tried, _of_table(run), _machine(run))
    except ArmillaryError as error:
        return _not_laid_out(tried, f"not predicted: {problem(error)}")


def _not_laid_out(tried: Tried, why: str) -> Predicted | Left:
    """A layout that we refuse: right where it did not run."""
    return Left(why) if tried.ran else Predicted(tried, None, "no")


def _training(tried: Tried, run: Training, fitted: bool) -> Predicted | Left:
    if not starts(run):
        return _not_laid_out(tried, "the layout can't be built")
    workload = build(run.model, **training_steps.options(run))
    if not fitted and run.group in SOURCES:
        preset, settings = training_steps.stated_machine(run)
        platform = Platform.load(preset, left_out.settings(run, preset, settings))
        return _simulated(tried, workload, platform)
    return _simulated(tried, workload, training_steps.fitted_platform(run, workload)[0])


def _simulated(tried: Tried, workload: Workload, platform: Platform) -> Predicted:
    held = training_steps.held(workload)
    unknown = isinstance(tried.run, Training) and tried.run.group in RECIPES
    fits = "yes" if unknown else platform.fits(held) or "yes"
    if fits == "no" and not tried.ran:
        return Predicted(tried, None, fits)
    capacity = platform.describe()["npu"]["memory_capacity_bytes"]
    room = unknown or held <= training_steps.ROOM * capacity
    return Predicted(tried, simulate(workload, platform).step_time_ns / NS_PER_S, fits, room)


def _of_table(run: TableRun) -> Workload:
    return build(
        run.model,
        tp=run.tp,
        pp=run.pp,
        dp=run.dp,
        zero=0,
        micro_batch=run.micro_batch,
        global_batch=run.global_batch,
        seq=run.seq,
        recompute=run.recompute,
        precision=run.precision,
        **FRAMEWORKS[run.framework],
    )


def _machine(run: TableRun) -> Platform:
    """Nodes of DLPerf or of Fugaku."""
    if run.source == "Fugaku":
        with resources.as_file(resources.files(__package__) / "fugaku.yml") as path:
            return Platform.load(path, {"topology": f"Switch({run.nodes})"})
    if run.nodes == 1:
        return (
            Platform.load("dgx1-v100")
            if run.gpus == 8
            else Platform.load(
                "dgx2h", {"topology": f"Switch({run.gpus})", "npu.memory.capacity": "16 GB"}
            )
        )
    settings = {
        "topology": f"Switch({run.gpus // run.nodes})_Switch({run.nodes})",
        "links[1].bandwidth": CARD,
        "npu.memory.capacity": "16 GB",
    }
    return Platform.load("dgx2h-16n", settings)
