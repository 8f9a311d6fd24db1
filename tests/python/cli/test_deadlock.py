"""A network that locks up: the command ends and names the links that wait for each other."""

from __future__ import annotations

from pathlib import Path

from conftest import Armillary

RING = """
graph:
  npus: 3
  switches: [s0, s1, s2]
  links:
    - {between: [npu0, s0], bandwidth: 100 Gb/s, latency: 500 ns}
    - {between: [npu1, s1], bandwidth: 100 Gb/s, latency: 500 ns}
    - {between: [npu2, s2], bandwidth: 100 Gb/s, latency: 500 ns}
    - {from: s0, to: s1, bandwidth: 100 Gb/s, latency: 500 ns}
    - {from: s1, to: s2, bandwidth: 100 Gb/s, latency: 500 ns}
    - {from: s2, to: s0, bandwidth: 100 Gb/s, latency: 500 ns}
collectives: {all_to_all: direct}
network:
  model: packet
  packet:
    transport: rdma
    rdma: {congestion_control: none}
    pause: {above: 6 kB, below: 3 kB}
"""
CYCLE = "links wait for each other in a cycle: s0 -> s1: paused, s1 -> s2: paused, s2 -> s0: paused"


def test_pauses_in_a_circle_end_the_command(armillary: Armillary, tmp_path: Path) -> None:
    """Each NPU sends to the one two switches on, so every link of the ring waits for the next."""
    (tmp_path / "ring.yml").write_text(RING)
    words = ("collective", "all_to_all", "-p", "ring.yml", "-b", "12M", "-e", "12M")
    run = armillary(*words)
    assert run.returncode == 1
    assert f"deadlock: 6 transfers are under way and none can move; {CYCLE}" in run.stderr
    (tmp_path / "room.yml").write_text(RING.replace("6 kB", "100 MB"))
    assert armillary(*words[:3], "room.yml", *words[4:]).returncode == 0
