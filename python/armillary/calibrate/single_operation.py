"""One operation by itself on a platform, and what a search found about it.

Here: what calibrations of kernels (`kernels.py`) and of links (`links.py`) share. Not here: the
search (`search.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .. import _core
from ..units import PS_PER_US
from .fit import FittedParameter
from .search import WIDE

ALONE: Mapping[str, object] = {"npu.launch": "0 ns", "npu.compute.sustained": 1}
"""Settings of a platform for kernels that are timed by themselves: the next one waits for no host,
and multiplications keep all of their rate."""


def alone(name: str, program: _core.Program, npus: int) -> _core.Workload:
    """A workload of nothing but `program`, on every NPU; they are alike, so one is simulated."""
    return _core.Workload.listed(name, [program], [0] * npus, [], [], None, [])


def times(workloads: list[_core.Workload], platform: _core.Platform) -> list[float]:
    """Microseconds of each workload, above zero."""
    return [max(_time(each, platform), 1e-6) for each in workloads]


def fitted(
    key: str, unit: str, given: float, best: float, interval: tuple[float, float] | None
) -> FittedParameter:
    """A parameter after the search; it is found if its interval is not too wide."""
    low, high = interval or (0.0, math.inf)
    found = low > best / WIDE and high < best * WIDE
    return FittedParameter(key, unit, given, best, low, high, found)


def _time(workload: _core.Workload, platform: _core.Platform) -> float:
    report = _core.simulate(
        workload=workload,
        platform=platform,
        backend="analytical",
        fold=True,
        detail=False,
        timeline=None,
        ranks=(),
        capture=None,
        progress=None,
    )
    return report.step_ps / PS_PER_US
