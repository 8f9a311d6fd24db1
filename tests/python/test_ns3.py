"""Live ns-3 behind `--backend external:`: recorded runs, and `packet` next to it.

The tests build the adapter; they skip where ns-3 is not installed."""

from pathlib import Path

import pytest
from ns3 import LOSSES, MISSING, SEED, backend, drawn, recorded_runs, star

from armillary import api

pytestmark = [
    pytest.mark.skipif(not Path("/usr/include/ns3").exists(), reason=MISSING),
    pytest.mark.xdist_group("ns3"),
]


def test_packet_is_within_half_a_percent_of_ns3_without_losses() -> None:
    """40 collectives drawn from the seed: both congestion controls, latencies of 1 us to 1 ms, with
    marks and without. `pytest -s` prints them. ns-3 drops acknowledgements where it marks data;
    such runs have losses and do not count."""
    without = []
    for each in drawn(SEED, 60):
        theirs = each.run(str(backend()))
        if [theirs[key] for key in LOSSES] != [0, 0, 0]:
            continue
        ours = each.run("packet")
        off = ours["us"] / theirs["us"] - 1
        without.append(abs(off))
        print(f"{each}: packet {ours['us']:.3f} us, ns-3 {theirs['us']:.3f} us, {off:+.3%}")
        assert [ours[key] for key in LOSSES] == [0, 0, 0], each
        assert abs(off) <= 0.005, each
        if len(without) == 40:
            break
    assert len(without) == 40
    print(f"worst {max(without):.3%}")


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
    """The recorded runs have 128 hosts. Each takes ns-3 from 10 to 108 CPU seconds, so they run by
    hand (`lab/bench/python/external.py recorded MTU`; results in
    lab/results/2026-11-25-external.md). Here 16 hosts with 1/8 of the bytes send
    messages of the same size to an eighth as many hosts, so the time of links is that of 15 of 127
    messages."""
    [run] = [
        run
        for run in recorded_runs()
        if (run.order, run.size, run.mtu, run.buffer, run.algorithm)
        == (1, 8_000_000, 9000, 500_000, "a2a")
    ]
    platform = star(16, run.mtu, run.buffer)
    report = api.collective_result("all_reduce", 1_000_000, platform, backend=backend()).report
    expected = run.us * 15 / 127
    # The latencies of two steps do not shrink with the number of hosts: there and back 2 us each.
    assert expected < report["step_time_ns"] / 1e3 < expected + 8
