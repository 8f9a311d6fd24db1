"""Live ns-3 behind `--backend external:`: recorded runs, and `packet` next to it.

The tests build the adapter; they skip where ns-3 is not installed."""

import json
from pathlib import Path

import pytest
from ns3 import LOSSES, MISSING, TCP, backend, drawn

import armillary as arm

ROOT = Path(__file__).parents[2]
SEED = 20261125

pytestmark = [
    pytest.mark.skipif(not Path("/usr/include/ns3").exists(), reason=MISSING),
    pytest.mark.xdist_group("ns3"),
]


def test_packet_is_within_2_percent_of_ns3_without_losses() -> None:
    """20 collectives drawn from the seed. `pytest -s` prints them."""
    worst = 0.0
    for each in drawn(SEED, 20):
        ours, theirs = each.run("packet"), each.run(str(backend()))
        off = ours["us"] / theirs["us"] - 1
        worst = max(worst, abs(off))
        print(f"{each}: packet {ours['us']:.3f} us, ns-3 {theirs['us']:.3f} us, {off:+.3%}")
        assert [ours[key] for key in LOSSES] == [theirs[key] for key in LOSSES] == [0, 0, 0], each
        assert abs(off) <= 0.02, each
    print(f"worst {worst:.3%}")


def test_lossy_runs_lose_on_both() -> None:
    """Side by side: `pytest -s` prints drops, retransmits, timeouts and times."""
    for each in drawn(SEED, 4, lossy=True):
        ours, theirs = each.run("packet"), each.run(str(backend()))
        print(each)
        for name, run in (("packet", ours), ("ns-3", theirs)):
            print(
                f"  {name:<7} {run['us']:>12.3f} us  " + ", ".join(f"{k} {run[k]}" for k in LOSSES)
            )
        assert ours["drops"] > 0, each
        assert theirs["drops"] > 0, each


def test_a_smaller_recorded_system_takes_the_time_of_its_links() -> None:
    """The recorded runs in rotation have 128 hosts and take minutes (benches/python/external.py).
    16 hosts with 1/8 of the bytes send messages of the same size to an eighth as many hosts, so the
    time of links is that of 15 of 127 messages."""
    recorded = json.loads((ROOT / "tests/golden/packets/ns3_all_to_all.json").read_text())
    (run,) = (
        row
        for row in recorded
        if (row["bytes"], row["mtu"], row["order"]) == (8_000_000, 9000, "rotation")
    )
    settings = {
        **TCP,
        "network.packet.mtu": f"{run['mtu']} B",
        "network.packet.buffer": f"{run['buffer_bytes']} B",
        "collectives.all_reduce": "direct",
        "scheduler.chunks": 1,
        "scheduler.endpoint_delay": "0 ns",
    }
    platform = arm.Platform("SW(16)", bandwidth="12.5 GB/s", latency="500 ns", settings=settings)
    table = arm.collective("all_reduce", 1_000_000, platform, backend=backend())
    expected = run["time_us"] * 15 / 127
    # The latencies of two steps do not shrink with the number of hosts: there and back 2 us each.
    assert expected < table["time_us"][0] < expected + 8
