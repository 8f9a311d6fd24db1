"""An all-reduce on wafers and conventional systems of growing size (ASTRA-sim 2.0, Table
IV)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_US
from armillary.workload import Program, Workload

from ..study import Study, StudyRow, analytical, printed

TABLE: dict[tuple[int, int, int, int], tuple[tuple[float, ...], float]] = {
    (2, 8, 8, 4): ((1024, 896, 112, 12), 4392.85),
    (2, 8, 8, 8): ((1024, 896, 112, 14), 4392.85),
    (2, 8, 8, 16): ((1024, 896, 112, 15), 4392.85),
    (2, 8, 8, 32): ((1024, 896, 112, 15.5), 4392.85),
    (4, 8, 8, 4): ((1536, 448, 56, 6), 2212.60),
    (8, 8, 8, 4): ((1792, 224, 28, 3), 1753.48),
    (16, 8, 8, 4): ((1920, 112, 14, 1.5), 1879.17),
}
"""Sizes -> MB (2^20 bytes) an NPU sends in each dimension, and microseconds."""

GAIN = 2.51
"""Scale-out over wafer, the largest: 2_8_8_32 against 8_8_8_4."""

LATENCIES = {
    "links[0].latency": "2 ns",
    "links[1].latency": "16 ns",
    "links[2].latency": "2 ns",
    "links[3].latency": "16 ns",
    "scheduler.endpoint_delay": "1 ns",
}
"""One set for all rows, fitted to them: five latencies against four different times."""

TIMES, SIZES = "Table IV, collective time", "Table IV, message sizes"

BARE = "bandwidth alone: the paper prints no latencies"
SET = (
    "fitted: 2 ns on rings, 16 ns elsewhere, 1 ns at endpoints, in all rows; the table has four "
    "different times, so this proves nothing"
)
SENT = "reduce-scatter and all-gather together, 2^20 bytes, as simulated"
BEST = "2_8_8_32 over 8_8_8_4, without latencies"


@dataclass(frozen=True, slots=True)
class Time:
    """One row of the table, ours."""

    us: float
    megabytes: tuple[float, ...]
    """2^20 bytes an NPU sends, by dimension."""


@cache
def all_reduce(npus: int, size: int) -> Workload:
    """One all-reduce of `size` bytes over everybody."""
    program = Program()
    program.collective("all-reduce", [], "all_reduce", size)
    return Workload.mesh("all-reduce", [("npu", npus)], {}, [], [program])


def time(sizes: Sequence[int], backend: str, settings: dict[str, object]) -> Time:
    """1 GB, of 2^30 bytes, on one row of the table."""
    ring, full, outer, switch = sizes
    topology = f"Ring({ring})_FullyConnected({full})_Ring({outer})_Switch({switch})"
    platform = Platform.load("paper-table4", settings={"topology": topology, **settings})
    result = simulate(all_reduce(platform.npus, 2**30), platform, backend=backend)
    sent = tuple(each["bytes"] / platform.npus / 2**20 for each in result.report["dimensions"])
    return Time(result.step_time_ns / NS_PER_US, sent)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Times without and with fitted latencies, messages, and the gain, on the network the paper
    ran: the analytical one."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> list[StudyRow]:
    found = {sizes: time(sizes, backend, {}) for sizes in TABLE}
    late = {sizes: time(sizes, backend, dict(LATENCIES)) for sizes in TABLE}
    times = [
        StudyRow(_name(sizes), backend, printed(us, TIMES), found[sizes].us, "us", BARE)
        for sizes, (_, us) in TABLE.items()
    ]
    times += [
        StudyRow(f"{_name(sizes)}, fitted", backend, printed(us, TIMES), late[sizes].us, "us", SET)
        for sizes, (_, us) in TABLE.items()
    ]
    messages = [
        StudyRow(
            f"{_name(sizes)}, dimension {dim}", backend, printed(paper, SIZES), ours, "MB", SENT
        )
        for sizes, (sent, _) in TABLE.items()
        for dim, (paper, ours) in enumerate(zip(sent, found[sizes].megabytes, strict=True), 1)
    ]
    gain = found[2, 8, 8, 32].us / found[8, 8, 8, 4].us
    best = StudyRow("best gain by wafer", backend, printed(GAIN, "section V-A2"), gain, "x", BEST)
    return [*times, *messages, best]


def _name(sizes: Sequence[int]) -> str:
    return "_".join(map(str, sizes))


STUDY = Study(
    "1 GB all-reduce on Ring_FullyConnected_Ring_Switch at 1000, 200, 100 and 50 GB/s, 64 chunks, "
    "one at a time in a dimension, on the platform `paper-table4`. The message sizes give 1 GB as "
    "2^30 bytes, the times give bandwidths in 2^30 bytes as well, with FullyConnected's an NPU's "
    "and Ring's one link's. The table's caption says all-gather, its numbers and text all-reduce.",
    rows,
)
