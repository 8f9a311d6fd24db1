"""Schemes of a design as rows and as platform files: for any set of workloads, with costs, next to
the recommended design."""

from __future__ import annotations

import csv
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

import armillary as arm
from armillary.design.curves import NAMES, BandwidthShare, missing
from armillary.design.result import DesignResult

pytestmark = pytest.mark.usefixtures("workers_in_copies")

TWO: list[dict[str, Any]] = [
    {"model": "llama-3-8b", "tp": 8, "micro_batch": 2},
    {"model": "llama-2-7b", "tp": 4, "zero": 1, "weight": 3},
]
SPEC: dict[str, Any] = {
    "npus": 64,
    "npu": {"peak": "234 TFLOPS"},
    "workloads": TWO,
    "topologies": "R(8)_SW(8)",
    "bandwidth": "200 GB/s",
    "cost": "multidim",
    "objective": "performance_per_cost",
}


@cache
def designed() -> DesignResult:
    return arm.design(SPEC, simulate=0)


def _value(objective: str, share: BandwidthShare) -> float:
    """Quantity that the objective minimizes."""
    cost = share.cost or 0.0
    named = {"step_time": share.time, "cost": cost, "performance_per_cost": share.time * cost}
    return named[objective]


def _recommended(result: DesignResult) -> None:
    """The last row is the design of the first line, to the last digit."""
    row = result.schemes[-1]
    assert row.scheme == "optimal"
    assert row.bandwidth.tolist() == result.best.bandwidth.tolist()
    assert (row.time, row.cost) == (result.best.time, result.best.cost)


def test_two_workloads_have_every_scheme_and_the_recommended_design() -> None:
    result = designed()
    assert tuple(each.scheme for each in result.schemes) == NAMES
    assert {each.scheme for each in result.curves} == set(NAMES)
    assert result.notes == ()
    _recommended(result)


def test_cost_and_performance_per_cost_are_in_text_json_and_page(
    armillary: Armillary, tmp_path: Path
) -> None:
    """Prices of Table II: a Ring has links only, a Switch NICs and ports, too."""
    spec = tmp_path / "spec.yml"
    spec.write_text(json.dumps(SPEC))
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    args = ("design", spec, "--simulate", "0", "--report", page, "--json", data)
    text = armillary(*args).stdout
    found = json.loads(data.read_text())
    best, rows = found["designs"][0], found["schemes"]
    price = [_dollars_per_byte(best, dimension) for dimension in range(2)]
    for row in rows:
        cost = sum(a * b for a, b in zip(price, row["bandwidth"], strict=True))
        assert row["cost"] == pytest.approx(cost, rel=1e-9)
        assert row["performance_per_cost"] == pytest.approx(1 / (cost * row["step_time"]))
        shown = f"{row['performance_per_cost'] * 1e6:.4g}"
        assert any(row["scheme"] in line and shown in line for line in text.splitlines())
        assert shown in page.read_text()
    assert rows[-1]["bandwidth"] == best["bandwidth"]
    assert (rows[-1]["step_time"], rows[-1]["cost"]) == (best["weighted_step_time"], best["cost"])
    assert rows[-1]["performance_per_cost"] == max(each["performance_per_cost"] for each in rows)


def _dollars_per_byte(design: dict[str, Any], dimension: int) -> float:
    items = [each["dollars"] for each in design["bill"] if each["dimension"] == dimension]
    return float(sum(items) / design["bandwidth"][dimension])


@pytest.mark.parametrize("seed", range(12))
def test_no_scheme_beats_the_recommended_design(seed: int) -> None:
    """In the objective, of the schemes that keep every limit; and each uses the total up."""
    drawn = random.Random(seed)
    objective = ("step_time", "performance_per_cost", "cost", "pareto")[seed % 4]
    total = drawn.choice([20, 75, 200, 600])
    spec = {
        **SPEC,
        "workloads": drawn.sample(_WORKLOADS, drawn.randint(1, 3)),
        "topologies": drawn.choice(["R(8)_SW(8)", "FC(4)_R(4)_SW(4)", "SW(64)", "R(2)_SW(32)"]),
        "bandwidth": drawn.choice([f"{total} GB/s", {"most": f"{total} GB/s"}])
        if objective == "step_time"
        else f"{total} GB/s",
        "objective": objective,
        "cost": "whole-links" if seed in (4, 9) else "multidim",
        "constraints": ["bw[0] >= 5 GB/s"],
    }
    if objective == "cost":
        spec |= {"time_bound": "60 s"}
    result = arm.design(spec, simulate=0)
    _recommended(result)
    best = result.schemes[-1]
    assert best.breaks == ()
    for each in result.schemes:
        assert sum(each.bandwidth) == pytest.approx(each.total)
        assert each.total <= total * 1e9 * (1 + 1e-6)
        if each.breaks:
            continue
        if objective == "pareto":
            assert each.time >= best.time * (1 - 1e-6) or (each.cost or 0) >= (best.cost or 0)
        else:
            assert _value(objective, best) <= _value(objective, each) * (1 + 1e-6)


_WORKLOADS: list[dict[str, Any]] = [
    {"name": "a", "model": "llama-3-8b", "tp": 8, "weight": 2, "overlap": "none"},
    {"name": "b", "model": "llama-2-7b", "tp": 4, "zero": 1, "overlap": "none"},
    {"name": "c", "model": "llama-2-7b", "tp": 16, "weight": 0.3, "overlap": "none"},
    {"name": "d", "model": "llama-2-7b", "tp": 2, "pp": 2, "overlap": "none"},
    {"name": "e", "model": "transformer-17b"},
]


def test_a_written_scheme_simulates_the_step_of_its_row(tmp_path: Path) -> None:
    """To the last digit; and what the model says is within the 2 % in which it is said to agree,
    where collectives wait for one another."""
    workloads = [{"model": "transformer-17b"}, {"model": "llama-3-8b", "tp": 8, "micro_batch": 2}]
    result = arm.design(SPEC, workloads=workloads, simulate=1)
    assert result.write_schemes(tmp_path) == [f"{name}.yml" for name in NAMES]
    for row in result.schemes:
        platform = arm.Platform.load(tmp_path / f"{row.scheme}.yml")
        step = sum(
            job.weight * arm.simulate(job.workload, platform).step_time_ns / 1e9
            for job in result.best.choice.jobs
        )
        assert step == row.simulated == pytest.approx(row.time, rel=0.02), row.scheme
    assert result.schemes[-1].simulated == result.order.trials[0].time


def test_written_schemes_are_swept(armillary: Armillary, tmp_path: Path) -> None:
    spec, folder, best = tmp_path / "spec.yml", tmp_path / "schemes", tmp_path / "best.yml"
    spec.write_text(json.dumps({**SPEC, "workloads": [{"model": "transformer-17b"}]}))
    args = ("design", spec, "--schemes", folder, "-o", best, "--json", "-")
    data = json.loads(armillary(*args).stdout)
    assert (folder / "optimal.yml").read_bytes() == best.read_bytes()
    files = [str(folder / f"{name}.yml") for name in NAMES]
    study = {
        "workload": {"model": "transformer-17b", "options": {"dp": 64}},
        "platform": files[0],
        "parameters": {"platform.file": files},
    }
    swept = dict(arm.sweep(study).table.select("platform.file", "step_time_ns").rows())
    for file, row in zip(files, data["schemes"], strict=True):
        assert swept[file] / 1e9 == row["simulated"] == pytest.approx(row["step_time"], rel=0.02)


def test_a_scheme_that_is_not_there_is_refused() -> None:
    result = designed()
    with pytest.raises(arm.InputError, match="there is no scheme 'smart'") as caught:
        result.platform(scheme="smart")
    assert "EqualBW, MessageBW, SmartBW, optimal" in str(caught.value)


def test_schemes_that_do_not_keep_whole_links_or_a_time_bound_say_so() -> None:
    whole = arm.design(SPEC, simulate=0, cost="whole-links")
    assert all("whole links" in each.breaks for each in whole.schemes if each.scheme == "SmartBW")
    assert whole.schemes[-1].breaks == ()
    slow = arm.design(SPEC, simulate=0, objective="step_time")
    bound = min(each.time for each in slow.schemes)
    alone = {**SPEC, "workloads": TWO[:1]}
    least = min(each.time for each in arm.design(alone, simulate=0, objective="step_time").schemes)
    assert least < bound
    tight = arm.design(alone, simulate=0, time_bound=f"{least * 1.001:.6f} s")
    broken = {each.scheme: each.breaks for each in tight.schemes}
    assert broken["EqualBW"] == ("time_bound of llama-3-8b",)
    assert broken["optimal"] == ()


def test_what_is_left_out_has_a_note() -> None:
    """A total below what a constraint needs has no optimum; the plots say which."""
    result = arm.design(SPEC, simulate=0, constraints=["bw[1] >= 80 GB/s"])
    (note,) = missing(result.curves)
    assert note == "optimal is left out at a total of 66.67 GB/s: the limits allow no such total"


def test_rows_of_the_plots_follow_the_objective(tmp_path: Path) -> None:
    """The optimum of each total has the most performance per cost there."""
    result = designed()
    result.write_figures(tmp_path)
    text = (tmp_path / "performance-per-cost.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    for total in {row["total"] for row in rows}:
        some = {row["scheme"]: float(row["value"]) for row in rows if row["total"] == total}
        assert some["optimal"] == pytest.approx(max(some.values()), rel=1e-6)
