"""Fits the efficiency model of a GPU generation to measured training steps.

`python -m armillary_lab.fit.efficiency A100`: the mean of |ln(ours / measured)| over all sources
alike is lowered a parameter at a time by factors of 1.25, 1.1, then 1.04. Runs on one node, or
several that share no network, of each source at most `MOST`, drawn once. Minutes to an hour. The
presets hold rounded values of such fits, those of multiplications as `efficiency * sustained`. Not
here: fits without one source, which take a linear model (`steps_of_unseen_sources.py`)."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import armillary as arm
from armillary.calibrate.descent import Point, descend, factors
from armillary.errors import InputError

from ..measured.training import Training, trainings
from ..predict import training_steps

MOST = 24
STEPS = (1.25, 1.1, 1.04)
GAIN = 1e-5
"""Least that a change must lower the sum of the errors by."""
COMPUTE = "npu.compute."
START = {
    "efficiency.gemm": 0.65,
    "efficiency.attention": 0.3,
    "memory_efficiency.elementwise": 0.7,
    "memory_efficiency.normalization": 0.6,
    "kernel_overhead": 10.0,
    "tiles.fill_depth": 32.0,
    "tiles.load_cost": 100.0,
    "comm_overlap_slowdown": 0.15,
}
"""Where a fit begins, the same for every generation; us, parts, numbers."""
FEW = {"efficiency.gemm": 0.65, "memory_efficiency": 0.6}
"""The same for the B200, which has 30 runs on one machine: its attention is that of
kernels measured alone (systems/parts/gpu/b200.yml), memory has one efficiency, and the rest is the
preset's."""
STREAMS = ("elementwise", "normalization", "embedding", "optimizer")
"""Kinds of kernels that memory's one efficiency is for."""
ROOM = {"A100": 70, "H100": 70, "B200": 160}
"""GiB held on a GPU, above which allocators free and ask all the time."""
GPUS = {"A100": ("A100", "A100-40GB"), "H100": ("H100", "H100-96GB"), "B200": ("B200",)}


def runs(gpu: str) -> dict[str, list[Training]]:
    """The runs of a generation by source: measured, not read off figures, of up to 64 GPUs or
    without a pipeline."""
    found: dict[str, list[Training]] = {}
    for run in trainings():
        quiet = run.nodes <= 2 if run.group == "nanotron_h100" else run.gpus <= 512
        room = (run.memory_gib or 0) < ROOM[gpu]
        if (
            run.gpu in GPUS[gpu]
            and run.iter_time_s
            and run.grade != "C"
            and run.pp <= 2
            and quiet
            and room
        ):
            found.setdefault(source(run), []).append(run)
    draw = random.Random(1)
    return {group: draw.sample(some, min(MOST, len(some))) for group, some in found.items()}


def source(run: Training) -> str:
    """Who measured; where that is one for a whole generation, what kind of run it was, too."""
    if run.gpu != "B200":
        return run.group
    kind = "experts" if run.model.family == "moe" else "context" if run.cp > 1 else "dense"
    return f"{run.group}, {kind}"


@cache
def workload(name: str) -> arm.Workload | None:
    """Workload of the step of the run of that name."""
    run = next(each for each in trainings() if each.name == name)
    try:
        return arm.workload.build(run.model, **training_steps.options(run))
    except InputError:
        return None


def error(some: Sequence[Training], values: Mapping[str, float]) -> float:
    """Mean of |ln(ours / measured)|; endless where the values are none."""
    logs = []
    for run in some:
        step = workload(run.name)
        if step is not None and run.iter_time_s:
            preset, settings = training_steps.machine(run)
            try:
                platform = arm.Platform.load(preset, {**settings, **overrides(values)})
            except InputError:
                return math.inf
            logs.append(
                abs(math.log(arm.simulate(step, platform).step_time_ns / 1e9 / run.iter_time_s))
            )
    return sum(logs) / len(logs) if logs else 0.0


def overrides(values: Mapping[str, float]) -> dict[str, object]:
    """The values as keys of a platform."""
    shown: dict[str, object] = {f"{COMPUTE}sustained": 1}
    for key, value in values.items():
        if key == "memory_efficiency":
            shown |= {f"{COMPUTE}{key}.{kind}": f"{value:.6f}" for kind in STREAMS}
            continue
        whole = key.startswith("tiles")
        shown[COMPUTE + key] = (
            f"{1e6 * value:.0f} ps"
            if key == "kernel_overhead"
            else round(value)
            if whole
            else f"{value:.6f}"
        )
    return shown


def fit(
    sources: Mapping[str, Sequence[Training]], start: Mapping[str, float] = MappingProxyType(START)
) -> dict[str, float]:
    """The values with the least error, all sources alike, from those of `start` on."""

    def total(values: Mapping[str, float]) -> float:
        return sum(error(some, values) for some in sources.values())

    point = Point(total, dict(start), GAIN)
    descend(start, factors(*STEPS), point.attempt, rounds=None)
    return point.values


def report(
    title: str, values: Mapping[str, float], sources: Mapping[str, Sequence[Training]]
) -> None:
    """Values, and the error of each source."""
    print(title, {key: float(f"{value:.3g}") for key, value in values.items()})
    for group, some in sources.items():
        print(
            f"    {group:22} {len(some):4} runs {100 * math.expm1(error(some, values)):6.1f} %",
            flush=True,
        )


def main() -> None:
    """Fits to all sources."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("gpu", choices=GPUS)
    arguments = parser.parse_args()
    sources, start = runs(arguments.gpu), FEW if arguments.gpu == "B200" else START
    report("all sources", fit(sources, start), sources)


if __name__ == "__main__":
    main()
