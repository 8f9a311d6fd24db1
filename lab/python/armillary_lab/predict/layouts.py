"""Predicted memory of layouts that ran or ran out of memory, and whether they fit.

What a rank holds is the memory in a workload's summary (`workload.footprints`), with the behaviour
of the framework that the layouts ran on (`frameworks/scaling.yml`). Whether it fits is the rule of
the platform. No constant is fitted to layouts."""

from __future__ import annotations

from dataclasses import dataclass

from armillary.errors import InputError
from armillary.platform import Platform
from armillary.workload import Workload, build, footprints

from ..measured.layouts import TOKENS, Layout

PRESET = "dgx-a100-80gb"
NETWORK = "dgx-a100-16n"
"""The preset whose network several nodes have."""
CARD = "25 Gb/s"
"""Share of a GPU in the one card of 200 Gb/s that a node has. UNVERIFIED: the table does not state
the network. Read off its groups of 30B and 65B, which contradict a card for each GPU: what is
missing with those is in proportion to the parameters and the degree of tensor parallelism, as of
GPUs that share a card (lab/results/2026-11-30-plans.md)."""
FRAMEWORK = "scaling"


@dataclass(frozen=True, slots=True)
class LayoutPrediction:
    """A layout, and what we say of it."""

    run: Layout
    most: int
    """Bytes on the rank that holds most; 0 for what can't be laid out."""
    fits: str
    """`yes`, `near` or `no`; or why it can't be laid out."""


def predict(run: Layout, platform: Platform, framework: str | None = FRAMEWORK) -> LayoutPrediction:
    """The prediction for a layout; without a framework, with the defaults of all options."""
    try:
        most = max(memory.total for memory in footprints(run.model, **_options(run, framework)))
    except InputError as error:
        return LayoutPrediction(run, 0, str(error.problems[0].message))
    return LayoutPrediction(run, most, platform.fits(most) or "yes")


def workload(run: Layout) -> Workload:
    """The step of a layout."""
    options = _options(run, FRAMEWORK)
    del options["ranks"]
    return build(run.model, **options)


def machine(run: Layout) -> Platform:
    """The machine of a layout."""
    settings = {"topology": f"Switch(8)_Switch({run.gpus // 8})", "links[1].bandwidth": CARD}
    return Platform.load(NETWORK, settings)


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
