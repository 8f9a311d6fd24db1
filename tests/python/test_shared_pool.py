"""A pool whose memory groups are NPUs of the network, next to messages, by hand."""

from __future__ import annotations

import runpy
import sys
from functools import partial

import pytest
from conftest import ROOT

import armillary as arm

EXAMPLE = ROOT / "examples/papers/shared_pool.py"


@pytest.mark.parametrize("backend", ["flow", "link"])
def test_accesses_and_messages_share_the_link_of_an_npu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    """64 MB of each over 100 GB/s."""
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), backend])
    runpy.run_path(str(EXAMPLE))
    assert capsys.readouterr().out.split("\n")[:3] == [
        "load alone: 640.0 us",
        "message alone: 640.0 us",
        "both: 1,280.0 us",
    ]


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("loads", [8, 32, 60])
def test_shares_are_fair(groups: int, loads: int) -> None:
    """Each of the groups sends so many MB to NPU 0 while NPU 1 sends it 64 MB: every stream has an
    equal share of 100 GB/s until those of the load are over."""
    times: dict[str, float] = {}

    def note(network: arm.Network, name: str) -> None:
        times[name] = network.now / 1e6

    platform = arm.Platform("Switch(8)", bandwidth="100 GB/s", latency="0 ns")
    with arm.Network(platform, backend="flow") as network:
        for group in range(groups):
            over = partial(note, network, "load")
            network.send(4 + group, 0, f"{loads} MB", tag=group, callback=over)
        network.send(1, 0, "64 MB", tag=9, callback=partial(note, network, "message"))
        network.run()
    assert times["load"] == pytest.approx(loads * (groups + 1) * 10, rel=0.02)
    assert times["message"] == pytest.approx((loads * groups + 64) * 10, rel=0.02)
