"""Latencies of exchanges: a plan pays each exchange that its tables need once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import loads_anywhere, sizes
from thorough import usually

import armillary as arm
from armillary.model import Model
from armillary.model.dlrm import EmbeddingTable
from armillary.plan import costs
from armillary.plan.choice import Plan
from armillary.plan.costs import (
    EXCHANGES,
    Exchange,
    Rates,
    Sizes,
    Way,
    platform_rates,
    volume_rates,
    ways,
)
from armillary.plan.exchanges import search_exchanges

NETWORK = """
topology: Switch(4)_Switch(2)
links:
  - {{bandwidth: 100 GB/s, per: npu, latency: {us} us}}
  - {{bandwidth: 10 GB/s, per: npu, latency: {us} us}}
npu: {{peak: 100 TFLOPS, memory: {{bandwidth: 1000 GB/s, capacity: 40 GB}}}}
"""
STEP = {"local_batch": 64, "pipeline": False, "ranks_per_node": 4}
"""A step with short MLPs whose exchanges nothing hides."""


def tiny(seed: int) -> tuple[Model, arm.Platform]:
    """8 to 60 tables of 20 to 50,000 rows, on 8 ranks with links of 1 to 20 us."""
    random = np.random.default_rng(seed)
    rows = np.exp(random.uniform(np.log(20), np.log(50_000), int(random.integers(8, 61))))
    made = [
        {
            "name": f"t{at}",
            "rows": int(count),
            "dim": int(random.choice([16, 32, 64])),
            "pooling": int(random.integers(1, 20)),
        }
        for at, count in enumerate(rows)
    ]
    fields = {"dense_features": 16, "bottom": [16], "interaction": {"kind": "concat"}, "top": [1]}
    network = NETWORK.format(us=int(random.choice([1, 5, 20])))
    return Model("tiny", "dlrm", {**fields, "tables": made}), arm.Platform.parse(network)


def simulated(model: Model, platform: arm.Platform, plan: Plan) -> float:
    """Seconds of a step."""
    workload = arm.workload.dlrm(model, dp=8, plan=plan.sharding, **STEP)
    return arm.simulate(workload, platform).step_time_ns / 1e9


@pytest.mark.parametrize("seed", range(usually(2, 4)))
def test_latencies_choose_plans_with_faster_steps(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs in proportion to bytes mix copies and whole tables, whose step has every exchange. With
    latencies the tables share exchanges, the step is faster, and nearer to the sum of costs."""
    model, platform = tiny(seed)
    paying = arm.plan(model, platform, simulate=False, local_batch=64)

    def in_proportion(platform: arm.Platform, each: int) -> Rates:
        return replace(platform_rates(platform, each), latencies={})

    monkeypatch.setattr(costs, "platform_rates", in_proportion)
    before = arm.plan(model, platform, simulate=False, local_batch=64)
    assert len({EXCHANGES[table.scheme] for table in before.sharding.tables}) == 2
    assert len({EXCHANGES[table.scheme] for table in paying.sharding.tables}) == 1
    step, slower = (simulated(model, platform, plan) for plan in (paying, before))
    assert step < 0.95 * slower
    assert abs(step - paying.highest) < abs(slower - before.highest)


def test_latencies_by_hand() -> None:
    """Two ranks, 3 us between them. An all-to-all and a reduce-scatter are one message, an
    all-reduce two."""
    text = """
topology: FullyConnected(2)
links: {bandwidth: 100 GB/s, latency: 3 us, per: npu}
collectives: {all_reduce: ring, all_to_all: direct}
npu: {peak: 1 TFLOPS, memory: {bandwidth: 1000 GB/s, capacity: 1 GB}}
"""
    rates, shape = platform_rates(arm.Platform.parse(text), 2), Sizes(2, 2, 8, 2, 2, 2, 2, 8, "sgd")
    expected = {"table": 4 * 3e-6, "column": 4 * 3e-6, "row": 4 * 3e-6, "data": 2 * 3e-6}
    for scheme, seconds in expected.items():
        assert rates.once([scheme], shape) == pytest.approx(seconds, rel=0.01), scheme  # type: ignore[list-item]
    both = rates.once(["table", "column", "row"], shape)
    assert both == pytest.approx(6 * 3e-6, rel=0.01), "inputs are distributed once"
    there = replace(shape, distributed=False)
    assert rates.once(["table"], there) == pytest.approx(2 * 3e-6, rel=0.01), "they are in place"
    assert rates.all_to_all == pytest.approx(0.5 / 100e9, rel=0.01), "half of a buffer is sent"


def least(options: list[list[Way]], shape: Sizes, rates: Rates) -> float:
    """The lowest greatest load of all plans."""
    found = np.inf
    every = [[(way.scheme, loads_anywhere(way, shape)) for way in each] for each in options]
    for chosen in itertools.product(*every):
        once = rates.once([scheme for scheme, _ in chosen], shape)
        sums = np.zeros((1, shape.ranks))
        for _, loads in chosen:
            sums = (sums[:, None] + loads).reshape(-1, shape.ranks)
        found = min(found, float(sums.max(1).min()) + once)
    return found


TABLE = st.builds(
    EmbeddingTable,
    st.just("t"),
    st.integers(4, 20_000),
    st.sampled_from([16, 32]),
    st.integers(1, 40),
)


@settings(max_examples=usually(15, 300), deadline=None)
@given(
    made=st.lists(TABLE, min_size=1, max_size=3),
    latencies=st.fixed_dictionaries(
        {each: st.integers(0, 3 * 10**6) for needed in EXCHANGES.values() for each in needed}
    ),
)
def test_the_bound_is_below_every_plan_with_latencies(
    made: list[EmbeddingTable], latencies: dict[Exchange, float]
) -> None:
    shape, rates = sizes(4, 2), replace(volume_rates(), latencies=latencies)
    options = [ways(table, shape, rates) for table in made]
    found = search_exchanges(options, np.zeros(4, np.int64), 10**12, shape, rates)
    best = least([[way for way in each if len(way.costs) < 3] for each in options], shape, rates)
    assert found.best is not None
    assert found.bound <= found.best.highest * (1 + 1e-9)
    assert found.bound <= best * (1 + 1e-9)
    assert best <= found.best.highest * (1 + 1e-9)
