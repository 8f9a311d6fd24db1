"""Plans: never over memory, never worse than heuristics or TorchRec, never below the bound."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_records import answers
from problems import Instance, bytes_anywhere, instance, loads_anywhere, sizes, tables
from thorough import usually

import armillary as arm
from armillary.model.dlrm import EmbeddingTable
from armillary.model.sharding_plan import ShardingPlan
from armillary.model.sharding_plan_file import read_plan
from armillary.plan.bound import Menu, lower_bound
from armillary.plan.choice import Plan
from armillary.plan.costs import Sizes, Way, hosted, platform_rates, volume_rates, ways
from armillary.plan.partition import Shards, by_memory, by_node, differencing, greedy, improved
from armillary.plan.search import Found, search

RECORDED: dict[str, float | None] = answers("torchrec")["greatest_load"]
"""The greatest load of TorchRec's plan for some of the problems; none where it finds no plan."""
HALVES = "forward=fp16,backward=fp16,reduce-scatter=fp16"


def placed_loads(problem: Instance, found: Found) -> tuple[list[float], list[int]]:
    """Loads and memory of a plan, added up shard by shard."""
    assert found.best is not None
    ranks, each = problem.sizes.ranks, problem.sizes.ranks_per_node
    loads, held = [0.0] * ranks, [0] * ranks
    for way, places in zip(found.best.ways, found.best.places, strict=True):
        parts: list[tuple[int, int]] = []
        if way.place == "all":
            parts = [(rank, 0) for rank in range(ranks)]
        elif way.place == "node":
            parts = [(places[0] * each + at, 0) for at in range(each)]
        else:
            parts = [(rank, shard) for shard, rank in enumerate(places)]
        for rank, shard in parts:
            loads[rank] += way.costs[shard]
            held[rank] += way.memory[shard]
    return loads, held


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_random_problems(first: int) -> None:
    """Every fiftieth of 500; all in `make thorough`. TorchRec has planned every tenth."""
    step = usually(50, 1)
    for seed in range(first, first + 50, step):
        problem = instance(seed)
        found, recorded = problem.search(), RECORDED.get(str(seed))
        if found.best is None:
            assert recorded is None, f"seed {seed}: TorchRec has a plan"
            continue
        loads, held = placed_loads(problem, found)
        assert max(held) <= problem.room
        assert max(loads) == pytest.approx(found.best.highest)
        assert max(loads) >= found.bound * (1 - 1e-9)
        for name, value in found.heuristics.items():
            assert found.best.highest <= value * (1 + 1e-9), f"seed {seed}: {name}"
        if recorded is not None:
            assert found.best.highest <= recorded * (1 + 1e-9), f"seed {seed}: TorchRec"


def test_1000_tables_on_128_ranks_are_within_5_percent_of_the_bound() -> None:
    problem = Instance(tables(1000, np.random.default_rng(7)), sizes(128, 8), 40 * 10**9)
    found = problem.search()
    assert found.best is not None
    _, held = placed_loads(problem, found)
    assert max(held) <= problem.room
    assert found.best.highest <= 1.05 * found.bound


def best_of_all(options: list[list[Way]], shape: Sizes, room: int) -> float:
    """The least greatest load of every plan."""
    least = math.inf
    every = [
        [(loads_anywhere(way, shape), bytes_anywhere(way, shape)) for way in each]
        for each in options
    ]
    for chosen in itertools.product(*every):
        costs, bytes_ = np.zeros((1, shape.ranks)), np.zeros((1, shape.ranks))
        for cost, memory in chosen:
            costs = (costs[:, None] + cost).reshape(-1, shape.ranks)
            bytes_ = (bytes_[:, None] + memory).reshape(-1, shape.ranks)
        fits = bytes_.max(1) <= room
        least = min(least, float(costs[fits].max(1).min(initial=math.inf)))
    return least


small_tables = st.lists(
    st.builds(
        EmbeddingTable,
        st.just("t"),
        st.integers(4, 100_000),
        st.sampled_from([16, 32, 48]),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=2,
)


@given(small_tables, st.sampled_from([(2, 2), (4, 2)]), st.sampled_from([1.0, 1.3, 4.0]))
def test_the_bound_is_below_every_plan(
    made: list[EmbeddingTable], shape: tuple[int, int], roomy: float
) -> None:
    ranks, each = shape
    sized = sizes(ranks, each)
    options = [ways(table, sized, volume_rates()) for table in made]
    room = int(roomy * sum(max(each_way.memory[0] for each_way in way) for way in options) / ranks)
    found = search(options, np.zeros(ranks, np.int64), room, each)
    best = best_of_all(options, sized, room)
    assert found.bound <= best * (1 + 1e-9)
    if found.best is not None:
        assert best * (1 - 1e-9) <= found.best.highest


def shards(costs: list[float], memory: list[int], ranks: int, room: int) -> Shards:
    base, used = np.zeros(ranks), np.zeros(ranks, np.int64)
    return Shards(np.array(costs), np.array(memory, np.int64), base, used, room, 2)


def test_differencing_is_karmarkar_and_karps() -> None:
    # Their example: 8, 7, 6, 5, 4 into two sums differ by 2 (16 and 14), where greedy has 4.
    made = shards([8, 7, 6, 5, 4], [0] * 5, 2, 1)
    by_difference, by_greed = differencing(made), greedy(made)
    assert by_difference is not None and by_greed is not None
    assert sorted(made.loads(by_difference).tolist()) == [14, 16]
    assert sorted(made.loads(by_greed).tolist()) == [13, 17]


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 100)), min_size=1, max_size=40),
    st.sampled_from([2, 4, 6]),
    st.floats(1.0, 3.0),
)
def test_heuristics_keep_to_memory(made: list[tuple[int, int]], ranks: int, roomy: float) -> None:
    costs, memory = [float(cost) for cost, _ in made], [size for _, size in made]
    room = int(max(*memory, roomy * sum(memory) / ranks, 0))
    problem = shards(costs, memory, ranks, room)
    for place in (greedy, differencing, by_node, by_memory):
        at = place(problem)
        if at is None:
            continue
        assert problem.held(at).max() <= room
        better = improved(problem, at, 0.0)
        assert problem.held(better).max() <= room
        assert problem.loads(better).max() <= problem.loads(at).max() * (1 + 1e-9)


def test_no_plan_where_there_is_no_room() -> None:
    options = [ways(EmbeddingTable("t", 10**9, 64, 1), sizes(8, 8), volume_rates())]
    assert lower_bound(Menu.of(options, 8, 8, 10**9)) == math.inf
    assert search(options, np.zeros(8, np.int64), 10**9, 8).best is None


def test_memory_is_that_of_the_simulator(tmp_path: Path) -> None:
    for model, ranks in (("dlrm-neo-a", 64), ("dlrm-mlperf", 16)):
        found = arm.plan(model, "zionex", ranks, messages=HALVES, simulate=False)
        path = tmp_path / f"{model}.yml"
        found.write(path)
        workload = arm.workload.dlrm(model, dp=ranks, plan=str(path), messages=HALVES)
        assert workload.summary is not None
        classes = workload.summary.classes
        simulated = max(
            each.memory.weights
            + each.memory.gradients
            + each.memory.optimizer
            + each.memory.activations
            for each in classes
        )
        assert max(found.memory) == pytest.approx(simulated, rel=1e-3)
        assert max(found.memory) <= found.capacity


@functools.cache
def of_mlperf() -> Plan:
    found: Plan = arm.plan("dlrm-mlperf", "zionex", 16)
    return found


def test_a_plan_is_a_file_that_the_simulator_takes(tmp_path: Path) -> None:
    found = of_mlperf()
    path = tmp_path / "plan.yml"
    found.write(path)
    assert read_plan(str(path)) == found.sharding
    assert isinstance(found.sharding, ShardingPlan)
    workload = arm.workload.dlrm("dlrm-mlperf", dp=16, plan=str(path))
    assert arm.simulate(workload, arm.Platform.load("zionex", npus=16)).step_time_ns > 0


def test_a_plan_keeps_to_the_schemes_that_are_allowed() -> None:
    found = arm.plan("dlrm-mlperf", "zionex", 16, schemes=("table",))
    assert set(found.schemes) == {"table"}
    assert found.highest > of_mlperf().highest
    with pytest.raises(arm.InputError, match="unknown scheme 'rows'"):
        arm.plan("dlrm-mlperf", "zionex", 16, schemes=("rows",))
    with pytest.raises(arm.InputError, match=r"has no scheme that is allowed \(allowed: one of"):
        arm.plan("dlrm-mlperf", "zionex", 16, schemes=("row",))


def test_tables_without_room_go_to_hosts(tmp_path: Path) -> None:
    """Model F has 24.2 TB; NPUs have 5. The simulator has the plan's memory."""
    cache = 20 * 10**9
    with pytest.raises(arm.InputError, match="a cache, for tables on hosts"):
        arm.plan("dlrm-neo-f", "zionex", 128)
    found = arm.plan("dlrm-neo-f", "zionex", 128, cache=cache, schemes=("row",))
    assert found.on_hosts > 0
    assert max(found.memory) <= found.capacity
    away = sum(
        table.rows * (2 * table.columns + 4)
        for table in found.sharding.tables
        if table.tier == "host"
    )
    assert sum(found.host) == pytest.approx(away, rel=1e-6)
    found.write(tmp_path / "plan.yml")
    workload = arm.workload.dlrm("dlrm-neo-f", dp=128, plan=str(tmp_path / "plan.yml"), cache=cache)
    assert workload.summary is not None
    held = workload.summary.classes[0].memory.total
    assert max(found.memory) == pytest.approx(held, rel=1e-3)
    with pytest.raises(arm.InputError, match=r"host_capacity: rank 0 has .* bytes of tables"):
        arm.plan("dlrm-neo-f", "zionex", 128, cache=cache, schemes=("row",), host_capacity=10**9)


def test_the_cost_of_a_table_on_the_host_by_hand() -> None:
    """Every row of a small table is looked up: it is fetched and written back once."""
    table, size = EmbeddingTable("t", 100, 64, 16), sizes(4, 4)
    (whole, *_) = ways(table, size, volume_rates())
    away = hosted(whole, table, size, volume_rates(), 0.0)
    row = 64 * 2 + 4
    assert away.costs[0] - whole.costs[0] == pytest.approx(2 * 100 * row)
    assert whole.memory[0] - away.memory[0] == 100 * row


def test_a_byte_within_a_node_and_across_nodes_costs_what_its_links_do() -> None:
    """200 GB/s within nodes of 4, 10 GB/s between 2 of them; latencies are a few us of 64 MiB."""
    platform = arm.Platform.parse("""
topology: Switch(4)_Switch(2)
links:
  - {bandwidth: 200 GB/s, per: npu, latency: 1 ns}
  - {bandwidth: 10 GB/s, per: npu, latency: 1 ns}
npu: {peak: 1 TFLOPS, memory: {bandwidth: 100000 GB/s, capacity: 1 GB}}
""")
    rates = platform_rates(platform, 4)
    assert rates.within == pytest.approx(1 / 200e9, rel=0.05)
    assert rates.across == pytest.approx(1 / 10e9, rel=0.05)


def test_plans_are_the_same_every_time() -> None:
    assert arm.plan("dlrm-mlperf", "zionex", 16) == of_mlperf()


def test_the_costs_of_a_whole_table_by_hand() -> None:
    # 4 ranks x 512 samples, 16 lookups of 64 elements of 2 bytes, 2 bytes on the wire, 8 an index.
    (whole, *_) = ways(EmbeddingTable("t", 1000, 64, 16), sizes(4, 4), volume_rates())
    batch = 2048
    access = batch * 16 * (3 * 64 * 2 + 2 * 8 + 8) + batch * 64 * 4
    messages = batch * 64 * 4 + batch * 16 * 8
    assert whole.costs == (access + messages,)
    (in_place, *_) = ways(
        EmbeddingTable("t", 1000, 64, 16), replace(sizes(4, 4), distributed=False), volume_rates()
    )
    assert in_place.costs == (access + batch * 64 * 4,), "flow hoti"
    held = 1000 * 64 * 2 + 1000 * 4
    assert whole.memory == (held + batch * 64 * 2 + batch * 16 * 8,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cost": "fast"}, "unknown cost model"),
        ({"ranks_per_node": 3}, "nodes of 3 don't divide 16 ranks"),
        ({"capacity": 10**9}, "ranks or more"),
        ({"access_weight": -1.0}, "access_weight"),
        ({"local_batch": 0}, "local_batch"),
    ],
)
def test_what_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(arm.InputError, match=said):
        arm.plan("dlrm-mlperf", "zionex", 16, **given)
