"""The layer-by-layer loop, held against its timeline written out by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import armillary as arm
from armillary.workload import Program, Workload
from armillary.workload.layerwise import Exchange, Layer, Work, train

NS = 1000
"""Picoseconds."""

TWO = arm.Platform(
    "R(2)", bandwidth="1 GB/s", latency="0 ns", settings={"scheduler.endpoint_delay": "0 ns", "npu.compute": "recorded"}
)
"""Two NPUs between which an all-reduce of b bytes takes b ns: two messages of b / 2 bytes, one after the other."""


def step_ns(layers: list[Layer], passes: int) -> float:
    program = Program()
    train(program, layers, passes)
    workload = Workload.mesh("loop", [("dp", 2)], {}, [], [program])
    return arm.simulate(workload, TWO).step_time_ns


def layer(name: str, forward: int, inputs: int, weights: int, reduced: int, update: int = 0) -> Layer:
    reduce = Exchange("all_reduce", reduced) if reduced else None
    return Layer(
        name,
        Work(duration_ps=forward * NS),
        Work(duration_ps=inputs * NS),
        Work(duration_ps=weights * NS, exchange=reduce),
        update_ps=update * NS,
    )


times = st.integers(1, 5000)
pairs = st.integers(1, 2500).map(lambda half: 2 * half)


@settings(max_examples=40, deadline=None)
@given(st.tuples(times, times, times, pairs, times), st.tuples(times, times, times, pairs, times))
def test_two_layers_two_passes(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    """Reductions overlap with what follows; the next forward pass waits for them; layer 1 has no input gradient."""
    (f1, i1, w1, c1, u1), (f2, i2, w2, c2, u2) = one, two
    free, updates, ends = 0, [0, 0], []
    for _ in range(2):
        forward = max(free, updates[0]) + f1
        back = max(forward, updates[1]) + f2 + w2
        second = back + c2
        first = max(back + i2 + w1, second) + c1  # one collective at a time, in order of issue
        free = back + i2 + w1
        updates = [max(first, second + u2) + u1 if second + u2 > first else first + u1, second + u2]
        ends = [free, *updates]
    layers = [layer("one", f1, i1, w1, c1, u1), layer("two", f2, i2, w2, c2, u2)]
    assert step_ns(layers, 2) == max(ends)


def test_blocking_exchanges() -> None:
    """Activations and input gradients hold the next layer up, weight gradients don't."""
    exchange = Exchange("all_reduce", 500)
    hybrid = Layer(
        "h",
        Work(duration_ps=100 * NS, exchange=exchange),
        Work(duration_ps=100 * NS, exchange=exchange),
        Work(duration_ps=100 * NS),
    )
    first = Layer("first", Work(duration_ps=100 * NS), Work(duration_ps=9999 * NS), Work(duration_ps=100 * NS))
    # first 100, h 100 + 500, then h's weight gradient 100, its input gradient 100 + 500, first's weight gradient 100
    assert step_ns([first, hybrid], 1) == 100 + 600 + 100 + 600 + 100
