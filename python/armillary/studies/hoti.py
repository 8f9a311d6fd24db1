"""Two iterations of DLRM on the four systems of the HOTI 2020 paper: what its studies share.

Not here: the systems (`systems/paper/paper-hoti-*.yml`), the model (`models/dlrm-hoti.yml`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..api import simulate
from ..platform import Platform
from ..units import NS_PER_MS
from ..workload import Workload, build

PAPER = "Rashidi et al., ASTRA-SIM + NS3, HOTI 2020"

SYSTEMS = {
    "flat100": "paper-hoti-flat100",
    "flat800": "paper-hoti-flat800",
    "hier100": "paper-hoti-hier100",
    "hierOpt100": "paper-hoti-hieropt100",
}
PASSES = 2

SETUP = (
    "Two iterations of the DLRM of Table V on 128 NPUs of 60 TFLOPS; systems of Tables III and IV, "
    "switches without TCP, buffers or losses. The paper has 1,024 chunks on flat systems and 128 "
    "on hierarchical ones; here "
)

FLAT, HIERARCHICAL, ON_FLOW = 32, 128, 8
"""Chunks. Hierarchical systems have the paper's number; on flat ones, and on `flow`, the paper's
takes minutes."""
FEWER = (
    f"flat systems have {FLAT}, the least of Table IV, and all have {ON_FLOW} on `flow`, because "
    "of the time to run. "
)


@dataclass(frozen=True, slots=True)
class Loop:
    """Two iterations, in ms."""

    whole: float
    """Until the last gradient has arrived."""
    computed: float
    """Until the last computation is over."""
    compute: float
    """Of an NPU."""

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
    if backend == "flow":
        return ON_FLOW
    return FLAT if system.startswith("flat") else HIERARCHICAL


def loop(system: str, backend: str, **settings: object) -> Loop:
    """Two iterations; `settings` are those of the scheduler, by their names."""
    chosen = {"chunks": chunks(system, backend), **settings}
    return _loop(system, backend, tuple(sorted(chosen.items())))


@cache
def _loop(system: str, backend: str, settings: tuple[tuple[str, object], ...]) -> Loop:
    changed: Mapping[str, object] = {f"scheduler.{name}": value for name, value in settings}
    platform = Platform.load(SYSTEMS[system], settings=dict(changed))
    report = simulate(_workload(), platform, backend=backend, detail=True).report
    detail = report["detail"]
    assert detail is not None, "it was asked for"
    bars = [bar for lane in detail["gantt"] for bar in lane["bars"]]
    computed = max(bar["end_ns"] for bar in bars if bar["kind"] == "compute")
    classes = report["classes"]
    compute = sum(each["compute_ns"] * each["count"] for each in classes) / platform.npus
    return Loop(report["step_time_ns"] / NS_PER_MS, computed / NS_PER_MS, compute / NS_PER_MS)


@cache
def _workload() -> Workload:
    return build("dlrm-hoti", dp=128, passes=PASSES)
