"""Measured runs of inference engines: what is read of them, errors of predictions, and choices."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from armillary.serve import Calibrated, Choices, calibrated, serve
from armillary.serve.fleet import Fleet
from armillary.serve.intervals import uncertain
from armillary.serve.limits import Limits
from armillary.uncertainty.serving import QUANTITIES
from armillary_lab.fit.serving import KEYS, SPREAD, START, Slope, solved
from armillary_lab.fit.serving_residuals import Left, residuals
from armillary_lab.measured.serving import (
    BLOCKS,
    Pool,
    Run,
    Unused,
    measured,
    of_table,
    requests,
    runs,
)
from armillary_lab.predict.serving import Prediction, engines, predict, replay, single_requests
from armillary_lab.score.serving import (
    GOOD,
    choices,
    errors,
    frontier,
    of_requests,
    rate,
    spread,
    tpot,
    ttft,
)

PAGE = ROOT / "../shared/truth/serving/infmax_2025_10_web.csv"


def test_every_row_is_used_once_or_has_a_reason() -> None:
    rows = measured()
    assert len(rows) == 2598
    reasons = Counter(each.reason for each in rows if isinstance(each, Unused))
    few = reasons.pop("the number of requests at a time is unknown")
    assert few == 9 and min(reasons.values()) >= 20
    assert sum(reasons.values()) + few + len(runs()) == 2598
    found = {
        (run.gpu, run.engine, run.precision, run.prompt, run.output, run.concurrency, run.ttft)
        for run in runs()
    }
    assert len(found) == len(runs())


def test_layouts_are_those_of_the_run_and_fit_one_node() -> None:
    one = [run for run in runs() if len(run.pools) == 1]
    assert max(run.gpus for run in one) == 8
    assert all(pool.tp * pool.dp % pool.ep == 0 for run in one for pool in run.pools)


def test_layouts_of_november_are_those_of_december() -> None:
    """Rows of gpt-oss on the H200 without a layout of experts, and their repeats that have one."""
    pairs = dict[tuple[object, ...], list[Run]]()
    for run in runs():
        if (run.engine, run.gpu, run.model) == ("trtllm", "h200", "gpt-oss-120b"):
            key = (run.prompt, run.output, run.concurrency, run.gpus)
            pairs.setdefault(key, []).append(run)
    ratios = []
    for group in pairs.values():
        old = [run for run in group if run.day.startswith("2025-11")]
        new = [run for run in group if run.day.startswith("2025-12")]
        for one, other in zip(old, new, strict=False):
            assert one.pools == other.pools and one.pools[0].ep == one.gpus
            assert one.tpot and other.tpot
            ratios.append(abs(one.tpot / other.tpot - 1))
    assert len(ratios) >= 30
    assert sorted(ratios)[len(ratios) // 2] < 0.01


def test_a_sample_of_runs_is_as_close_as_the_page_says() -> None:
    """Every 40th run on one pool: `lab/accuracy/serving.md` has all of them."""
    chosen = [run for run in runs() if len(run.pools) == 1][::40]
    found = [each for each in map(predict, chosen) if isinstance(each, Prediction)]
    assert len(found) >= 24
    token, first = errors(found, tpot), errors(found, ttft)
    assert token is not None and first is not None
    assert token.median < 0.12
    assert token.ninth < 0.30
    assert first.median < 0.30


@pytest.fixture(scope="module")
def calibration() -> Calibrated:
    """From the first 30 of the single requests."""
    return calibrated(*single_requests(), 30)


@pytest.mark.xdist_group("single requests")
def test_single_requests_before_and_after_a_calibration(calibration: Calibrated) -> None:
    found, arrived = single_requests()
    before = of_requests(serve(found, arrived))
    assert before.count == 300
    assert before.latency < 0.15
    assert before.ttft < 0.25
    made = calibration
    after = of_requests(serve(made.engines, arrived), 30)
    assert after.count == 270
    assert after.latency < 0.025
    assert after.ttft < 0.06
    assert after.latency < before.latency and after.ttft < before.ttft


@pytest.mark.xdist_group("single requests")
def test_intervals_hold_the_single_requests(calibration: Calibrated) -> None:
    """An open loop on a GPU that no residual is of. A calibration makes them narrower."""
    found, arrived = single_requests()
    ratios = []
    for kind in (found, calibration.engines):
        fleet = Fleet(kind)
        within = uncertain(fleet.serve(arrived), Limits(), fleet)
        assert within is not None
        low, high = within.ttft["mean"]
        assert low <= sum(ttft for ttft, _ in arrived.measured) / 300 <= high
        assert "gpu RTX" in within.extrapolated
        ratios.append(high / low)
    assert ratios[1] < 0.8 * ratios[0]


def test_residuals_are_those_of_their_runs() -> None:
    """Hand calculation: a run as measured and twice as slow, and the rest after the middle load."""
    several = [run for run in runs() if len(run.pools) == 1 and run.engine == "vllm"]
    one = next(run for run in several if run.concurrency == 16)
    loads = [replace(one, concurrency=count) for count in (4, 16, 64)]
    left = [
        Left(run, (run.ttft or 0.0) * by, (run.tpot or 0.0) * by)
        for run, by in zip(loads, (1.0, 2.0, 0.5), strict=True)
    ]
    found = residuals(left)
    assert set(found) == set(QUANTITIES)
    for name, sign in (("ttft", 1), ("tpot", 1), ("rate", -1)):
        logs: dict[str, list[float]] = {"as they come": [], "calibrated": []}
        for each in found[name]:
            assert each.source == f"vllm on {one.gpu}"
            logs[each.labels["times"]] += each.logs
        two = 0.693
        assert sorted(logs["as they come"]) == [-two, 0.0, two]
        assert sorted(sign * log for log in logs["calibrated"]) == [two, 1.386]


def test_blocks_are_nearly_those_that_the_engine_printed() -> None:
    found, _ = replay(requests(), "RTX4090", "Llama-3.1-8B", Choices())
    assert found.blocks == pytest.approx(BLOCKS, rel=0.01)


def test_a_fit_finds_the_values_that_times_were_made_from() -> None:
    """Times that change evenly, with one far away in ten."""
    draw = np.random.default_rng(3)
    true = np.array([3.0, 400.0, 700.0, 0.4, 5.0, 12.0, 5.0])
    start = np.array([START[key] for key in KEYS])
    spread_of = np.array([SPREAD[key] for key in KEYS])
    change = draw.uniform(0, 0.2, (len(KEYS), 300, 2)) / spread_of[:, None, None]
    logs = np.tensordot(start - true, change, 1)
    logs[::10] += 2.0
    chosen = [run for run in runs() if run.engine == "vllm"][:300]
    found = Slope(tuple(chosen), start, logs, change)
    assert solved(found, lambda _: True) == pytest.approx(true, rel=0.1)
    half = {run.name for run in chosen[::2]}
    assert solved(found, lambda run: run.name in half) == pytest.approx(true, rel=0.15)


def prediction(speed: float, much: float, ours: tuple[float, float]) -> Prediction:
    run = Run(
        "x", "page", "", "b200", "m", "vllm", "", "fp8", 1024, 1024, 8, (Pool(1, 1, 1, 1, 1),),
        None, None, much, speed,
    )  # fmt: skip
    return Prediction(run, 1.0, 1.0, ours[1], ours[0])


def test_exact_predictions_choose_the_best_deployment() -> None:
    draw = random.Random(7)
    points = [(draw.uniform(10, 100), draw.uniform(10, 100)) for _ in range(12)]
    exact = [prediction(fast, much, (fast, much)) for fast, much in points]
    made = choices(exact)
    assert [each.least for each in made] == frontier(exact)
    assert all(each.reached == 1.0 for each in made)
    # Throughputs the other way round choose the worst that is as fast.
    wrong = [prediction(fast, much, (fast, -much)) for fast, much in points]
    assert sum(each.reached for each in choices(wrong)) < 0.9 * len(made)
    assert any(each.reached < GOOD for each in choices(wrong))
    assert choices(exact[:4]) == []


def test_a_margin_keeps_the_best_where_all_predictions_are_too_slow() -> None:
    draw = random.Random(8)
    points = [(draw.uniform(10, 100), draw.uniform(10, 100)) for _ in range(12)]
    slow = [prediction(fast, much, (0.96 * fast, much)) for fast, much in points]
    assert all(each.reached == 1.0 for each in choices(slow, margin=0.05))
    assert any(each.reached < 1.0 for each in choices(slow))
    fast = [prediction(fast, much, (1.2 * fast, much)) for fast, much in points]
    allowed, strict = choices(fast), choices(fast, miss=0.0)
    assert all(one.reached >= other.reached for one, other in zip(allowed, strict, strict=True))


def test_spreads_are_of_sizes_and_the_bias_has_a_sign() -> None:
    found = spread([-0.3, 0.1, -0.2, 0.0, -0.1])
    assert found is not None
    assert (found.count, found.median, found.ninth, found.bias) == (5, 0.1, 0.3, -0.1)
    assert spread([]) is None


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not at hand (../shared/truth)")
def test_the_page_is_predicted_without_a_fit() -> None:
    """On MI300X and MI355X four values were fitted to it: they are left out here."""
    every = [row for row in of_table(str(PAGE)) if isinstance(row, Run)]
    rows = [row for row in every if not row.gpu.startswith("mi")]
    assert (len(every), len(rows)) == (915, 580)
    found = [each for each in map(predict, rows[::30]) if isinstance(each, Prediction)]
    error = errors(found, rate)
    assert error is not None and error.median < 0.12


def test_what_a_page_says_of_unknown_machines_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "page.csv"
    head = "scraped,model,hw,precision,isl_osl,conc,tp,tput_per_gpu,"
    head += "median_interactivity_tok_s_user,median_e2e_s\n"
    lines = [
        "2025-10-25,gpt-oss 120B,mi250x,fp4,1k-1k,16,4,976.6,131.4,7.2",
        "2025-10-24,gpt-oss 120B,h100,fp4,1k-1k,16,4,976.6,131.4,7.2",
        "2025-10-25,gpt-oss 120B,h100,fp4,1k-2k,16,4,976.6,131.4,7.2",
        "2025-10-25,gpt-oss 120B,h100,fp4,1k-1k,16,4,,131.4,",
    ]
    path.write_text(head + "\n".join(lines) + "\n")
    rows = of_table(str(path))
    assert [isinstance(row, Unused) for row in rows] == [True, True, True, False]
    assert isinstance(rows[3], Run) and rows[3].rate is None
    assert engines(rows[3], rows[3].pools[0]).gpus == 4
