"""Ranking by simulation: the lower bound, the winner against simulating everything, budgets, time
bounds."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Armillary

import armillary as arm
from armillary.design import check, overlap
from armillary.estimate import topology
from armillary.estimate.floor import Floor
from armillary.report import design as report
from armillary.workload import Program, Workload

SETTINGS: dict[str, object] = {"npu": {"peak": "989 TFLOPS"}, "scheduler.chunks": 64}
NETWORKS = ["SW(64)", "R(8)_R(8)", "FC(4)_FC(4)_SW(4)", "R(4)_SW(16)", "FC(8)_R(8)"]
JOBS: list[tuple[str, dict[str, Any]]] = [
    ("llama-3-8b", {"tp": 4, "dp": 16}),
    ("llama-3-8b", {"tp": 2, "pp": 4, "dp": 8, "global_batch": 64}),
    ("llama-3-8b", {"tp": 4, "pp": 4, "dp": 4, "virtual_stages": 2, "global_batch": 32}),
    ("mixtral-8x7b", {"tp": 1, "ep": 8, "dp": 64}),
    ("llama-3-8b", {"tp": 1, "dp": 64, "zero": 3}),
    ("llama-3-8b", {"tp": 4, "cp": 4, "dp": 4}),
]


def simulated(workload: Workload, net: topology.Topology, bandwidth: list[float]) -> float:
    per = ["link" if each == "Ring" else "npu" for each in net.blocks]
    given = [f"{int(each)} B/s" for each in bandwidth]
    settings = {**SETTINGS, "collectives.rings": "one_way"}
    platform = arm.Platform(str(net), bandwidth=given, latency="0 ns", per=per, settings=settings)
    return arm.simulate(workload, platform).step_time_ns / 1e9


@pytest.mark.parametrize(("model", "options"), JOBS)
def test_no_simulation_is_below_the_floor(model: str, options: dict[str, Any]) -> None:
    """With the chains of every network at once, at random bandwidths; and the floor is worth
    having."""
    rng = np.random.default_rng(7)
    workload = arm.workload.build(model, **options)
    floor = Floor(overlap.job(model, workload, SETTINGS, measured=False), SETTINGS)
    points = []
    for text in NETWORKS:
        net = topology.parse(text)
        assert net is not None
        bandwidth = [
            float(each) for each in np.exp(rng.uniform(np.log(5e9), np.log(4e11), len(net)))
        ]
        floor.show(net, bandwidth)
        points.append((net, bandwidth, simulated(workload, net, bandwidth)))
    for net, bandwidth, seconds in points:
        under = floor.model(net)
        assert under is not None
        assert 0.4 * seconds < under.time(bandwidth) <= seconds, net


def test_a_floor_by_hand() -> None:
    """1 ms, an all-reduce of 4 MB over 4 NPUs at 10 GB/s (6 MB, 0.6 ms), 2 ms; the second rank
    waits for the first."""
    first, second = Program(), Program()
    for program in (first, second):
        before = [program.compute("a", [], duration_ps=10**9)] if program is first else []
        after = program.collective("sum", before, "all_reduce", 4_000_000, "all")
        program.compute("b", [after], duration_ps=2 * 10**9)
    last = first.compute("c", [2], duration_ps=10**9)
    first.send("hand", [last], 4, 100)
    got = second.recv("hand", [], -4, 100)
    second.compute("d", [got], duration_ps=5 * 10**9)
    workload = Workload.mesh(
        "two", [("all", 4), ("stage", 2)], {"all": ["all"]}, ["stage"], [first, second]
    )
    floor = Floor(overlap.job("two", workload, {}, measured=False), {})
    net = topology.parse("SW(4)_SW(2)")
    assert net is not None
    floor.show(net, [10e9, 10e9])
    under = floor.model(net)
    assert under is not None
    assert under.time([10e9, 10e9]) == pytest.approx(1e-3 + 0.6e-3 + 2e-3 + 1e-3 + 5e-3, rel=1e-5)
    assert under.time([1e15, 1e15]) == pytest.approx(9e-3, rel=1e-3)


def test_settings_that_change_what_collectives_send_leave_only_computation() -> None:
    settings = {**SETTINGS, "scheduler.dimension_order": "themis"}
    job = overlap.job("a", arm.workload.build("llama-3-8b", tp=8, dp=8), settings, measured=False)
    floor = Floor(job, settings)
    net = topology.parse("SW(8)_SW(8)")
    assert net is not None
    floor.show(net, [1e9, 1e9])
    under = floor.model(net)
    assert under is not None
    assert under.time([1e9, 1e9]) == pytest.approx(under.time([1e15, 1e15]))


SPEC: dict[str, Any] = {
    "npus": 64,
    "npu": {"peak": "989 TFLOPS"},
    "workloads": [{"model": "mixtral-8x7b", "tp": 1, "ep": 8}],
    "topologies": {"dimensions": [2], "largest": {"Ring": 8, "FullyConnected": 8}},
    "bandwidth": "200 GB/s",
    "cost": "multidim",
}


@cache
def everything() -> Any:  # noqa: ANN401
    """Every topology simulated. Why the model is off is not asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "TOLERANCE", 10)
        return arm.design(SPEC, simulate=100, budget=100)


@cache
def ranked() -> Any:  # noqa: ANN401
    return arm.design(SPEC)


@cache
def cheapest() -> Any:  # noqa: ANN401
    """The least cost with a bound on the simulated step."""
    return arm.design(SPEC, objective="cost", bandwidth=None, time_bound="600 ms", simulate=2)


def test_the_winner_by_simulation_is_not_the_models() -> None:
    """The model is 30 % off here; the order of simulations is another, and it is proved by
    simulating a few."""
    result = ranked()
    assert result.order.status == "proved"
    assert 3 <= len(result.order.trials) < len(everything().order.trials)
    values = [each.value for each in result.order.trials]
    assert values == sorted(values)
    assert str(result.best.topology) == str(everything().best.topology)
    assert result.order.trials[0].value == everything().order.trials[0].value
    data = result.to_dict()
    assert data["designs"][0]["model_rank"] != 1
    assert data["designs"][0]["simulated"]["gap"] == pytest.approx(result.order.trials[0].ratio - 1)
    assert result.table()["simulated_s"][0] == result.order.trials[0].time
    assert report.verdict(data).startswith(f"Build {result.best.topology} with ")
    assert "The order is proved" in report.verdict(data)


def test_designs_within_the_interval_of_the_best_are_counted() -> None:
    """The interval is that of a run on the design. The NPU has no name, which widens it."""
    result = ranked()
    trials = result.order.trials
    interval = arm.simulate(trials[0].design.choice.jobs[0].workload, result.platform()).interval
    assert interval is not None
    assert "gpu NPU" in interval.outside
    assert trials[0].factors == pytest.approx((interval.low, interval.high))
    within = [each for each in trials[1:] if each.time <= trials[0].time * interval.high]
    assert len(within) == result.order.alike
    said = f"does not separate {len(within)} other simulated design"
    assert said in report.verdict(result.to_dict())
    assert cheapest().to_dict()["order"]["alike"] is None
    assert "another simulated design" not in report.verdict(cheapest().to_dict())
    data = result.to_dict()
    unknown = data | {"order": data["order"] | {"alike": None}}
    assert "another simulated design with a similar time may be as good" in report.verdict(unknown)


def test_the_platform_written_is_the_winner(tmp_path: Path) -> None:
    result = ranked()
    result.write_platform(tmp_path / "best.yml")
    platform = arm.Platform.load(tmp_path / "best.yml")
    step = arm.simulate(result.best.choice.jobs[0].workload, platform).step_time_ns / 1e9
    assert step == result.order.trials[0].time == min(each.time for each in result.order.trials)


def test_a_budget_ends_the_search_and_says_so() -> None:
    result = arm.design(SPEC, simulate=1, budget=1)
    assert result.order.status == "budget"
    assert len(result.order.trials) == 1
    assert "not safe" in report.verdict(result.to_dict())
    none = arm.design(SPEC, simulate=0).to_dict()
    assert none["order"]["status"] == "model"
    assert none["designs"][0]["simulated"] is None
    assert "the order is the model's" in report.verdict(none)
    timed = arm.design(SPEC, budget="1 ns")
    assert len(timed.order.trials) == 3


def test_simulated_steps_keep_the_time_bound() -> None:
    """The model is too fast here, so its bound is tightened until the simulation keeps the
    user's."""
    result = cheapest()
    assert result.order.status == "proved"
    assert not result.order.trials[0].late
    assert result.order.trials[0].time <= 0.6 * (1 + 1e-6)
    costs = [each.value for each in result.order.trials if not each.late]
    assert costs == sorted(costs)


def test_the_page_shows_model_and_simulation(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "spec.yml").write_text(json.dumps(SPEC))
    run = armillary(
        "design",
        "spec.yml",
        "--budget",
        "4",
        "--report",
        "page.html",
        "--json",
        "out.json",
        "--figures",
        "f",
    )
    assert run.returncode == 0, run.stderr
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["order"]["simulated"] <= 4
    page = (tmp_path / "page.html").read_text()
    for text in (report.verdict(data), "Simulated", "Model", "Gap"):
        assert text in page, text
    rows = (tmp_path / "f" / "designs.csv").read_text().splitlines()
    assert any("simulated" in row for row in rows)
    assert any("model" in row for row in rows[1:])
    wrong = armillary("design", "spec.yml", "--budget", "soon")
    assert wrong.returncode == 2
    assert "invalid budget for simulations" in wrong.stderr
