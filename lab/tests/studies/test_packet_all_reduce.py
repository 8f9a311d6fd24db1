"""C1: what the paper says of an all-reduce over TCP, at its smallest sizes."""

from __future__ import annotations

import pytest

from armillary_lab.studies.packet_all_reduce import RANDOM, ROTATION, run


def test_the_order_of_destinations_decides() -> None:
    """In rotation nothing waits. At random, ports of 0.5 MB overflow, and timeouts of 50 ms
    follow."""
    even, random = run(8, "64 MB", ROTATION), run(8, "64 MB", RANDOM)
    assert even.deviation == pytest.approx(-0.06, abs=0.05)
    assert even.timeouts == even.retransmits == 0
    assert random.time_us > 50_000
    assert random.timeouts > 0


def test_trees_on_deep_buffers_lose_nothing_and_beat_direct_exchange() -> None:
    """Section IV-A, observation 3: within 16 % of 2 D / BW, without a packet sent again."""
    for size in (8, 16):
        tree = run(size, "1 GB", tree=True)
        assert 0 < tree.deviation < 16
        assert tree.retransmits == 0
        assert tree.time_us < run(size, "1 GB").time_us


def test_shallow_buffers_break_the_direct_one_from_16_mb_on() -> None:
    """The paper: over 50 times 2 D / BW. Ours 40, in random order."""
    found = run(16, "64 MB")
    assert 25 < found.time_us / found.ideal_us < 100
    assert found.utilization < 5
