"""ns-3 behind `--backend external:` for tests and benchmarks: the adapter, and workloads that ns-3
and `packet` carry alike. Not here: what is compared (`test_ns3.py`,
`benches/python/external.py`)."""

from __future__ import annotations

import random
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import armillary as arm
from armillary import api

ROOT = Path(__file__).parents[2]
MISSING = "ns-3 is not installed (apt-get install libns3-dev)"
TCP: dict[str, object] = {
    "network.packet.framing": "2 B",
    "network.packet.tick": "1 ns",
    "network.packet.tcp.window": "500 kB",
    "network.packet.tcp.rto_min": "50 ms",
    "network.packet.tcp.ack_delay": "1 ms",
    "network.packet.tcp.threshold": "pipe",
    "network.packet.tcp.rescue": "always",
    "network.packet.tcp.resent_in_pipe": "true",
}
"""TCP of ns-3 for `packet` (docs/models/networks-packet.md#as-ns-3-does-it)."""
LOSSES = ("drops", "retransmits", "timeouts")


@cache
def backend() -> str | None:
    """The name of ns-3 as a backend, built if it is not; `None` where it is not installed."""
    if not Path("/usr/include/ns3").exists() or shutil.which("make") is None:
        return None
    subprocess.run(["make", "--silent", "-C", str(ROOT / "adapters/ns3")], check=True)
    return f"external:{ROOT / 'target/adapters/armillary-ns3'}"


@dataclass(frozen=True)
class Drawn:
    """A collective on a network."""

    topology: str
    kind: str
    algorithm: str
    size: int
    """Bytes."""
    bandwidth: str
    latency: str
    mtu: int
    chunks: int
    buffer: int | None
    """Bytes of a port of a switch; `None`: unlimited."""

    def platform(self) -> arm.Platform:
        """Its platform."""
        dims = self.topology.count("(")
        settings: dict[str, object] = {
            **TCP,
            "network.packet.mtu": f"{self.mtu} B",
            f"collectives.{self.kind}": self.algorithm,
            "scheduler.chunks": self.chunks,
            "scheduler.endpoint_delay": "0 ns",
        }
        if self.buffer is not None:
            settings["network.packet.buffer"] = f"{self.buffer} B"
        return arm.Platform(
            self.topology,
            bandwidth=[self.bandwidth] * dims,
            latency=[self.latency] * dims,
            per=["link"] * dims,
            settings=settings,
        )

    def run(self, network: str) -> dict[str, Any]:
        """Step time in us, and what was lost."""
        report = api.collective_result(
            self.kind, self.size, self.platform(), backend=network
        ).report
        packets = report["packets"]
        assert packets is not None
        found: dict[str, Any] = {"us": report["step_time_ns"] / 1e3}
        return found | {key: packets[key] for key in LOSSES}  # type: ignore[literal-required]


def drawn(seed: int, count: int, lossy: bool = False) -> list[Drawn]:
    """Workloads drawn from a seed. Lossy ones meet at the small buffers of a switch."""
    found = random.Random(seed)
    return [_lossy(found) if lossy else _one(found) for _ in range(count)]


def _one(found: random.Random) -> Drawn:
    size, outer = found.randint(3, 8), found.randint(2, 3)
    topology = found.choice(
        [
            f"Ring({size})",
            f"Switch({size})",
            f"FullyConnected({size})",
            f"Ring({size})_Switch({outer})",
            f"Switch({size})_Ring({outer})",
            f"FullyConnected({size})_Switch({outer})",
        ]
    )
    kind = found.choice(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
    return Drawn(
        topology,
        kind,
        "direct" if kind == "all_to_all" else found.choice(["ring", "direct"]),
        found.randint(20_000, 1_000_000),
        f"{found.choice([10, 25, 40, 100, 200])} Gb/s",
        f"{found.randint(100, 5000)} ns",
        found.choice([1500, 4096, 9000]),
        found.randint(1, 4),
        None,
    )


def _lossy(found: random.Random) -> Drawn:
    size = found.randint(6, 12)
    return Drawn(
        f"Switch({size})",
        found.choice(["gather", "reduce"]),
        "direct",
        found.randint(500_000, 3_000_000),
        "100 Gb/s",
        "500 ns",
        found.choice([1500, 9000]),
        found.randint(2, 4),
        found.randint(30_000, 100_000),
    )
