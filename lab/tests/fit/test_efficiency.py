"""`armillary_lab.fit.efficiency` finds the efficiency that made the times it is given."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from armillary import Platform, simulate
from armillary_lab.fit import efficiency
from armillary_lab.measured.training import Training
from armillary_lab.predict import training_steps


def test_sources_of_every_generation() -> None:
    for gpu in efficiency.GPUS:
        sources = efficiency.runs(gpu)
        assert sources
        assert all(0 < len(some) <= efficiency.MOST for some in sources.values())
        assert sources == efficiency.runs(gpu)  # drawn alike each time


def test_what_made_the_times_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs whose times are ours with 1.25 times the efficiency of multiplications that a fit
    starts with."""
    monkeypatch.setattr(efficiency, "STEPS", (1.25,))
    # Large micro-batches of wide layers, where kernels count and not their launches.
    few = sorted(
        efficiency.runs("A100")["vtrain_single"],
        key=lambda run: run.model.fields["hidden"] * run.micro_batch,
    )[-2:]
    truth = efficiency.START | {"efficiency.gemm": 1.25 * efficiency.START["efficiency.gemm"]}
    made = [replace(run, iter_time_s=seconds(run, truth)) for run in few]
    assert efficiency.error(made, truth) == pytest.approx(0, abs=1e-9)
    assert efficiency.error(made, efficiency.START) > 0.01
    found = efficiency.fit({"made": made[:1], "the same": made[1:]})
    assert found == pytest.approx(truth)
    assert efficiency.error(made, truth | {"efficiency.gemm": 2.0}) == math.inf


def seconds(run: Training, values: dict[str, float]) -> float:
    preset, settings = training_steps.machine(run)
    platform = Platform.load(preset, {**settings, **efficiency.overrides(values)})
    workload = efficiency.workload(run.name)
    assert workload is not None
    return simulate(workload, platform).step_time_ns / 1e9
