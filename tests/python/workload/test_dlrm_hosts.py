"""Recommendation models: samples that arrive over the front-end network, and checkpoints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.model import Model
from armillary.workload.dlrm import dlrm

FIELDS = {
    "dense_features": 4,
    "bottom": [8],
    "interaction": {"kind": "concat"},
    "top": [1],
    "bias": False,
    "tables": [{"count": 4, "rows": 10**6, "dim": 64, "pooling": 5}],
}
PLATFORM = """
topology: Switch(4)
links: {bandwidth: 100 GB/s, per: npu, latency: 1 us}
npu: {peak: 1000 TFLOPS, memory: {bandwidth: 1000 GB/s, capacity: 80 GB}}
remote_memory: {model: link, sharing: per_npu, bandwidth: 10 GB/s, latency: 0 ns}
"""
SAMPLE = 4 * 4 + 4 * 5 * 8 + 4 * 2
"""Bytes: lengths, indices, dense features of 2 bytes."""
DENSE = 4 * 8 + (8 + 4 * 64) * 1
SAVED = 4 * 10**6 * (64 * 2 + 4) + DENSE * 2
"""Bytes of tables, their state, and MLPs without bias and without state."""


def step(**options: object) -> float:
    """Seconds of a step on two hosts of two NPUs."""
    fixed = {"dp": 4, "ranks_per_node": 2, "local_batch": 1000, "sharding": "table"}
    widths = dict.fromkeys(("precision", "table_precision", "gradient_precision"), "fp16")
    workload = dlrm(Model("small", "dlrm", FIELDS), **{**fixed, **widths, **options})
    passes = int(str(options.get("passes", 1)))
    return arm.simulate(workload, arm.Platform.parse(PLATFORM)).step_time_ns / passes / 1e9


def test_a_step_is_no_shorter_than_its_samples_take_to_arrive() -> None:
    """Two NPUs of a host read through one card; all hosts share the readers."""
    card = 2 * 1000 * SAMPLE / 10**8
    assert step(front_end=10**8, passes=3) == pytest.approx(card, rel=1e-6)
    assert step(front_end=10**8, front_end_us=500, passes=3) == pytest.approx(card + 5e-4, rel=1e-6)
    assert step(readers=10**6, passes=3) == pytest.approx(4000 / 10**6, rel=1e-6)
    assert step(readers=10**6, front_end=10**8) == pytest.approx(max(card, 4e-3), rel=1e-6)


def test_without_a_pipeline_the_step_begins_when_samples_are_there() -> None:
    alone = step(pipeline=False)
    card = 2 * 1000 * SAMPLE / 10**8
    assert step(pipeline=False, front_end=10**8) == pytest.approx(alone + card, rel=1e-6)


def test_a_step_writes_its_part_of_a_checkpoint() -> None:
    """To the host at 10 GB/s, and then two NPUs through a card of 1 GB/s."""
    each = SAVED / 4 / 100
    assert step(checkpoint_every=100, passes=2) == pytest.approx(each / 10**10, rel=1e-4)
    stored = step(checkpoint_every=100, front_end=10**9, passes=2)
    assert stored == pytest.approx(2 * each / 10**9, rel=1e-4)
    assert step(checkpoint_every=100, front_end=10**9, pipeline=False) == stored


def test_fast_hosts_change_nothing() -> None:
    fast = {"front_end": 10**12, "readers": 10**10, "checkpoint_every": 10**9}
    assert step(**fast, passes=2) == step(passes=2)


@settings(max_examples=usually(12, 200), deadline=None)
@given(
    front_end=st.integers(10**7, 10**11),
    readers=st.integers(10**5, 10**9),
    every=st.integers(1, 10**5),
    pipeline=st.booleans(),
)
def test_no_step_is_shorter_than_what_hosts_do(
    front_end: int, readers: int, every: int, pipeline: bool
) -> None:
    found = step(
        front_end=front_end, readers=readers, checkpoint_every=every, pipeline=pipeline, passes=2
    )
    bounds = (
        2 * 1000 * SAMPLE / front_end,
        4000 / readers,
        SAVED / 2 / every / front_end,
        SAVED / 4 / every / 10**10,
        step(pipeline=pipeline, passes=2),
    )
    assert found >= max(bounds) * (1 - 1e-6)
    if pipeline:
        assert found <= sum(bounds)


def test_copies_are_written_once() -> None:
    """By a fourth of each NPU, whether tables are copied or cut by rows."""
    for sharding in ("data", "row"):
        found = dlrm(
            Model("small", "dlrm", FIELDS),
            dp=4,
            ranks_per_node=4,
            local_batch=10,
            sharding=sharding,
            front_end=10**9,
            checkpoint_every=10,
            precision="fp16",
            table_precision="fp16",
            optimizer="sgd",
        ).summary
        assert found is not None
        written = (4 * 10**6 * 64 * 2 + DENSE * 2) / 10 / 10**9
        assert f"checkpoints leave in {written * 1e6:.1f} us" in found.notes[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"front_end": 0}, "front_end: 0 is not a count"),
        ({"readers": 10**16}, "readers: .* is too much"),
        ({"checkpoint_every": -1}, "checkpoint_every: -1 is not a count"),
        ({"front_end_us": 5}, "front_end_us: has no effect: there is no front_end"),
        ({"front_end": 10**9, "front_end_us": -1}, "front_end_us: -1 is out of range"),
    ],
)
def test_what_is_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        dlrm("dlrm-small", dp=2, **options)


def test_checkpoints_need_a_way_to_the_host() -> None:
    without = PLATFORM.partition("remote_memory")[0]
    workload = dlrm("dlrm-small", dp=4, checkpoint_every=10)
    with pytest.raises(InputError, match="remote_memory"):
        arm.simulate(workload, arm.Platform.parse(without))
