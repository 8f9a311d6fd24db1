"""Search and fronts: against trying everything."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from instances import random_model, total
from thorough import some

from armillary.design import pareto_front, reader, search
from armillary.design.optimal import Question
from armillary.design.solving import Design
from armillary.errors import InputError
from armillary.estimate.topology import Topology

WORKLOADS = [
    {"model": "llama-3-8b", "tp": 4, "micro_batch": 2},
    {"model": "llama-2-7b", "tp": 2, "weight": 0.5},
]


def spec(**more: Any) -> Mapping[str, Any]:  # noqa: ANN401
    return {
        "npus": 32,
        "npu": {"peak": "200 TFLOPS"},
        "workloads": WORKLOADS,
        "topologies": {"dimensions": [1, 2, 3], "largest": {"FullyConnected": 8}},
        "bandwidth": "100 GB/s",
        "cost": "libra",
        "top": 12,
        **more,
    }


def everything(task: Any) -> list[Design]:  # noqa: ANN401
    """Every topology, solved by itself, best first."""
    found = []
    for space in task.spaces:
        for blocks in itertools.product(*space.blocks):
            topology: Topology = space.topology(blocks)
            try:
                found.append(search.solve(task, task.choices[0], topology))
            except InputError:
                continue
    return sorted(found, key=lambda each: each.value)


@pytest.mark.parametrize(
    "more",
    some(
        [
            {"objective": "step_time"},
            {"objective": "performance_per_cost", "npus": 16},
            {"objective": "cost", "bandwidth": {"most": "1 TB/s"}, "time_bound": "4 s"},
            {"objective": "step_time", "constraints": ["cost <= 60 k$", "bw[0] >= bw[-1]"]},
            {"objective": "step_time", "constraints": ["cost >= 100 k$"]},
        ]
    ),
    ids=lambda more: "-".join(map(str, more.values())),
)
def test_best_first_and_nothing_missed(more: dict[str, Any]) -> None:
    task = reader.task(spec(**more))
    found = search.search(task)
    alone = everything(task)
    assert found.proved == 1.0
    assert found.topologies == sum(each.count for each in task.spaces)
    values = [each.value for each in found.designs]
    assert values == sorted(values)
    # Topologies that differ in nothing that matters are listed once, so compare the distinct
    # values.
    distinct = sorted({round(each.value / alone[0].value, 5) for each in alone})
    ours = sorted({round(each / alone[0].value, 5) for each in values})
    assert ours == distinct[: len(ours)]
    assert len(values) == 12 or found.listed + found.excluded + found.infeasible == found.topologies
    assert all(each.gap < 1e-6 for each in found.designs)


def test_a_front_is_what_nothing_beats() -> None:
    task = reader.task(spec(objective="pareto", bandwidth={"most": "200 GB/s"}))
    found = search.search(task)
    points = [(each.cost or 0.0, each.time) for each in found.designs]
    assert points == sorted(points)
    assert [time for _, time in points] == sorted((time for _, time in points), reverse=True)
    assert len(points) > 5
    fast = search.search(
        reader.task(spec(objective="step_time", bandwidth={"most": "200 GB/s"}, top=1))
    )
    assert points[-1][1] == pytest.approx(fast.designs[0].time, rel=1e-6)


def test_least_product_against_a_grid() -> None:
    """Step time times cost on two dimensions: no split of the total is below the bound, and the
    best one meets it."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        model = random_model(rng, 2, 2)
        price = np.exp(rng.normal(0, 2, 2)) * 1e-9
        best = pareto_front.least_product(Question((model,), (1.0,), (total(1e11, 2),)), price)
        grid = np.linspace(0.001, 0.999, 1999) * 1e11
        products = [
            model.time([x, 1e11 - x]) * float(price @ np.array([x, 1e11 - x])) for x in grid
        ]
        assert min(products) >= best.bound * (1 - 1e-9)
        assert best.value <= min(products) * (1 + 1e-6)
        assert best.bound >= best.value * (1 - 1e-6)


def test_a_limited_search_says_what_is_not_proved() -> None:
    task = reader.task(spec(most=14))
    found = search.search(task)
    assert found.programs == 14
    assert 0 < found.proved < 1


def test_groups_that_have_no_place() -> None:
    """2 ranks of each 5 are no aligned part of a ring of 5."""
    with pytest.raises(
        InputError, match=r"can't be laid out on R\(5\)_R\(4\) .*such as 2 x 10 NPUs"
    ):
        search.search(
            reader.task(
                spec(npus=20, topologies="R(5)_R(4)", workloads=[{"model": "llama-3-8b", "tp": 2}])
            )
        )


def test_nothing_left_names_what_conflicts() -> None:
    wrong = ["bw[0] >= 90 GB/s", "bw[-1] >= 20 GB/s", "bw[0] >= bw[-1]"]
    with pytest.raises(InputError) as caught:
        search.search(reader.task(spec(topologies="R(4)_SW(8)", constraints=wrong)))
    assert "bandwidth.total; bw[0] >= 90 GB/s; bw[-1] >= 20 GB/s" in str(caught.value)
    with pytest.raises(InputError, match=r"llama-2-7b: at most 0\.001 s"):
        search.search(reader.task(spec(topologies="R(4)_SW(8)", time_bound="1 ms")))
