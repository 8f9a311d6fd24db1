"""`benches/python/efficiency.py` finds the efficiency that made the times it is given."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from types import ModuleType

import pytest
from conftest import ROOT

from armillary import Platform, simulate
from armillary.validation import training_steps
from armillary.validation.training import Training


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "efficiency", ROOT / "benches/python/efficiency.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sources_of_every_generation(bench: ModuleType) -> None:
    for gpu in bench.GPUS:
        sources = bench.runs(gpu)
        assert sources
        assert all(0 < len(some) <= bench.MOST for some in sources.values())
        assert sources == bench.runs(gpu)  # drawn alike each time


def test_what_made_the_times_is_found(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs whose times are ours with 1.25 times the efficiency of multiplications that a fit
    starts with."""
    monkeypatch.setattr(bench, "STEPS", (1.25,))
    # Large micro-batches of wide layers, where kernels count and not their launches.
    few = sorted(
        bench.runs("A100")["vtrain_single"],
        key=lambda run: run.model.fields["hidden"] * run.micro_batch,
    )[-2:]
    truth = bench.START | {"efficiency.gemm": 1.25 * bench.START["efficiency.gemm"]}
    made = [replace(run, iter_time_s=seconds(bench, run, truth)) for run in few]
    assert bench.error(made, truth) == pytest.approx(0, abs=1e-9)
    assert bench.error(made, bench.START) > 0.01
    found = bench.fit({"made": made[:1], "the same": made[1:]})
    assert found == pytest.approx(truth)
    assert bench.error(made, truth | {"efficiency.gemm": 2.0}) == math.inf


def seconds(bench: ModuleType, run: Training, values: dict[str, float]) -> float:
    preset, settings = training_steps.machine(run)
    platform = Platform.load(preset, {**settings, **bench.overrides(values)})
    return simulate(bench.workload(run.name), platform).step_time_ns / 1e9
