"""Training steps of sources that a fit has not seen.

The efficiencies of a GPU generation are fitted to all sources but one, and the runs of that one are
predicted. A step is nearly linear in what a kind of kernels costs, so each run is simulated once as
it is and once for each parameter that is changed by `STEP`; fits then only add up.

```text
time(x)   = time + sum_k (time_k - time) (x_k - 1) / (1 / STEP - 1)
x_k       = preset's over fitted efficiency
objective = sum over sources of  sqrt(runs) mean |ln(time(x) / measured)| / SCATTER
          + sum_k (ln(efficiency_k / efficiency of its parent) / PRIOR)^2 / 2
```

Parents are stated in `PARAMETERS`: multiplications of 8 bits are like those of 16, of 4 bits like
those of 8, those of GB200 and GB300 like the B200's, and the rest are like round values. So a
parameter that no source left in the fit constrains falls back to its parent. No efficiency exceeds
`MOST`. Here: fits and residuals. Not here: the search for the presets' values
(`efficiency.py`), intervals (`armillary.uncertainty`)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from armillary.api import simulate
from armillary.calibrate.descent import Point, descend, factors
from armillary.errors import InputError
from armillary.platform import Platform
from armillary.uncertainty import DIGITS, Intervals, Residual, calibrated
from armillary.uncertainty.steps import LIKENESS, labels
from armillary.units import NS_PER_S
from armillary.workload import build

from ..measured.training import Training, trainings
from ..predict import training_steps
from ..predict.left_out import FAST, GENERATIONS, MOST, PARAMETERS, efficiencies

STEP = 1.25
SCATTER, PRIOR = 0.1, 0.3
"""How far off runs are and how far a child is from its parent, logarithms."""
RUNS = 12
"""Runs of a source on a kind of GPU, drawn once."""


@dataclass(frozen=True)
class Simulated:
    """A run, its time, and its times with one parameter changed, seconds."""

    run: Training
    time: float
    changed: Mapping[str, float]
    efficiency: Mapping[str, float]
    """The platform's, by parameter; of multiplications with what training keeps."""

    def with_(self, ratios: Mapping[str, float]) -> float:
        """The time with efficiencies that are `ratios` times the platform's."""
        found = self.time
        for name, other in self.changed.items():
            ratio = ratios.get(name, 1.0) * (ratios.get(self.run.gpu, 1.0) if name in FAST else 1)
            at = min(self.efficiency[name] * ratio, MOST)
            more = (self.efficiency[name] / at - 1) / (1 / _step(self.efficiency[name]) - 1)
            found += (other - self.time) * more
        return max(found, self.time / 100)

    def error(self, ratios: Mapping[str, float]) -> float:
        """ln(ours / measured)."""
        assert self.run.iter_time_s is not None
        return math.log(self.with_(ratios) / self.run.iter_time_s)


def _step(efficiency: float) -> float:
    return min(STEP, 1 / efficiency) if efficiency < 1 / 1.05 else 1 / STEP


@cache
def simulated(generation: str) -> tuple[Simulated, ...]:
    """The runs of a generation: of each source at most `RUNS` on each GPU, nanotron's on up to two
    nodes."""
    sources: dict[tuple[str, str], list[Training]] = {}
    for run in trainings():
        quiet = run.group != "nanotron_h100" or run.nodes <= 2
        if run.gpu in GENERATIONS[generation] and run.iter_time_s and run.grade != "C" and quiet:
            kind = run.group, run.gpu.partition("-")[0]
            sources.setdefault(kind, []).append(run)
    draw = random.Random(1)
    chosen = [run for some in sources.values() for run in draw.sample(some, min(RUNS, len(some)))]
    return tuple(found for run in chosen if (found := _simulated(run)) is not None)


def _simulated(run: Training) -> Simulated | None:
    try:
        step = build(run.model, **training_steps.options(run))
    except InputError:
        return None
    preset, settings = training_steps.machine(run)
    platform = Platform.load(preset, settings)
    efficiency = efficiencies(platform)

    def seconds(target: Platform) -> float:
        return simulate(step, target).step_time_ns / NS_PER_S

    changed = {
        name: seconds(platform.changed(_changes(name, efficiency, run))) for name in _used(run)
    }
    return Simulated(run, seconds(platform), changed, efficiency)


def _used(run: Training) -> list[str]:
    """Parameters that a run depends on."""
    narrow = {"fp8": ["fp8"], "nvfp4": ["fp4"]}.get(run.precision, [])
    return ["gemm", *narrow, "attention", "streams"]


def _changes(name: str, efficiency: Mapping[str, float], run: Training) -> dict[str, object]:
    """One parameter changed, others kept; those of multiplications with what training keeps."""
    values = {**efficiency, name: efficiency[name] * _step(efficiency[name])}
    kinds = [each for each in _used(run) if each in FAST] if name in FAST else [name]
    made: dict[str, object] = {
        "npu.compute." + PARAMETERS[kind][0]: f"{values[kind]:.6f}" for kind in kinds
    }
    if name == "streams":
        made["npu.compute.memory_efficiency.normalization"] = f"{values[name]:.6f}"
    if name in FAST:
        made["npu.compute.sustained"] = 1
    return made


def fit(runs: Sequence[Simulated]) -> dict[str, float]:
    """Ratios of parameters to the preset's, by coordinate descent: 25, 10, 4 and 1 %."""
    present = {run.run.gpu for run in runs} - {"H100-96GB", "A100-40GB"}
    names = [*PARAMETERS, *sorted(present - {"A100", "H100", "B200"})]
    point = Point(partial(objective, runs), dict.fromkeys(names, 1.0), 1e-9)
    descend(names, factors(STEP, 1.1, 1.04, 1.01), point.attempt, rounds=None)
    return point.values


def objective(runs: Sequence[Simulated], ratios: Mapping[str, float]) -> float:
    """Objective that a fit lowers."""
    sources: dict[str, list[float]] = {}
    for each in runs:
        sources.setdefault(each.run.group, []).append(abs(each.error(ratios)))
    likely = sum(sum(some) / math.sqrt(len(some)) for some in sources.values()) / SCATTER
    return likely + _prior(runs, ratios)


def _prior(runs: Sequence[Simulated], ratios: Mapping[str, float]) -> float:
    """How far parameters are from their parents, of the generation's first GPU."""
    plain = min(runs, key=lambda each: each.run.gpu.startswith("GB")).efficiency
    value = {name: plain[name] * ratios.get(name, 1.0) for name in PARAMETERS}
    total = 0.0
    for name, (_, parent) in PARAMETERS.items():
        from_ = value[parent] if isinstance(parent, str) else parent
        total += (math.log(value[name] / from_) / PRIOR) ** 2 / 2
    for gpu in ("GB200", "GB300"):
        own = next((each.efficiency for each in runs if each.run.gpu == gpu), None)
        if own is not None:
            more = own["gemm"] * ratios.get(gpu, 1.0) / plain["gemm"]
            total += (math.log(more) / PRIOR) ** 2 / 2
    return total


def left_out(generation: str) -> Iterator[tuple[Simulated, float]]:
    """Each run of a generation with ln(measured / predicted), fitted without its source."""
    runs = simulated(generation)
    for source in dict.fromkeys(each.run.group for each in runs):
        rest = [each for each in runs if each.run.group != source]
        ratios = fit(rest)
        for each in runs:
            if each.run.group == source:
                yield each, -each.error(ratios)


def residuals() -> list[Residual]:
    """Residuals of all generations, one for each source and kind of run."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
    for generation in GENERATIONS:
        for each, log in left_out(generation):
            run = each.run
            kind = labels(run.gpu, run.precision, run.model.family, run.gpus)
            found.setdefault((run.group, tuple(kind.items())), []).append(round(log, DIGITS))
    return [
        Residual(f"{source} {' '.join(dict(kind).values())}", source, dict(kind), tuple(logs))
        for (source, kind), logs in found.items()
    ]


def intervals() -> Intervals:
    """The intervals of steps."""
    return calibrated(residuals(), LIKENESS)
