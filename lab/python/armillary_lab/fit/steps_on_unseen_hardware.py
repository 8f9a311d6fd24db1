"""Training steps on hardware that no fit has seen: what its efficiencies may be, and how far off
its steps are.

An NPU without measured steps has the *prior*: for each kind of kernel the geometric mean of the
efficiencies that are fitted on generations of GPUs, first over the GPUs of a generation, then over
generations. Multiplications have them with what training keeps (`sustained`). Each generation is
left out once: its runs are predicted with the prior of the others, by the linear model of
`steps_of_unseen_sources`. The source of the residuals is the generation, so that the interval
counts hardware, not publications. What the prior does not change (tiles, overhead of kernels,
networks) stays that of the generation. Here: the prior and the residuals. Not here: intervals
(`armillary.uncertainty`)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from armillary.platform import Platform
from armillary.uncertainty import DIGITS, Intervals, Residual, calibrated
from armillary.uncertainty.steps import LIKENESS, labels
from armillary.units import PPM

from ..predict.left_out import PARAMETERS
from .steps_of_unseen_sources import Simulated, simulated

PRESETS: Mapping[str, tuple[str, ...]] = {
    "A100": ("dgx-a100",),
    "H100": ("dgx-h100",),
    "B200": ("dgx-b200", "gb200-nvl72", "gb300-nvl72"),
}
"""Presets with the efficiencies of their GPUs, by generation."""

_SIDES = ("efficiency", "memory_efficiency")
_FAST = ("gemm", "grouped")
"""Kinds that keep the part `sustained` of their efficiency."""


def prior(generations: Sequence[str]) -> dict[str, dict[str, float]]:
    """By side of the roofline and kind of kernel, the mean of what is fitted; nothing for a kind
    that no generation has an efficiency of."""
    found: dict[str, dict[str, float]] = {}
    for side in _SIDES:
        fitted = [_fitted(side, generation) for generation in generations]
        kinds = dict.fromkeys(kind for each in fitted for kind in each)
        found[side] = {
            kind: statistics.geometric_mean([each[kind] for each in fitted if kind in each])
            for kind in kinds
        }
    return found


@cache
def _compute(preset: str) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = Platform.load(preset).describe()["npu"]["compute_settings"]
    return settings


def sustained(generations: Sequence[str]) -> float:
    """The part of multiplications' efficiency that training keeps, the mean of what is fitted."""
    return statistics.geometric_mean(
        statistics.geometric_mean(_compute(preset)["sustained_ppm"] / PPM for preset in presets)
        for presets in map(PRESETS.__getitem__, generations)
    )


def _fitted(side: str, generation: str) -> dict[str, float]:
    """The mean of a generation's GPUs by kind of kernel, without kinds that reach all of their
    peak: those are not fitted."""
    values: dict[str, list[float]] = {}
    for preset in PRESETS[generation]:
        settings = _compute(preset)
        for kind, ppm in settings[f"{side}_ppm"].items():
            kept = settings["sustained_ppm"] if side == "efficiency" and kind in _FAST else PPM
            if ppm < PPM:
                values.setdefault(kind, []).append(ppm / PPM * kept / PPM)
    return {kind: statistics.geometric_mean(each) for kind, each in values.items()}


def _narrow(name: str, generations: Sequence[str]) -> float | None:
    """The mean efficiency of multiplications of a narrow format, with what training keeps."""
    values = [
        statistics.geometric_mean(each)
        for each in (_of_format(name, generation) for generation in generations)
        if each
    ]
    return statistics.geometric_mean(values) if values else None


def _of_format(name: str, generation: str) -> list[float]:
    found = []
    for settings in map(_compute, PRESETS[generation]):
        if (ppm := settings["efficiency_by_type_ppm"][name]) is not None:
            found.append(ppm / PPM * settings["sustained_ppm"] / PPM)
    return found


def parameters(generations: Sequence[str]) -> dict[str, float]:
    """The prior as the parameters of `steps_of_unseen_sources`; a format that no generation has is
    as the wider one."""
    mean = prior(generations)
    rate = mean["efficiency"]
    found = {"gemm": rate["gemm"]}
    found["fp8"] = _narrow("fp8", generations) or found["gemm"]
    found["fp4"] = _narrow("fp4", generations) or found["fp8"]
    found |= {"attention": rate["attention"], "streams": mean["memory_efficiency"]["elementwise"]}
    return found


def predicted(run: Simulated, values: Mapping[str, float]) -> float:
    """ln(measured / predicted) of a run with these efficiencies."""
    own = {name: value for name, value in run.efficiency.items() if name in PARAMETERS}
    return -run.error({name: values[name] / own[name] for name in own})


def left_out() -> Iterator[tuple[str, Simulated, float]]:
    """Each run with its generation and ln(measured / predicted), from the prior of the other
    generations."""
    for generation in PRESETS:
        values = parameters([each for each in PRESETS if each != generation])
        for run in simulated(generation):
            yield generation, run, predicted(run, values)


def residuals() -> list[Residual]:
    """Residuals of all generations, one for each kind of run. The GPU is the source, and not a
    label."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
    for generation, each, log in left_out():
        run = each.run
        kind = labels(run.gpu, run.precision, run.model.family, run.gpus)
        del kind["gpu"]
        found.setdefault((generation, tuple(kind.items())), []).append(round(log, DIGITS))
    return [
        Residual(f"{source} {' '.join(dict(kind).values())}", source, dict(kind), tuple(logs))
        for (source, kind), logs in found.items()
    ]


def intervals() -> Intervals:
    """The intervals of steps on hardware without measurements."""
    likeness = {name: like for name, like in LIKENESS.items() if name != "gpu"}
    return calibrated(residuals(), likeness)
