"""Whole links: what is on sale, and the best choice against trying everything."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from instances import overlapping, random_model, total

import armillary as arm
from armillary.design import cost_file, reader, search, whole_links
from armillary.design.optimal import Constraint, NoSolution, Question, optimise
from armillary.estimate.topology import StackDimension

GBITS = 1e9 / 8
TABLE = {
    "links": "pairs",
    "technologies": {
        "node": {"link": 2, "speeds": ["200 Gb/s", "400 Gb/s"], "most": 18},
        "rack": {
            "link": 4,
            "nic": 20,
            "switch": 10,
            "speeds": ["100 Gb/s", "400 Gb/s"],
            "most": 8,
            "radix": 64,
        },
    },
}


def offers(*dimensions: tuple[str, int]) -> list[whole_links.Offer]:
    speeds = [25 * GBITS, 100 * GBITS, 400 * GBITS]
    return [
        whole_links.offer(StackDimension(block, size), speeds, 12) for block, size in dimensions
    ]


def test_what_links_make_of_each_block() -> None:
    """Two links of 100 Gb/s: 25 GB/s to a switch, 12.5 GB/s each way round a ring; among 4 NPUs
    each has 3 or more."""
    speeds = [100 * GBITS]
    switch = whole_links.offer(StackDimension("Switch", 8), speeds, 4)
    assert switch.bandwidths == (12.5e9, 25e9, 37.5e9, 50e9)
    ring = whole_links.offer(StackDimension("Ring", 8), speeds, 4)
    assert ring.bandwidths == (12.5e9, 25e9)
    assert [each.count for each in ring.links] == [2, 4]
    assert whole_links.offer(StackDimension("Ring", 2), speeds, 4).links[0].count == 1
    full = whole_links.offer(StackDimension("FullyConnected", 4), speeds, 6)
    assert full.bandwidths == (37.5e9, 75e9)
    assert [each.count for each in full.links] == [3, 6]


def test_the_fewest_links_make_a_bandwidth() -> None:
    found = whole_links.offer(StackDimension("Switch", 8), [100 * GBITS, 400 * GBITS], 8)
    assert found.links[found.bandwidths.index(50e9)] == whole_links.Links(1, 50e9)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("priced", [False, True])
def test_the_optimum_against_trying_everything(
    seed: int, priced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes of one choice only are tried out, so that the branch and bound has to find the rest."""
    monkeypatch.setattr(whole_links, "_SMALL", 1)
    rng = np.random.default_rng(seed)
    dims = 2 + seed % 2
    blocks = [
        (str(rng.choice(["Switch", "Ring", "FullyConnected"])), int(rng.integers(2, 6)))
        for _ in range(dims)
    ]
    sold = offers(*blocks)
    model = overlapping(rng, dims, 3) if seed % 3 else random_model(rng, dims, 3)
    limits = whole_links.relaxed([total(300e9, dims)], [(each,) for each in sold])
    price = rng.uniform(1e-9, 1e-8, dims) if priced else None
    question = Question((model,), (1.0,), limits)
    found = whole_links.best(question, sold, price)
    best = math.inf
    for choice in itertools.product(*(each.bandwidths for each in sold)):
        if not any(each.is_broken(choice) for each in limits):
            value = model.time(choice) * (
                float(price @ np.array(choice)) if price is not None else 1.0
            )
            best = min(best, value)
    assert found.value == pytest.approx(best, rel=1e-9)
    assert found.bound <= found.value * (1 + 1e-9)
    if not priced:
        assert optimise(question).bound <= found.value * (1 + 1e-9)


def test_a_total_is_met_by_the_finest_dimension() -> None:
    """Below 300 GB/s a switch has steps of 12.5 GB/s at most, seven neighbours far larger ones."""
    sold = [
        whole_links.offer(StackDimension(block, 8), [25 * GBITS, 100 * GBITS, 400 * GBITS], 64)
        for block in ("FullyConnected", "Switch")
    ]
    low = [
        each
        for each in whole_links.relaxed([total(300e9, 2)], [(each,) for each in sold])
        if each.coefficients == (-1.0, -1.0)
    ]
    assert -low[0].limit == pytest.approx(300e9 - 12.5e9)


def test_what_cannot_be_bought_has_no_solution() -> None:
    sold = offers(("Switch", 4), ("Switch", 4))
    model = random_model(np.random.default_rng(1), 2, 2)
    with pytest.raises(NoSolution):
        whole_links.best(Question((model,), (1.0,), (Constraint("x", (1.0, 1.0), 5e9),)), sold)
    with pytest.raises(NoSolution):
        whole_links.best(
            Question((model,), (1.0,), (Constraint("x", (1.0, 0.0), 7e9, True),)), sold
        )


def test_times_of_many_choices_at_once() -> None:
    rng = np.random.default_rng(3)
    model = overlapping(rng, 3, 4)
    grid = rng.uniform(1e9, 1e11, (20, 3))
    assert whole_links.times(model, grid) == pytest.approx(
        [model.time(each) for each in grid], rel=1e-12
    )


def spec(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "npus": 64,
        "npu": {"peak": "989 TFLOPS"},
        "workloads": [{"model": "llama-3-8b", "tp": 8, "overlap": "none"}],
        "topologies": {"dimensions": [2], "largest": {"FullyConnected": 8, "Ring": 8}},
        "bandwidth": "200 GB/s",
        "cost": TABLE,
        "simulate": 0,
        **more,
    }


def everything(task: Any) -> list[float]:  # noqa: ANN401
    """The best value of every topology, each by itself; equal ones once, as the search leaves out
    what is alike."""
    values = []
    for space in task.spaces:
        for blocks in itertools.product(*space.blocks):
            try:
                values.append(search.solve(task, task.choices[0], space.topology(blocks)).value)
            except arm.InputError:
                continue
    return unique(values)


def unique(values: list[float]) -> list[float]:
    kept: list[float] = []
    for each in sorted(values):
        if not kept or each > kept[-1] * (1 + 1e-9):
            kept.append(each)
    return kept


@pytest.mark.parametrize("objective", ["step_time", "performance_per_cost", "cost"])
def test_best_first_over_topologies(objective: str) -> None:
    more = (
        {"objective": objective, "time_bound": "10 s"}
        if objective == "cost"
        else {"objective": objective}
    )
    task = reader.task(spec(**more, top=6))
    found = search.search(task)
    values = [each.value for each in found.designs]
    assert values == sorted(values)
    assert unique(values) == pytest.approx(everything(task)[: len(unique(values))], rel=1e-9)
    assert found.proved == 1.0
    for each in found.designs:
        sold = task.costs.offers(each.topology, each.stack) if task.costs else ()
        assert all(
            float(part) in own.bandwidths for part, own in zip(each.bandwidth, sold, strict=True)
        )
        assert each.continuous is not None
        assert each.continuous <= each.value * (1 + 1e-9)
        if objective != "cost":  # a total is met but for a link of the finest dimension
            assert 200e9 - 50e9 <= each.bandwidth.sum() <= 200e9


def test_a_front_of_whole_links() -> None:
    found = search.search(reader.task(spec(objective="pareto")))
    points = [(each.cost or 0.0, each.time) for each in found.designs]
    assert len(points) > 1
    assert points == sorted(points)
    assert all(later[1] < earlier[1] for earlier, later in itertools.pairwise(points))
    assert all(each.links for each in found.designs)


def test_a_switch_has_the_ports_on_sale() -> None:
    task = reader.task(
        spec(npus=1024, workloads=[{"model": "llama-3-8b", "tp": 8, "overlap": "none"}])
    )
    assert task.spaces
    for space in task.spaces:
        assert space.sizes[1] <= 64 or "Switch" not in space.blocks[1]
    assert any("64" in note and "can't be built" in note for note in task.notes)
    with pytest.raises(arm.InputError, match="needs a switch of 128 ports, rack has 64"):
        reader.task(spec(npus=1024, topologies="SW(8)_SW(128)"))
    with pytest.raises(arm.InputError, match="needs 31 links of an NPU, node has room for 18"):
        reader.task(spec(topologies="FC(32)_SW(2)"))


def test_a_design_of_whole_links_says_so(tmp_path: Path) -> None:
    result = arm.design(spec(simulate=1, topologies="FC(8)_SW(8)"))
    data = result.to_dict()["designs"][0]
    assert [set(each) for each in data["links"]] == [{"count", "speed"}] * 2
    assert data["continuous"] <= data["value"]
    for given, links, wide in zip(data["bandwidth"], data["links"], (1, 1), strict=True):
        assert given == links["count"] * links["speed"] * wide


@pytest.mark.parametrize(
    ("technologies", "reason"),
    [
        ({"a": {"link": 1, "speeds": ["fast"]}}, "'fast' is not an amount above 0"),
        ({"a": {"link": 1, "speeds": ["25 Gb/s"]}, "b": {"link": 1}}, "b has no speeds"),
        ({"a": {"link": 1, "speeds": ["25 Gb/s"], "most": 0}}, "invalid count: 0"),
        ({"a": {"link": 1, "radix": 1}}, "invalid count: 1"),
    ],
)
def test_what_is_wrong_with_a_table(technologies: dict[str, Any], reason: str) -> None:
    with pytest.raises(arm.InputError, match=reason):
        cost_file.load({"technologies": technologies})
