"""A design from its specification to its platform file, on the command line and in Python."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

import armillary as arm
from armillary.design.result import DesignResult
from armillary.report import design as report

SPEC: dict[str, Any] = {
    "npus": 64,
    "npu": {"peak": "234 TFLOPS", "memory": {"bandwidth": "2 TB/s", "capacity": "80 GB"}},
    "workloads": [
        {"model": "llama-3-8b", "tp": 8, "micro_batch": 2},
        {"model": "llama-2-7b", "tp": 4, "zero": 1},
    ],
    "topologies": {"dimensions": [2, 3], "largest": {"FullyConnected": 8, "Ring": 8}},
    "bandwidth": "200 GB/s",
    "cost": "multidim",
}


@cache
def designed(objective: str) -> DesignResult:
    return arm.design(SPEC, objective=objective)


@pytest.mark.parametrize("objective", ["step_time", "performance_per_cost"])
def test_the_three_best_are_within_two_percent_of_the_simulator(objective: str) -> None:
    """Or the table says which effect the model leaves out, and how much it is."""
    result = designed(objective)
    assert len(result.checks) >= 3
    for checks in result.checks[:3]:
        for each in checks:
            print(
                f"{each.workload}: model {each.model:.4f} s, simulated {each.simulated:.4f} s, "
                f"{each.gap:+.2%}"
            )
            assert abs(each.gap) <= 0.02 or sum(each.effects.values()) == pytest.approx(
                each.simulated - each.model
            )
        assert abs(checks[0].gap) <= 0.005


def test_effects_add_up_where_the_model_is_off() -> None:
    """Serial where the simulator overlaps: the rest is named, and the parts make up the
    difference."""
    workloads = [{"model": "llama-3-8b", "tp": 8, "overlap": "none"}]
    result = arm.design(
        SPEC, workloads=workloads, topologies="R(8)_SW(8)", bandwidth="50 GB/s", simulate=1
    )
    (each,) = result.checks[0]
    assert each.gap < -0.02
    assert sum(each.effects.values()) == pytest.approx(each.simulated - each.model, rel=1e-6)
    assert each.effects["order and shared links"] < -0.5 * (each.model - each.simulated)


def test_the_platform_file_gives_the_same_step(tmp_path: Path) -> None:
    result = designed("step_time")
    result.write_platform(tmp_path / "best.yml")
    platform = arm.Platform.load(tmp_path / "best.yml")
    assert platform.npus == 64
    job = result.best.choice.jobs[0]
    assert arm.simulate(job.workload, platform).step_time_ns / 1e9 == result.checks[0][0].simulated


def test_parallelisation_is_chosen() -> None:
    """Each combination of a workload is a choice; what the memory can't hold is left out."""
    workloads = [
        {
            "model": "llama-2-7b",
            "tp": [1, 2],
            "pp": [1, 2],
            "global_batch": 64,
            "sp": [False, True],
        }
    ]
    result = arm.design(SPEC, workloads=workloads, topologies="SW(8)_SW(8)", simulate=0, top=20)
    names = [each.choice.name for each in result.found.designs]
    assert len(set(names)) == len(names) > 3
    assert all("tp" in name and "dp" in name for name in names)
    assert any("do not fit" in note for note in result.task.notes)
    times = [each.time for each in result.found.designs]
    assert times == sorted(times)


def test_latency_is_in_the_model() -> None:
    """Slow links in rings, one group over both: the model has their latency, so that it stays with
    the simulator."""
    workloads = [{"model": "llama-2-7b", "tp": 32}]
    given = {
        "npus": 32,
        "topologies": "R(8)_R(4)",
        "workloads": workloads,
        "bandwidth": "100 GB/s",
        "cost": None,
    }
    slow, fast = (arm.design({**SPEC, **given, "latency": each}) for each in ("20 us", "0 ns"))
    assert slow.best.time > fast.best.time * 1.5
    assert abs(slow.checks[0][0].gap) < 0.01
    assert abs(fast.checks[0][0].gap) < 0.01


def test_json_table_and_curves() -> None:
    one = {**SPEC, "workloads": SPEC["workloads"][:1], "topologies": "R(8)_SW(8)"}
    result = arm.design(one, simulate=1, sweep=["100 GB/s", "200 GB/s"])
    data = json.loads(result.to_json())
    assert data["schema"] == "armillary.design/2"
    assert data["search"]["proved"] == 1.0
    first = data["designs"][0]
    assert sum(first["bandwidth"]) == pytest.approx(200e9)
    assert sum(item["dollars"] for item in first["bill"]) == pytest.approx(first["cost"])
    assert result.table().height == len(data["designs"])
    shares = {each.scheme: each for each in result.schemes}
    assert set(shares) == {"EqualBW", "MessageBW", "SmartBW", "optimal"}
    assert shares["optimal"].time <= min(each.time for each in shares.values()) * (1 + 1e-9)
    assert {each.total for each in result.curves} == {100e9, 200e9}
    assert "topology" in result.to_csv().splitlines()[0]


def test_shadow_prices_and_what_schemes_break() -> None:
    """1,000 $ more than 60 k$ save what the printed price says, and EqualBW costs more than
    that."""
    given = {
        "workloads": SPEC["workloads"][:1],
        "topologies": "FC(8)_FC(8)",
        "cost": "libra",
        "bandwidth": None,
    }
    spec = {key: each for key, each in {**SPEC, **given}.items() if each is not None}
    low, high = (
        arm.design({**spec, "constraints": [f"cost <= {k} k$"]}, simulate=0) for k in (60, 61)
    )
    (price,) = (each for each in low.to_dict()["designs"][0]["shadow_prices"]["constraints"])
    assert (price["name"], price["unit"]) == ("cost <= 60 k$", "$")
    assert low.best.time - high.best.time == pytest.approx(1000 * price["saves"], rel=0.05)
    broken = {each["scheme"]: each["breaks"] for each in low.to_dict()["schemes"]}
    assert broken["optimal"] == []
    assert any(names == ["cost <= 60 k$"] for names in broken.values())


@pytest.mark.parametrize("written", ["bw[1] == {} GB/s", "{} GB/s == bw[1]"])
def test_a_limit_that_must_be_met_has_a_price_with_the_right_sign(written: str) -> None:
    """A little more than 10 or 120 GB/s changes the step as printed, whichever side of the
    constraint it is on."""
    one = {
        "workloads": [{"model": "llama-3-8b", "tp": 8, "overlap": "none"}],
        "topologies": "R(8)_SW(8)",
    }
    for at in (10, 120):
        low, high = (
            arm.design({**SPEC, **one}, constraints=[written.format(each)], simulate=0)
            for each in (at, at + 0.1)
        )
        prices = low.to_dict()["designs"][0]["shadow_prices"]["constraints"]
        (price,) = (each for each in prices if each["name"] != "bandwidth.total")
        assert price["change"] == "more"
        assert low.best.time - high.best.time == pytest.approx(0.1e9 * price["saves"], rel=0.05)
        assert report.saving(price["saves"], "step_time").startswith(
            "saves" if at == 10 else "costs"
        )


def test_what_a_price_says() -> None:
    assert report.saving(-0.01512, "step_time") == "costs 15.12 ms"
    assert report.saving(0.0, "step_time") == "changes nothing"
    assert report.saving(1500.0, "cost") == "saves 1.5 k$"


def test_fixed_bandwidths_and_ranges() -> None:
    given = {"total": "200 GB/s", "dimensions": ["150 GB/s", {"least": "10 GB/s"}]}
    result = arm.design(SPEC, topologies="R(8)_SW(8)", bandwidth=given, simulate=0)
    assert result.best.bandwidth.tolist() == pytest.approx([150e9, 50e9], rel=1e-6)
    caps = [{"name": "inter_node"}, {"name": "inter_pod", "most": "20 GB/s", "latency": "3 us"}]
    capped = arm.design(SPEC, topologies="R(8)_SW(8)", cost="libra", technologies=caps, simulate=0)
    assert capped.best.bandwidth.tolist() == pytest.approx([180e9, 20e9], rel=1e-6)
    assert capped.platform().describe()["fabric"]["dims"][1]["link_latency_ps"] == 3_000_000


WRONG: dict[str, Any] = {
    "npus": 64,
    "npu": {"peak": "234 TFLOPS"},
    "workloads": [
        {"model": "llama-3-8b", "tp": 8, "widht": 3},
        {"path": "a", "model": "b"},
        {"model": "nobody"},
    ],
    "topologies": {"dimensions": [2], "largest": {"Torus": 3}, "shape": 1},
    "bandwidth": {"total": "200 GB", "most": "1 GB/s"},
    "constraints": ["bw[0] > 3", "bw[pod] <= 1 GB/s"],
    "objective": "speed",
    "latency": "5",
    "backends": ["packets"],
    "budget": "3 GB",
    "fee": 3,
}


def test_every_problem_at_once() -> None:
    with pytest.raises(arm.InputError) as caught:
        arm.design(WRONG)
    text = str(caught.value)
    for part in (
        "largest",
        "shape",
        "200 GB",
        "both a total",
        "bw[0] > 3",
        "pod",
        "speed",
        "latency",
        "packets",
        "3 GB",
        "fee",
    ):
        assert part in text, part
    sound = {**SPEC, "workloads": WRONG["workloads"]}
    with pytest.raises(arm.InputError) as caught:
        arm.design(sound)
    for part in ("widht", "model and path", "nobody"):
        assert part in str(caught.value), part


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"objective": "cost"}, "needs a time_bound"),
        ({"objective": "pareto", "cost": None}, "needs prices"),
        ({"objective": "performance_per_cost", "bandwidth": {"most": "1 TB/s"}}, "no fixed total"),
        ({"bandwidth": None}, "without a limit"),
        ({"bandwidth": None, "objective": "pareto"}, "without a limit"),
        ({"topologies": "R(999999)_SW(99999)"}, "NPUs"),
        ({"workloads": [{"model": "llama-3-8b", "tp": []}]}, "empty list"),
        ({"workloads": [{"model": "llama-3-8b", "tp": "eight"}]}, "'eight'"),
        ({"topologies": "R(8)_SW(4)"}, "R\\(8\\)_SW\\(4\\) \\(32\\)"),
        (
            {"topologies": {"dimensions": [5], "blocks": ["Ring"], "largest": {"Ring": 2}}},
            "there is none of 64",
        ),
        ({"npu": {"peek": 3}}, "peek"),
        ({"workloads": [{"model": "llama-3-8b", "tp": 5}]}, "heads"),
        ({"workloads": [{"model": "llama-3-8b", "tp": 8, "dp": 2}]}, "16 ranks"),
        ({"workloads": [{"model": "llama-3-8b", "tp": 8}] * 2}, "of another workload"),
        ({"workloads": [{"model": "llama-3-8b", "tp": 8, "overlap": "all"}]}, "unknown overlap"),
        ({"budget": 2}, "invalid budget for simulations: 2 .*3 to 10,000"),
        ({"workloads": [{"model": "llama-3-70b", "tp": 8}]}, "GB on an NPU of 80.0 GB"),
    ],
)
def test_what_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(arm.InputError, match=reason):
        arm.design({key: each for key, each in {**SPEC, **given}.items() if each is not None})


def test_on_the_command_line(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "spec.yml").write_text(json.dumps(SPEC))
    run = armillary(
        "design",
        "spec.yml",
        "-o",
        "best.yml",
        "--json",
        "out.json",
        "--csv",
        "t.csv",
        "--figures",
        "figures",
    )
    assert run.returncode == 0, run.stderr
    assert "duality gap" in run.stdout
    assert "100.0% settled" in run.stdout
    assert "bandwidth.total: 1 GB/s more saves" in run.stdout
    best = json.loads((tmp_path / "out.json").read_text())["designs"][0]
    assert str(arm.Platform.load(tmp_path / "best.yml").npus) == "64"
    assert best["topology"] in run.stdout
    assert (tmp_path / "figures/step-time.svg").is_file()
    wrong = armillary("design", "spec.yml", "--objective", "best")
    assert wrong.returncode == 2
    assert "error: unknown objective 'best'" in wrong.stderr
