"""Two iterations of DLRM on the four systems of the HOTI 2020 paper: what its studies share.

Not here: the systems (`systems/paper/paper-hoti-*.yml`), the model (`models/dlrm-hoti.yml`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_MS
from armillary.workload import Workload, build

from ..study import StudyRow

if TYPE_CHECKING:
    from armillary.report.chart import Chart


SYSTEMS = {
    "flat100": "paper-hoti-flat100",
    "flat800": "paper-hoti-flat800",
    "hier100": "paper-hoti-hier100",
    "hierOpt100": "paper-hoti-hieropt100",
}
PASSES = 2

SETUP = (
    "Two iterations of the DLRM of Table V on 128 NPUs of 60 TFLOPS; systems of Tables III and IV. "
    "On `packet` there are NewReno, packets of 9,000 B (our choice), windows of 0.5 MB, timeouts "
    "from 50 ms on, buffers of 1 GB for 128 ports, and ns-3's order of packets that meet; on other "
    "networks no TCP, buffers or losses. The paper has 1,024 chunks on flat systems and 128 on "
    "hierarchical ones; here "
)

FLAT, HIERARCHICAL, ON_FLOW = 32, 128, 8
"""Chunks where there are no packets. Hierarchical systems have the paper's number; on flat ones,
and on `flow`, the paper's takes minutes."""
ON_PACKETS = {"flat100": 1024, "flat800": 1024, "hier100": 128, "hierOpt100": 128}
"""Chunks of the paper."""
FEWER = (
    f"flat systems have {FLAT}, the least of Table IV, and all have {ON_FLOW} on `flow`, because "
    "of the time to run, but on `packet` the paper's. "
)

PORTS = 128
"""The buffer of the scale-out switch is divided evenly among them."""
LARGE = 1_000_000_000
"""Bytes of that buffer, if no other number is named."""
PACKETS: Mapping[str, object] = {
    "network.packet.mtu": "9000 B",
    "network.packet.ties": "in_order",
    "network.packet.tcp.window": "500 kB",
    "network.packet.tcp.rto_min": "50 ms",
    "network.packet.tcp.ack_delay": "1 ms",
}


@dataclass(frozen=True, slots=True)
class Loop:
    """Two iterations, in ms."""

    whole: float
    """Time until the last gradient has arrived."""
    computed: float
    """Time until the last computation is over."""
    compute: float
    """Computing time of an NPU."""
    timeouts: int = 0
    """Timeouts of all connections, on `packet`."""
    fullest: int = 0
    """Most bytes that waited in a port of a switch, on `packet`."""

    @property
    def exposed(self) -> float:
        """Percent of the whole in which an NPU doesn't compute."""
        return 100 * (1 - self.compute / self.whole)

    @property
    def exposed_before_last(self) -> float:
        """Percent until the last computation is over."""
        return 100 * (1 - self.compute / self.computed)


def chunks(system: str, backend: str) -> int:
    """Chunks of a collective of a system on a backend."""
    if backend == "packet":
        return ON_PACKETS[system]
    if backend == "flow":
        return ON_FLOW
    return FLAT if system.startswith("flat") else HIERARCHICAL


def loop(system: str, backend: str, buffer: int = LARGE, /, **settings: object) -> Loop:
    """Two iterations. `buffer`: bytes of the scale-out switch, on `packet`. `settings` are those of
    the scheduler, by their names."""
    scheduler = {"chunks": chunks(system, backend), **settings}
    chosen = {f"scheduler.{name}": value for name, value in scheduler.items()}
    if backend == "packet":
        chosen |= {**PACKETS, "network.packet.buffer": f"{buffer // PORTS} B"}
    return _loop(system, backend, tuple(sorted(chosen.items())))


@cache
def _loop(system: str, backend: str, settings: tuple[tuple[str, object], ...]) -> Loop:
    platform = Platform.load(SYSTEMS[system], settings=dict(settings))
    report = simulate(_workload(), platform, backend=backend).report
    classes, packets = report["classes"], report["packets"]
    computed = max(each["compute_finish_ns"] for each in classes)
    compute = sum(each["compute_ns"] * each["count"] for each in classes) / platform.npus
    return Loop(
        report["step_time_ns"] / NS_PER_MS,
        computed / NS_PER_MS,
        compute / NS_PER_MS,
        packets["timeouts"] if packets else 0,
        packets["queue_max_bytes"] if packets else 0,
    )


@cache
def by_layer(system: str, backend: str) -> list[dict[str, Any]]:
    """Computation, raw and exposed communication of two iterations by layer and pass, ns: means
    over the NPUs."""
    from armillary.report.run_passes import means

    settings = {"scheduler.chunks": chunks(system, backend)}
    platform = Platform.load(SYSTEMS[system], settings=settings)
    report = simulate(_workload(), platform, backend=backend, detail=True).report
    assert report["detail"] is not None, "the run was logged"
    return means(report, report["detail"])


@cache
def _workload() -> Workload:
    return build("dlrm-hoti", dp=128, passes=PASSES)


def shares(rows: Sequence[StudyRow], name: str, title: str) -> list[Chart]:
    """Rows in percent as bars, one chart for each backend, with a line where the paper prints a
    number."""
    from armillary.report.chart import Chart

    found = []
    for backend in dict.fromkeys(row.backend for row in rows):
        drawn = [
            {"setup": row.setup, "%": row.ours, "paper": row.reference.value}
            for row in rows
            if row.backend == backend and row.unit == "%"
        ]
        y = {
            "field": "setup",
            "type": "nominal",
            "title": None,
            "sort": None,
            "axis": {"labelLimit": 420},
        }
        x = {"field": "%", "type": "quantitative", "title": "%"}
        line = {"type": "tick", "thickness": 3, "color": "#d55e00", "tooltip": True}
        spec = {
            "layer": [
                {"mark": {"type": "bar", "tooltip": True}, "encoding": {"y": y, "x": x}},
                {"mark": line, "encoding": {"y": y, "x": {**x, "field": "paper"}}},
            ]
        }
        note = "Bars are ours; lines are numbers that the paper prints."
        found.append(Chart(f"{name}-{backend}", f"{title}, `{backend}`", drawn, spec, note))
    return found
