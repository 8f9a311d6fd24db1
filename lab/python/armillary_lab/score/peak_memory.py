"""Predicted peak memory against what runs held, and against configurations that failed.

An error is `ours / measured - 1`. Predictions are the memory in a workload's summary
(`workload.footprints`), what a source says set. Measured is what PyTorch's allocator held at most:
on rank 0 by nanotron (of the first stage, whatever holds most; `log_throughput` in
huggingface/nanotron, which writes GiB and calls them GB), on any rank by SimuMax. nanotron runs
eager kernels and deals layers to stages by cost; Megatron-LM with TransformerEngine runs fused
ones. Whether tensor parallelism cut activations along the sequence (`REDUCE_SCATTER`) or not
(`ALL_REDUCE`) nanotron's table doesn't say; its script has both, and the first is assumed. No
constant is fitted, so leaving a model out changes nothing. But what is counted, read from the
frameworks' source, was decided on these runs: of nanotron with tp 1 (which are of 1B, 3B and 8B),
for gathered hidden states also with more, and of Megatron-LM. Runs of 80B and failures had no part
in it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from ..errors import InputError
from ..platform import Platform
from ..study import Study, StudyRow, limit
from ..units import GB
from ..workload import footprints
from .scatter import scatter
from .training import Training, failures, trainings

if TYPE_CHECKING:
    from ..report.chart import Chart

NANOTRON, MEGATRON = "nanotron_h100", "simumax_b200"
GIB = 2**30
FUSED = (
    "mosaic_llmfoundry",
    "vtrain_single",
    "vtrain_multi",
    "megatron_sc21",
    "megatron_seqsel_a100",
    "megatron_core_h100",
    "internevo",
)
"""Groups that only say that their runs ran: Megatron-LM's kernels, or FlashAttention's fused loss
and Apex."""
PRESETS = {"A100": "dgx-a100-80gb", "A100-40GB": "dgx-a100", "H100": "dgx-h100"}
_COUNTS = ("attention", "fp32_gradients", "whole_tensors")
"""What counts of a framework's options; of nanotron, whose memory was measured, kernels and stages
do too."""
NEAR = 0.1
"""An error that counts as near."""
RAN = 95.0
"""Percent of the configurations that ran that we should predict to fit."""


@dataclass(frozen=True, slots=True)
class MemoryPrediction:
    """A configuration, and what we say that a GPU holds at its peak, bytes."""

    run: Training
    ours: int
    """Of the rank that was measured."""
    most: int
    """Of the rank that holds most."""
    uncut: int
    """Of the rank that was measured, without sequence parallelism."""
    uncut_most: int
    """Of the rank that holds most, without sequence parallelism."""

    @property
    def ratio(self) -> float:
        """Ours over measured."""
        return self.ours / GIB / (self.run.memory_gib or float("nan"))

    @property
    def between(self) -> bool:
        """Whether what was measured lies between ours with and without sequence parallelism, 10 %
        allowed."""
        return self.ratio * (1 - NEAR) <= 1 <= self.ratio * self.uncut / self.ours * (1 + NEAR)


def predict(run: Training) -> MemoryPrediction | None:
    """What we say of a configuration; `None` where it can't be laid out: more stages than layers,
    or, which nanotron refuses, than micro-batches by more than one."""
    eager = run.group == NANOTRON
    if eager and run.global_batch // run.dp // run.micro_batch < run.pp - 1:
        return None
    try:
        stages, uncut = (
            _stages(run, cut and run.sp) if cut or eager else () for cut in (True, False)
        )
    except InputError:
        return None
    uncut = uncut or stages
    first, last = (stages[0], uncut[0]) if eager else (max(stages), max(uncut))
    return MemoryPrediction(run, first, max(stages), last, max(uncut))


def _stages(run: Training, sp: bool) -> tuple[int, ...]:
    """Peak bytes of a rank of each stage."""
    options = {**run.options, "sp": sp}
    decided = run.framework.options(run.options)
    counts = (*_COUNTS, "kernels", "partition") if run.group == NANOTRON else _COUNTS
    options |= {name: decided[name] for name in counts if name in decided}
    return tuple(memory.total for memory in footprints(run.model, **options))


@cache
def measured() -> tuple[MemoryPrediction, ...]:
    """Every run whose memory was measured, predicted."""
    found = (predict(run) for run in trainings() if run.memory_gib is not None)
    return tuple(each for each in found if each is not None)


@cache
def failed() -> tuple[MemoryPrediction | None, ...]:
    """Every configuration that failed, predicted where it can be laid out."""
    return tuple(predict(run) for run in failures())


@cache
def elsewhere() -> tuple[tuple[MemoryPrediction, int], ...]:
    """Runs without published memory, and what their GPU has; all of them ran with fused
    kernels."""
    runs = (run for run in trainings() if run.group in FUSED)
    found = ((predict(run), capacity(PRESETS[run.gpu])) for run in runs)
    return tuple((each, most) for each, most in found if each is not None)


@cache
def capacity(preset: str) -> int:
    """What a GPU of a preset has, bytes."""
    found: int = Platform.load(preset).describe()["npu"]["memory_capacity_bytes"]
    return found


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Errors by group and model, then who fits; memory depends on no backend."""
    del backends
    return [*_errors(), *_fits()]


def _row(setup: str, ours: float, unit: str, why: str, least: float | None = None) -> StudyRow:
    return StudyRow(setup, "-", limit(least, ">"), ours, unit, why)


def _errors() -> Iterator[StudyRow]:
    groups: list[tuple[str, Callable[[MemoryPrediction], bool]]] = [
        ("nanotron, tp 1", lambda p: p.run.group == NANOTRON and p.run.tp == 1),
        ("nanotron, tp 2 to 32", lambda p: p.run.group == NANOTRON and p.run.tp > 1),
        ("Megatron-LM", lambda p: p.run.group == MEGATRON),
    ]
    for name, of in groups:
        found = [each for each in measured() if of(each)]
        yield from _group(name, found)
        for model in dict.fromkeys(each.run.model.name for each in found):
            same = [each for each in found if each.run.model.name == model]
            yield _row(
                f"{name}, {model} ({len(same)}): median error", _median(same), "%", _worst(same)
            )


def _group(name: str, found: list[MemoryPrediction]) -> Iterator[StudyRow]:
    count, why = f"{name} ({len(found)})", _worst(found)
    yield _row(f"{count}: median error", _median(found), "%", why)
    yield _row(
        f"{count}: within 10 %", _share(found, lambda p: abs(p.ratio - 1) <= NEAR), "% of runs", why
    )
    if any(each.uncut > each.ours for each in found):
        words = f"{count}: between sp and no sp, 10 % allowed"
        yield _row(words, _share(found, lambda p: p.between), "% of runs", WHY_BETWEEN)


def _fits() -> Iterator[StudyRow]:
    most = capacity(PRESETS["H100"])
    ran = [each for each in measured() if each.run.group == NANOTRON]
    laid = [each for each in failed() if each is not None]
    wrong = [each for each in ran if each.most > most]
    names = "; ".join(
        f"{p.run.name} ({p.most / GIB:.1f} GiB, measured {p.run.memory_gib:g})" for p in wrong
    )
    why = f"Said not to fit in {most / GB:g} GB: {names or 'none'}."
    yield _row(
        f"ran ({len(ran)}): fits, we say", _share(ran, lambda p: p.most <= most), "%", why, RAN
    )
    yield _elsewhere()
    count = len(failed())
    over = sum(each.most > most for each in laid)
    either = sum(each.most <= most < each.uncut_most for each in laid)
    for words, found, why in (
        ("doesn't fit, we say", over, WHY_FAILED),
        ("fits with sp only", either, WHY_BETWEEN),
        ("can't be laid out", count - len(laid), WHY_LAYOUT),
        ("fits, we say", len(laid) - over - either, WHY_OTHER),
    ):
        yield _row(f"failed ({count}): {words}", 100 * found / count, "%", why)


def _elsewhere() -> StudyRow:
    found = elsewhere()
    held, room = max(found, key=lambda pair: pair[0].most / pair[1])
    why = (
        f"Fullest: {held.run.name}, {held.most / GB:.1f} of {room / GB:g} GB. That llm-foundry and "
        "InternEvo fuse the loss, and that Megatron-Core's overlap means sp, was set after a "
        "first try without, in which 90, 92 and 17 % fit."
    )
    share = 100 * sum(each.most <= most for each, most in found) / len(found)
    words = f"ran, llm-foundry, vTrain, Megatron-LM, InternEvo ({len(found)}): fits, we say"
    return _row(words, share, "%", why, RAN)


def _share(found: Sequence[MemoryPrediction], of: Callable[[MemoryPrediction], bool]) -> float:
    return 100 * sum(map(of, found)) / len(found)


def _median(found: Sequence[MemoryPrediction]) -> float:
    return 100 * statistics.median(abs(each.ratio - 1) for each in found)


def _worst(found: Sequence[MemoryPrediction]) -> str:
    """The two runs that are furthest off, and the likely reason."""
    worst = sorted(found, key=lambda each: -abs(each.ratio - 1))[:2]
    said = "; ".join(
        f"{p.run.name}: ours {p.ours / GIB:.1f} GiB, measured {p.run.memory_gib:g}, {_reason(p)}"
        for p in worst
    )
    return f"Worst: {said}."


def _reason(each: MemoryPrediction) -> str:
    """Why a run is likely off."""
    if each.run.group == MEGATRON:
        return "experts' buffers, or shapes that layers share"
    if each.run.tp > 1:
        return (
            "within what is held without sp"
            if each.between
            else "less than its activations: perhaps another run"
        )
    return "unexplained; ZeRO 1 scatters, ZeRO 0 doesn't" if each.run.zero else "unexplained"


WHY_BETWEEN = (
    "nanotron's table doesn't say whether activations were cut along the sequence; its script has "
    "both modes. Half of these runs hold some 100 bytes a token and hidden element more than with "
    "sp, and the same with 16 layers and with 32: not what layers keep, but perhaps blocks that "
    "wait for all-reduces before the allocator takes them back."
)
WHY_FAILED = "More than the GPU has on some rank."
WHY_LAYOUT = (
    "More pipeline stages than layers, or than micro-batches by more than one: nanotron "
    "can't have started."
)
WHY_OTHER = "The source doesn't distinguish running out of memory from hangs and failed launches."


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Predicted over measured, and what we say of runs and failures."""
    del rows
    return [_scatter(), _said()]


def _scatter() -> Chart:
    records = [
        {
            "run": p.run.name,
            "group": _label(p.run),
            "measured": p.run.memory_gib,
            "ours": round(p.ours / GIB, 2),
        }
        for p in measured()
    ]
    return scatter("memory", "Peak memory, ours over measured", "GiB", records, "group", (0.5, 150))


def _label(run: Training) -> str:
    if run.group == MEGATRON:
        return "Megatron-LM, B200"
    return "nanotron, tp 1" if run.tp == 1 else "nanotron, tp 2 to 32"


def _said() -> Chart:
    from ..report.chart import Chart

    steps = [0, 20, 40, 60, 80, 120, 200, float("inf")]
    ran = [each.most / GB for each in measured() if each.run.group == NANOTRON]
    lost = [each.most / GB for each in failed() if each is not None]
    records = [
        {
            "order": at,
            "ours": f"{low:g} to {high:g}" if high < float("inf") else f"{low:g} and more",
            "what": what,
            "count": sum(low <= one < high for one in peaks),
        }
        for at, (low, high) in enumerate(pairwise(steps))
        for what, peaks in (("ran", ran), ("failed", lost))
    ]
    spec = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "x": {
                "field": "ours",
                "type": "nominal",
                "sort": {"field": "order"},
                "title": "our peak, GB on a GPU of 80 GB",
                "axis": {"labelAngle": 0},
            },
            "y": {"field": "count", "type": "quantitative", "title": "configurations"},
            "xOffset": {"field": "what", "sort": ["ran", "failed"]},
            "color": {"field": "what", "type": "nominal", "title": None, "sort": ["ran", "failed"]},
        },
    }
    return Chart(
        "memory-fits", "Configurations that ran and that failed, by our peak", records, spec
    )


STUDY = Study(
    "Memory: predicted peaks against runs and failures",
    "nanotron on H100s (Ultra-Scale Playbook), Megatron-LM on B200s (SimuMax): "
    "validation/measured/training_groups.csv",
    "Peak memory of the workload's summary against what PyTorch's allocator held; in parentheses "
    "the number of runs. Reference: what a share should stay above, chosen by us. No constant is "
    "fitted, but what is "
    "counted was decided looking at these runs; those of 80B and the 1,534 failures had no part in "
    "it.",
    rows,
    charts,
)
