"""Prices of memory: parts of the paper's pool by hand, and what a pool saves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from armillary import Platform, design
from armillary.design import memory_cost
from armillary.errors import InputError
from armillary.workload import transformer

POOL = {
    "model": "hierarchical",
    "nodes": 16,
    "out_switches": 4,
    "groups": 8,
    "chunk_size": "1 MB",
    "memory_side": {"bandwidth": "100 GB/s"},
    "npu_side": {"bandwidth": "50 GB/s"},
    "in_node": {"bandwidth": "256 GB/s"},
}
PRICES = {"local": 10, "pool": 4, "link": 0.5, "switch": 1}


def parts(npus: int = 256, **changes: object) -> memory_cost.PoolParts:
    platform = Platform(
        f"SW({npus})",
        bandwidth="1 GB/s",
        latency="0 ns",
        settings={"remote_memory": json.dumps(POOL | changes)},
    )
    return memory_cost.pool_parts(platform.describe()["remote_memory"], npus)


def test_the_pool_of_the_worked_example() -> None:
    """8 groups x 4 switches x 100 GB/s, 4 x 16 x 50 GB/s, 256 x 256 GB/s; a link between two
    switches has a port at both."""
    groups, nodes, npus = 8 * 4 * 100, 4 * 16 * 50, 256 * 256
    found = parts()
    assert (found.link, found.switch) == (groups + nodes + npus, groups + 2 * nodes + npus)
    assert found.capacity is None
    assert parts(capacity="2 TB").capacity == 8 * 2 * 10**12


def test_a_pool_saves_the_memory_for_what_lies_in_it() -> None:
    """Mixed precision with Adam: 2 bytes of weights, 2 of gradients, and 12 of optimizer states
    for each parameter lie in the pool (Rajbhandari et al., SC 2020, section 3.1)."""
    workload = transformer("megatron-1.7b", dp=256, zero=3, offload="parameters")
    assert workload.summary is not None
    stored = 16 * workload.summary.parameters / 1e9
    bill = {each.part: each for each in memory_cost.bill(PRICES, parts(), [workload])}
    assert bill["pool"].amount == pytest.approx(stored, rel=1e-3)
    assert bill["saved"].amount == pytest.approx(stored, rel=1e-3)
    assert bill["saved"].dollars == pytest.approx(10 * stored, rel=1e-3)
    assert bill["pool"].dollars == pytest.approx(4 * stored, rel=1e-3)
    assert bill["link"].dollars == 0.5 * parts().link
    stated = memory_cost.bill(PRICES, parts(capacity="2 TB"), [workload])
    assert next(each for each in stated if each.part == "pool").amount == 16_000


def spec(memory: object, **settings: object) -> dict[str, Any]:
    technologies = {"any": {"link": 2, "nic": 48, "switch": 24}}
    workload = {"model": "megatron-1.7b", "tp": 4, "zero": 3, "offload": "parameters"}
    return {
        "npus": 16,
        "npu": {"peak": "234 TFLOPS", "memory": {"bandwidth": "2 TB/s"}},
        "settings": settings,
        "workloads": [{**workload, "overlap": "none"}],
        "topologies": ["SW(16)"],
        "bandwidth": "100 GB/s",
        "cost": {"technologies": technologies, "memory": memory},
        "simulate": 0,
    }


def test_designs_show_what_memory_costs() -> None:
    result = design(spec(PRICES, remote_memory=POOL))
    found = result.to_dict()["designs"][0]
    assert {each["part"] for each in found["memory"]} == {*memory_cost.MEMORY, "saved"}
    assert found["cost"] == sum(each["dollars"] for each in found["bill"])
    without = spec(PRICES, remote_memory=POOL)
    del without["cost"]["memory"]
    assert design(without).to_dict()["designs"][0]["memory"] == []


@pytest.mark.parametrize(
    ("memory", "remote", "said"),
    [
        ({"local": 10, "pool": 4}, POOL, "has no price of link, switch"),
        (
            PRICES,
            {"model": "link", "sharing": "pool", "latency": "1 us", "bandwidth": "1 GB/s"},
            "no prices for memory of the model link",
        ),
        ({"local": -1}, POOL, "-1 is out of range"),
        ({"hbm": 3}, POOL, "unknown key"),
    ],
)
def test_prices_that_are_not_enough_are_refused(memory: object, remote: object, said: str) -> None:
    with pytest.raises(InputError) as error:
        design(spec(memory, remote_memory=remote))
    assert said in str(error.value)
