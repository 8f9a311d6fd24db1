"""Armillary predicts how long a distributed training step takes, where the time goes, and why.

    import armillary as arm

    platform = arm.Platform(
        "R(4)_SW(16)", bandwidth=["300 GB/s", "50 GB/s"], latency=["500 ns", "1 us"]
    )
    workload = arm.load("traces/gpt.%d.et")
    result = arm.simulate(workload, platform)
    result.breakdown()

Importing the package is quick: most of it is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _late, _moved
from ._core import version as _version
from .errors import ArmillaryError, InputError, Problem, StalledError

if TYPE_CHECKING:
    from . import platform, workload
    from .api import collective, compare, ladder, simulate
    from .capture import capture
    from .design import design
    from .goodput import goodput
    from .network import Network
    from .plan import plan
    from .platform import Platform
    from .result import Result
    from .sweep import Sweep, sweep
    from .traffic import traffic
    from .workload import Workload, load

__version__ = _version()
_moved.serve()

_HOMES = {
    "capture": "capture",
    "collective": "api",
    "compare": "api",
    "design": "design.run",
    "goodput": "goodput.run",
    "ladder": "api",
    "load": "workload.source",
    "Network": "network",
    "plan": "plan.run",
    "platform": "",
    "Platform": "platform",
    "Result": "result",
    "simulate": "api",
    "sweep": "sweep.run",
    "Sweep": "sweep.results",
    "traffic": "traffic.run",
    "workload": "",
    "Workload": "workload.workload",
}
"""Names that are loaded when they are first used, and the modules they are in. Functions have the
names of their packages."""

__all__ = [
    "ArmillaryError",
    "InputError",
    "Network",
    "Platform",
    "Problem",
    "Result",
    "StalledError",
    "Sweep",
    "Workload",
    "__version__",
    "capture",
    "collective",
    "compare",
    "design",
    "goodput",
    "ladder",
    "load",
    "plan",
    "platform",
    "simulate",
    "sweep",
    "traffic",
    "workload",
]


__getattr__ = _late.attributes(__name__, _HOMES)


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *__all__})
