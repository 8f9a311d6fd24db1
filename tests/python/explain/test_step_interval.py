"""The interval of a step, from the labels of its report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from armillary import Result, simulate
from armillary.explain import step_interval
from armillary.uncertainty import Intervals, Residual, steps
from armillary.uncertainty.steps import LIKENESS, labels

KNOWN = labels("H100", "bf16", "transformer", 8)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Intervals]:
    """Two sources whose steps took between 0.8 times what was predicted and 1.25 times."""
    logs = tuple(math.log(1.25) * (at - 10) / 10 for at in range(21))
    found = Intervals(tuple(Residual(s, s, KNOWN, logs) for s in ("a", "b")), LIKENESS)
    monkeypatch.setattr(steps, "of", lambda kind: found if kind == "steps" else None)
    steps.interval.cache_clear()
    yield found
    steps.interval.cache_clear()


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate("llama-3-8b", "dgx-h100", tp=8, dp=1, framework="megatron-lm", detail=True)


def test_a_step_like_measured_ones_has_their_interval(table: Intervals, result: Result) -> None:
    found = step_interval.interval(result.report)
    assert found is not None
    assert found == table.interval(KNOWN)
    assert 0.8 <= found.low < 1 < found.high <= 1.25
    said = step_interval.sentence(result.report)
    assert said is not None
    assert said.startswith("80 % of measured steps like this one would be within")
    assert "extrapolated" not in said


def test_what_was_not_measured_is_named_and_widens_it(table: Intervals, result: Result) -> None:
    plain = step_interval.interval(result.report)
    assert plain is not None
    other = simulate("llama-3-8b", "dgx-h100", tp=8, dp=1, precision="nvfp4", framework="nanotron")
    wide = step_interval.interval(other.report)
    assert wide is not None
    assert wide.outside == ("format nvfp4",)
    assert wide.width > plain.width
    data = step_interval.data(other.report)
    assert data is not None
    assert data["extrapolated"] == ["format nvfp4"]


def test_a_model_with_experts_is_a_tuned_recipe_or_a_first_run(table: Intervals) -> None:
    options: Any = {"ep": 8, "dp": 8, "framework": "megatron-lm"}
    even, uneven = (
        simulate("mixtral-8x7b", "dgx-h100", imbalance=imbalance, **options).report
        for imbalance in (1.0, 1.5)
    )
    data, wide = step_interval.data(even), step_interval.data(uneven)
    assert data is not None and wide is not None
    assert data["assumed"] == [step_interval.TUNED]
    assert str(step_interval.sentence(even)).endswith(f"; assumed: {step_interval.TUNED}")
    assert wide["assumed"] == []
    assert wide["extrapolated"] == [*data["extrapolated"], "routing uneven"]
    assert wide["high_ns"] / wide["low_ns"] > data["high_ns"] / data["low_ns"]


def test_no_measured_step_trains_adapters(table: Intervals) -> None:
    options: Any = {"dp": 8, "framework": "megatron-lm"}
    whole, low = (
        step_interval.data(simulate("llama-3-8b", "dgx-h100", lora_rank=rank, **options).report)
        for rank in (0, 16)
    )
    assert whole is not None and low is not None
    assert low["extrapolated"] == [*whole["extrapolated"], "trained adapters"]
    assert low["high_ns"] / low["low_ns"] > whole["high_ns"] / whole["low_ns"]


def test_differences_within_it(table: Intervals, result: Result) -> None:
    report: Any = result.report
    near, far = ({**report, "step_time_ns": report["step_time_ns"] * by} for by in (1.1, 2.0))
    assert step_interval.indistinct(report, near)  # type: ignore[arg-type]
    assert not step_interval.indistinct(report, far)  # type: ignore[arg-type]


def test_other_workloads_have_none(table: Intervals) -> None:
    report = simulate("resnet-50", "dgx-h100", dp=8).report
    assert step_interval.interval(report) is None
    assert step_interval.sentence(report) is None
    assert step_interval.data(report) is None


def test_the_explanation_names_the_part_that_decides(table: Intervals, result: Result) -> None:
    text = str(result.explain())
    assert "Uncertainty" in text
    assert "Most of it comes from compute" in text
