"""Queues and active chunks of each dimension, against times found by hand."""

from __future__ import annotations

import pytest

import armillary as arm


def _time(**scheduler: object) -> float:
    """An all-gather of four chunks, each a phase of 1 us and one of 10 us, in us."""
    keys = {"chunks": 4, "endpoint_delay": "0 ns", **scheduler}
    platform = arm.Platform(
        "FC(2)_FC(2)",
        bandwidth="1000 GB/s",
        latency=["10 us", "1 us"],
        per="npu",
        settings={f"scheduler.{key}": value for key, value in keys.items()},
    )
    table = arm.collective("all_gather", 64, platform, backend="analytical")
    return float(table["time_us"][0])


@pytest.mark.parametrize(
    ("active", "expected"),
    [(1, 41), ([1, 1], 41), ([4, 1], 14), ([1, 4], 41), ([2, 4], 21), ([4, 4], 11)],
)
def test_a_dimension_runs_its_own_number_of_chunks(active: object, expected: float) -> None:
    """One after the other where one is active, all at once where four are."""
    assert _time(active_chunks=active) == pytest.approx(expected, abs=0.01)


def test_chunks_are_spread_over_the_queues_of_their_dimension() -> None:
    """Two queues with two chunks at once are four. With one at once, the last of each queue starts
    when the first is over: 2 + 10 + 10 us."""
    assert _time(active_chunks=[4, 1], queues_per_dim=[2, 1]) == pytest.approx(14, abs=0.01)
    assert _time(active_chunks=[2, 1], queues_per_dim=[2, 1]) == pytest.approx(22, abs=0.01)
