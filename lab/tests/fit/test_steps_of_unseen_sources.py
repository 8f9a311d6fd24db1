"""Fits of efficiencies on times that are linear in their parameters."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from armillary_lab.fit import rates_without_sources
from armillary_lab.fit import steps_of_unseen_sources as steps
from armillary_lab.measured.training import Training, trainings
from armillary_lab.predict.left_out import PARAMETERS

EFFICIENCY = {"gemm": 0.5, "fp8": 0.5, "fp4": 0.5, "attention": 0.3, "streams": 0.6}


def made(run: Training, kernels: float, rest: float, speed: float) -> steps.Simulated:
    """A run of `kernels` seconds of multiplications and `rest` others, measured with
    multiplications that are `speed` times as fast."""
    measured = replace(run, iter_time_s=kernels / speed + rest)
    return steps.Simulated(
        measured, kernels + rest, {"gemm": kernels / steps.STEP + rest}, EFFICIENCY
    )


def test_times_are_linear_in_what_kernels_cost() -> None:
    """8 s of multiplications at twice the efficiency take 4; none exceeds 0.9 of the peak."""
    each = made(trainings()[0], 8, 2, 1)
    assert each.with_({}) == pytest.approx(10)
    assert each.with_({"gemm": 1.6}) == pytest.approx(8 / 1.6 + 2)
    assert each.with_({"gemm": 5.0}) == pytest.approx(8 / 1.8 + 2)
    assert made(trainings()[0], 8, 2, 1).error({}) == pytest.approx(0)


def test_a_fit_finds_the_speed_that_made_the_times() -> None:
    runs = [run for run in trainings() if run.gpu == "H100"][:8]
    found = steps.fit([made(run, 5 + at, 2, 1.3) for at, run in enumerate(runs)])
    assert found["gemm"] == pytest.approx(1.3, rel=0.03)
    assert abs(math.log(made(runs[0], 8, 2, 1.3).with_(found) / (8 / 1.3 + 2))) < 0.02


def test_what_nothing_constrains_is_like_its_parent() -> None:
    """No run has 4 bits: they follow 8 bits, which follow 16."""
    runs = [run for run in trainings() if run.gpu == "H100"][:8]
    found = steps.fit([made(run, 5, 2, 1.3) for run in runs])
    assert found["fp8"] == pytest.approx(found["gemm"], rel=0.03)
    assert found["fp4"] == pytest.approx(found["fp8"], rel=0.03)


def test_rates_without_a_source_are_those_of_the_others() -> None:
    """nanotron's runs are twice as fast as all others: without it the others' speed is left."""
    of_source: dict[bool, list[Training]] = {True: [], False: []}
    for run in trainings():
        if run.gpu == "H100":
            of_source[run.group == "nanotron_h100"].append(run)
    runs = [made(run, 5, 2, 2.0) for run in of_source[True][:6]]
    runs += [made(run, 5, 2, 1.1) for run in of_source[False][:6]]
    found = {
        (source, name): ratio
        for source, generation, name, ratio in rates_without_sources.rows("H100", runs)
        if generation == "H100"
    }
    assert {name for _, name in found} >= set(PARAMETERS)
    assert found["nanotron", "gemm"] == pytest.approx(1.1, rel=0.03)
