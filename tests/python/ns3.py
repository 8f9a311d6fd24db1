"""ns-3 behind `--backend external:` for tests and benchmarks: the adapter, and workloads that ns-3
and `packet` carry alike. Not here: asking ns-3 (`lab/peers/record_ns3.py`,
`lab/bench/python/external.py`), comparing (`test_ns3_recorded.py`)."""

from __future__ import annotations

import csv
import random
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import armillary as arm
from armillary import api

ROOT = Path(__file__).parents[2]
TCP: dict[str, object] = {
    "network.packet.tcp.like": "ns3",
    "network.packet.framing": "2 B",
    "network.packet.tick": "1 ns",
    "network.packet.tcp.window": "500 kB",
    "network.packet.tcp.rto_min": "50 ms",
    "network.packet.tcp.ack_delay": "1 ms",
}
"""TCP of ns-3 for `packet` (docs/models/networks-packet.md#as-ns-3-does-it)."""
SEED = 20261125
"""Of the workloads that are drawn."""
HOSTS = 128
"""Of the recorded runs."""
RINGS = ("all_reduce", "all_gather", "reduce_scatter")
LOSSES = ("drops", "retransmits", "timeouts")


@cache
def backend() -> str:
    """The name of ns-3 as a backend, built if it is not."""
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
    buffer: int | None = None
    """Bytes of a port of a switch; `None`: unlimited."""
    control: str = "new_reno"
    marking: int | None = None
    """The queue from which packets are marked, bytes."""
    initial_window: int = 10
    """Segments."""
    ack_every: int = 2
    window: int = 500_000
    """Bytes."""
    injection: int = 0
    """Nanoseconds from the start of a message until it enters the network."""

    def platform(self) -> arm.Platform:
        """Its platform."""
        dims = self.topology.count("(")
        settings: dict[str, object] = {
            **TCP,
            "network.packet.mtu": f"{self.mtu} B",
            "network.packet.injection_latency": f"{self.injection} ns",
            "network.packet.tcp.congestion_control": self.control,
            "network.packet.tcp.initial_window": self.initial_window,
            "network.packet.tcp.ack_every": self.ack_every,
            "network.packet.tcp.window": f"{self.window} B",
            f"collectives.{self.kind}": self.algorithm,
            "scheduler.chunks": self.chunks,
            "scheduler.endpoint_delay": "0 ns",
        }
        for key, size in (("buffer", self.buffer), ("marking", self.marking)):
            if size is not None:
                settings[f"network.packet.{key}"] = f"{size} B"
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


def slow_start_left_early() -> list[Drawn]:
    """Single flows of CUBIC that leave slow start without a loss, over 19 to 400 us."""
    cases = [
        ("Ring(2)", "100 Gb/s", 100, 9000, 50_000_000),
        ("Switch(2)", "40 Gb/s", 19, 1500, 20_000_000),
        ("Switch(2)", "10 Gb/s", 50, 1500, 20_000_000),
        ("Ring(2)", "40 Gb/s", 19, 1500, 2_500_000),
        ("Ring(2)", "25 Gb/s", 400, 9000, 2_000_000),
    ]
    return [
        Drawn(
            topology,
            "broadcast",
            "direct",
            size,
            bandwidth,
            f"{us} us",
            mtu,
            1,
            control="cubic",
            window=4_000_000,
        )
        for topology, bandwidth, us, mtu, size in cases
    ]


@dataclass(frozen=True)
class Row:
    """Four NPUs in a row that reduce in four chunks, each of which waits 3 us for its injection. No
    packets meet to the picosecond, which would leave their order to the order of events."""

    latencies: tuple[int, ...]
    """Latencies of the links, nanoseconds."""
    ack_every: int

    def us(self, network: str) -> float:
        """Step time of the run."""
        links = [
            f"  - {{between: [npu{at}, npu{at + 1}], bandwidth: 40 Gb/s, latency: {latency} ns}}"
            for at, latency in enumerate(self.latencies)
        ]
        platform = arm.Platform.parse("\n".join(["graph:", "  npus: 4", "  links:", *links, ""]))
        settings = TCP | {
            "network.packet.injection_latency": "3 us",
            "network.packet.tcp.initial_window": 1,
            "network.packet.tcp.ack_every": self.ack_every,
            "collectives.all_reduce": "double_binary_tree",
            "scheduler.chunks": 4,
            "scheduler.endpoint_delay": "0 ns",
        }
        report = api.collective_result(
            "all_reduce", 1_051_600, platform.changed(settings), backend=network
        ).report
        return report["step_time_ns"] / 1e3


ROWS = [
    Row(latencies, ack_every)
    for ack_every in (1, 2)
    for latencies in ((10495, 10493, 10499), (10391, 10493, 10477))
]


def smaller(network: str) -> float:
    """Time in us of a recorded run with 16 of its 128 hosts. Each run takes ns-3 from 10 to 108 CPU
    seconds, so all of them run by hand (`lab/bench/python/external.py recorded MTU`; results in
    lab/results/2026-11-25-external.md). Here 16 hosts with 1/8 of the bytes send messages of the
    same size."""
    run = run_with_16_hosts()
    platform = star(16, run.mtu, run.buffer)
    report = api.collective_result("all_reduce", 1_000_000, platform, backend=network).report
    return report["step_time_ns"] / 1e3


def run_with_16_hosts() -> Recorded:
    """The recorded run that `smaller` repeats."""
    [run] = [
        run
        for run in recorded_runs()
        if (run.order, run.size, run.mtu, run.buffer, run.algorithm)
        == (1, 8_000_000, 9000, 500_000, "a2a")
    ]
    return run


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
    kind = found.choice(
        ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "gather"]
    )
    mtu, marks = found.choice([1500, 4096, 9000]), found.random() < 0.5
    return Drawn(
        topology,
        kind,
        found.choice(["ring", "direct"]) if kind in RINGS else "direct",
        int(1000 * 10 ** found.uniform(1.3, 3.5)),
        f"{found.choice([10, 25, 40, 100, 200])} Gb/s",
        f"{int(1000 * 10 ** found.uniform(0, 3))} ns",
        mtu,
        found.randint(1, 4),
        control=found.choice(["new_reno", "cubic"]),
        marking=found.randint(20, 200) * mtu if marks else None,
        initial_window=found.choice([1, 2, 4, 10, 20]),
        ack_every=found.randint(1, 4),
        window=found.choice([64_000, 500_000, 4_000_000]),
        injection=found.choice([0, 0, found.randint(100, 5000)]),
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


@dataclass(frozen=True)
class Recorded:
    """An all-reduce of 128 hosts that ns-3.44 has run without a loss."""

    algorithm: str
    """`a2a`: direct. `dbt`: over two trees."""
    order: int
    """In which a host opens its messages: 1 in rotation, 2 at random."""
    size: int
    mtu: int
    buffer: int
    """Bytes of a port of the switch."""
    chunks: int
    open_chunks: int
    """Of the trees, and how many a host has under way."""
    us: float

    def __str__(self) -> str:
        what = {1: "rotation", 2: "random"}[self.order] if self.algorithm == "a2a" else "trees"
        return f"{what}, {self.size:,} B, MTU {self.mtu}, buffers of {self.buffer:,} B"

    def again(self, network: str) -> float:
        """Its time through the whole stack, us."""
        if self.algorithm == "dbt":
            trees = star(
                HOSTS,
                self.mtu,
                self.buffer,
                collectives__all_reduce="double_binary_tree",
                scheduler__chunks=self.chunks,
                scheduler__active_chunks=self.open_chunks,
            )
            report = api.collective_result("all_reduce", self.size, trees, backend=network).report
        elif self.order == 1:
            direct = star(HOSTS, self.mtu, self.buffer)
            report = api.collective_result("all_reduce", self.size, direct, backend=network).report
        else:
            direct = star(HOSTS, self.mtu, self.buffer)
            report = arm.simulate(_at_random(self.size), direct, backend=network).report
        return report["step_time_ns"] / 1e3


def recorded_runs() -> list[Recorded]:
    """The runs without losses of `tests/golden/packets/ns3.csv`."""
    text = (ROOT / "tests/golden/packets/ns3.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [
        Recorded(
            row["algo"],
            int(row["order"]),
            int(row["D"]),
            int(row["mtu"]),
            int(row["buf"]),
            int(row["C"]),
            int(row["P"]),
            float(row["T_us"]),
        )
        for row in rows
        if int(row["drops"]) == 0
    ]


def star(hosts: int, mtu: int, buffer: int, **more: object) -> arm.Platform:
    """Hosts at one switch, as in the recorded runs. `buffer`: bytes of a port."""
    settings: dict[str, object] = {
        **TCP,
        "network.packet.mtu": f"{mtu} B",
        "network.packet.buffer": f"{buffer} B",
        "collectives.all_reduce": "direct",
        "scheduler.chunks": 1,
        "scheduler.endpoint_delay": "0 ns",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return arm.Platform(f"SW({hosts})", bandwidth="12.5 GB/s", latency="500 ns", settings=settings)


def _at_random(size: int) -> arm.Workload:
    """The direct all-reduce in which each host opens its messages in a random order."""
    programs, part = [], size // HOSTS
    for host in range(HOSTS):
        others = [other for other in range(HOSTS) if other != host]
        order = _shuffled(list(others), host)
        program = arm.workload.Program()
        for other in order:
            program.send(f"reduce to {other}", [], other - host, part, 1)
        reduced = [
            program.recv(f"reduce from {other}", [], other - host, part, 1) for other in others
        ]
        for other in order:
            program.send(f"gather to {other}", reduced, other - host, part, 2)
        for other in others:
            program.recv(f"gather from {other}", reduced, other - host, part, 2)
        programs.append(program)
    return arm.Workload.listed("in random order", programs, list(range(HOSTS)), {})


def _shuffled(hosts: list[int], host: int) -> list[int]:
    """Fisher-Yates from the end, with the remainder of SplitMix64's numbers, seed 1."""
    whole, golden = 2**64 - 1, 0x9E3779B97F4A7C15
    state = (golden + host) & whole
    for at in range(len(hosts) - 1, 0, -1):
        state = mixed = (state + golden) & whole
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & whole
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & whole
        other = (mixed ^ (mixed >> 31)) % (at + 1)
        hosts[at], hosts[other] = hosts[other], hosts[at]
    return hosts
