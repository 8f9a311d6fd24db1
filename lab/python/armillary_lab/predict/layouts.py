"""Predicted memory of layouts that ran or ran out of memory, and whether they fit.

What a rank holds is the memory in a workload's summary (`workload.footprints`), with the behaviour
of the framework that the layouts ran on (`frameworks/scaling.yml`). Whether it fits is the rule of
the platform. No constant is fitted to layouts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from armillary.api import simulate
from armillary.errors import ArmillaryError, InputError
from armillary.kernels.tables import Left
from armillary.platform import Platform
from armillary.units import NS_PER_S
from armillary.workload import build, footprints

from ..measured.layouts import TOKENS, Layout
from ..measured.published.file import problem

PRESET = "dgx-a100-80gb"
NETWORK = "dgx-a100-16n"
"""The preset whose network several nodes have."""
FRAMEWORK = "scaling"


@dataclass(frozen=True, slots=True)
class LayoutPrediction:
    """A layout, and what we say of it."""

    run: Layout
    most: int
    """Bytes on the rank that holds most; 0 for what can't be laid out."""
    fits: str
    """`yes`, `near` or `no`; or why it can't be laid out."""


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """A layout that ran, and our time of its step in seconds."""

    run: Layout
    ours: float

    @property
    def log(self) -> float:
        """ln(ours / measured)."""
        return math.log(self.ours / (self.run.step_s or math.nan))


def predict(run: Layout, platform: Platform, framework: str | None = FRAMEWORK) -> LayoutPrediction:
    """The prediction for a layout; without a framework, with the defaults of all options."""
    try:
        most = max(memory.total for memory in footprints(run.model, **_options(run, framework)))
    except InputError as error:
        return LayoutPrediction(run, 0, str(error.problems[0].message))
    return LayoutPrediction(run, most, platform.fits(most) or "yes")


def step(run: Layout) -> StepPrediction | Left:
    """Our time of the step of a layout that ran, or why there is none."""
    options = _options(run, FRAMEWORK)
    del options["ranks"]
    settings = {"topology": f"Switch(8)_Switch({run.gpus // 8})"}
    try:
        workload = build(run.model, **options)
        time = simulate(workload, Platform.load(NETWORK, settings)).step_time_ns / NS_PER_S
    except ArmillaryError as error:
        return Left(f"not predicted: {problem(error)}")
    return StepPrediction(run, time)


def _options(run: Layout, framework: str | None) -> dict[str, object]:
    """Options that make a layout's workload."""
    ranks = run.tp * run.pp
    options: dict[str, object] = {
        "tp": run.tp,
        "pp": run.pp,
        "dp": max(run.gpus // ranks, 1),
        "sp": run.sp and run.tp > 1,
        "zero": 1,
        "micro_batch": run.micro_batch,
        "global_batch": TOKENS // run.seq,
        "seq": run.seq,
        "recompute": run.recompute,
        "attention": "flash" if run.flash else "unfused",
        "ranks": run.gpus,
    }
    if framework is not None:
        options |= {"framework": framework, "framework_set": {"fused_norm": run.fused_norm}}
    return options
