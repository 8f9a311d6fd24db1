"""The layer-by-layer loop, held against its timeline written out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from exchanges import Listed
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.workload import Model, Program, Workload, load_model
from armillary.workload.layerwise import (
    LayerExchange,
    LayerWork,
    Options,
    TrainedLayer,
    layerwise,
    recorded,
    train,
)

NS = 1000
"""Picoseconds."""

TWO = arm.Platform(
    "R(2)",
    bandwidth="1 GB/s",
    latency="0 ns",
    settings={"scheduler.endpoint_delay": "0 ns", "npu.compute": "recorded"},
)
"""Two NPUs between which an all-reduce of b bytes takes b ns: two messages of b / 2 bytes, one
after the other."""


def step_ns(
    layers: list[TrainedLayer], passes: int, overlap: bool = True, bucket_mb: float | None = None
) -> float:
    program = Program()
    train(program, layers, passes, overlap, bucket_mb)
    workload = Workload.mesh("loop", [("dp", 2)], {}, [], [program])
    return arm.simulate(workload, TWO).step_time_ns


def layer(
    name: str, forward: int, inputs: int, weights: int, reduced: int, update: int = 0
) -> TrainedLayer:
    reduce = LayerExchange("all_reduce", reduced) if reduced else None
    return TrainedLayer(
        name,
        LayerWork(duration_ps=forward * NS),
        LayerWork(duration_ps=inputs * NS),
        LayerWork(duration_ps=weights * NS, exchange=reduce),
        update_ps=update * NS,
    )


times = st.integers(1, 5000)
pairs = st.integers(1, 2500).map(lambda half: 2 * half)


@settings(max_examples=usually(20, 400), deadline=None)
@given(st.tuples(times, times, times, pairs, times), st.tuples(times, times, times, pairs, times))
def test_two_layers_two_passes(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    """Reductions overlap with what follows; the next forward pass waits for them; layer 1 has no
    input gradient."""
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


@given(st.tuples(times, times, times, pairs, times), st.tuples(times, times, times, pairs, times))
def test_without_overlap_all_times_add_up(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    """Layer 1 has no input gradient."""
    layers = [layer("one", *one), layer("two", *two)]
    assert step_ns(layers, 2, overlap=False) == 2 * (sum(one) - one[1] + sum(two))


@pytest.mark.parametrize("model", ["resnet-50", "ispass-resnet-50"])
def test_models_take_overlap(model: str) -> None:
    hidden, exposed = (
        arm.simulate(arm.workload.build(model, dp=8, overlap=overlap), "paper-ispass-torus-2x2x2")
        for overlap in (True, False)
    )
    assert hidden.step_time_ns < exposed.step_time_ns


def test_blocking_exchanges() -> None:
    """Activations and input gradients hold the next layer up, weight gradients don't."""
    exchange = LayerExchange("all_reduce", 500)
    hybrid = TrainedLayer(
        "h",
        LayerWork(duration_ps=100 * NS, exchange=exchange),
        LayerWork(duration_ps=100 * NS, exchange=exchange),
        LayerWork(duration_ps=100 * NS),
    )
    first = TrainedLayer(
        "first",
        LayerWork(duration_ps=100 * NS),
        LayerWork(duration_ps=9999 * NS),
        LayerWork(duration_ps=100 * NS),
    )
    # first 100, h 100 + 500, then h's weight gradient 100, its input gradient 100 + 500, first's
    # weight gradient 100
    assert step_ns([first, hybrid], 1) == 100 + 600 + 100 + 600 + 100


def test_published_files_as_models() -> None:
    """Sums over ASTRA-sim's own ResNet-50 file: 32-bit weights of all convolutions and the fully
    connected layer."""
    workload = layerwise("ispass-resnet-50", dp=8)
    assert workload.operations == 8 * (54 * 3 - 1 + 54 + 54)
    found = recorded(load_model("ispass-resnet-50"), Options(dp=8))
    reduced = [each.weight_gradient.exchange for each in found if each.weight_gradient]
    assert sum(exchange.bytes for exchange in reduced if exchange) == 4 * (
        25_557_032 - 2 * 26_560 - 1000
    )


def test_volumes_of_a_hybrid() -> None:
    """Along `model` the activations and input gradients of the file, along `data` its weight
    gradients, once a pass."""
    summary = layerwise("ispass-transformer", dp=4, mp=2, inner_dp=2, passes=2).summary
    assert summary is not None
    found = {
        (volume.group, volume.kind): (volume.count, volume.bytes)
        for volume in summary.classes[0].volumes
    }
    activation, gathered = 8388608, 134217728
    # six layers: forward all-reduces of Concat and X W2, backward ones of Q and Relu; fc reduces
    # backward, too
    assert found[("model", "all_reduce")] == (25, 25 * activation)
    assert found[("model", "all_gather")] == (1 + 6 + 1, activation + 6 * gathered + 73728000)
    # six layers: Q, K, V, Concat of 32 MiB, two of 128 MiB; fc
    assert found[("data", "all_reduce")] == (37, 6 * (4 * 33554432 + 2 * 134217728) + 18432000)


def test_hybrid_transformer_runs_on_its_torus() -> None:
    """Model-parallel along the middle dimension, data-parallel along the others."""
    workload = layerwise("ispass-transformer", dp=4, mp=2, inner_dp=2)
    result = arm.simulate(workload, arm.Platform.load("paper-ispass-torus-2x2x2"))
    assert result.breakdown()["exposed_comm_share"][0] > 0


def test_bad_meshes_are_refused() -> None:
    with pytest.raises(InputError, match=r"3 does not divide dp 8 \(allowed: 1, 2, 4\)"):
        layerwise("ispass-resnet-50", dp=8, inner_dp=3)
    with pytest.raises(InputError, match=r"dp: 0 is not a count"):
        layerwise("ispass-resnet-50", dp=0)
    rows = [{"name": "a", "forward": [1], "input": [1, "all_reduce"], "weight": 3}]
    with pytest.raises(InputError) as caught:
        layerwise(Model("bad", "layerwise", {"layers": rows}), dp=2)
    assert [problem.place for problem in caught.value.problems] == [
        "layers[0].input",
        "layers[0].weight",
    ]


@settings(max_examples=usually(12, 200), deadline=None)
@given(st.tuples(times, times, times, pairs, times), st.tuples(times, times, times, pairs, times))
def test_a_bucket_of_both_layers(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    """One exchange after the gradients of both layers, then both updates, those of the layer with
    the first gradient first."""
    (f1, i1, w1, c1, u1), (f2, i2, w2, c2, u2) = one, two
    free, updates = 0, [0, 0]
    for _ in range(2):
        forward = max(max(free, updates[0]) + f1, updates[1]) + f2
        free = forward + w2 + i2 + w1
        updates = [free + c1 + c2 + u2 + u1, free + c1 + c2 + u2]
    layers = [layer("one", f1, i1, w1, c1, u1), layer("two", f2, i2, w2, c2, u2)]
    assert step_ns(layers, 2, bucket_mb=0.1) == updates[0]


def test_buckets_of_exchanges_by_hand() -> None:
    """Gradients come from the last layer on: 30,000 and 70,000 bytes fill 0.1 MB, 250,001 are three
    pieces, and another kind of exchange is on its own. Layer `e` exchanges nothing."""
    sizes = {"a": 10_000, "b": 250_001, "c": 20_000, "d": 70_000, "e": 0, "f": 30_000}
    layers = [layer(name, 1, 1, 1, size) for name, size in sizes.items()]
    other = LayerExchange("reduce_scatter", 20_000)
    layers[2] = replace(layers[2], weight_gradient=LayerWork(duration_ps=NS, exchange=other))
    program = Listed()
    train(program, layers, 1, bucket_mb=0.1)
    assert program.exchanged == [
        ("d.weight_gradient.all_reduce", 100_000),
        ("c.weight_gradient.reduce_scatter", 20_000),
        ("b.weight_gradient.0.all_reduce", 83_333),
        ("b.weight_gradient.1.all_reduce", 83_334),
        ("b.weight_gradient.2.all_reduce", 83_334),
        ("a.weight_gradient.all_reduce", 10_000),
    ]


def test_a_bucket_for_everything_is_one_exchange() -> None:
    """ResNet-50 has 25,557,032 parameters: 102.2 MB in 4 bytes."""
    for size, count in ((None, 54), (103.0, 1)):
        summary = arm.workload.build("resnet-50", dp=8, bucket_mb=size).summary
        assert summary is not None
        (volume,) = summary.classes[0].volumes
        assert (volume.count, volume.bytes) == (count, 4 * 25_557_032)
    for model in ("resnet-50", "ispass-resnet-50", "dlrm-hoti"):
        with pytest.raises(InputError, match=r"bucket_mb: 0 is out of range .*0\.1 to 1e9"):
            arm.workload.build(model, dp=8, bucket_mb=0)


def test_layers_of_one_name_have_rows_of_their_own() -> None:
    rows = [
        {"name": name, "forward": [1 + at], "input": [1], "weight": [1]}
        for at, name in enumerate(["fc", "fc", "fc (2)", "fc"])
    ]
    made = layerwise(Model("twice", "layerwise", {"layers": rows}), dp=2)
    detail = arm.simulate(made, TWO, detail=True).report["detail"]
    assert detail is not None
    layers = detail["layers"]
    forward = {each["layer"]: each["passes"][0]["compute_ns"] for each in layers}
    assert forward == {"fc": 1, "fc (3)": 2, "fc (2)": 3, "fc (4)": 4}
