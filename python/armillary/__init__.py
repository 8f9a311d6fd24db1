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

# Functions with the names of their packages: imported now, or the packages would take the names.
from .design import design
from .errors import ArmillaryError, InputError, Problem, StalledError
from .plan import plan
from .sweep import sweep
from .traffic import traffic

if TYPE_CHECKING:
    from . import platform, workload
    from .api import collective, compare, ladder, simulate
    from .network import Network
    from .platform import Platform
    from .result import Result
    from .sweep import Sweep
    from .workload import Workload, load

__version__ = _version()
_moved.serve()

_HOMES = {
    "collective": "api",
    "compare": "api",
    "ladder": "api",
    "Network": "network",
    "simulate": "api",
    "Sweep": "sweep.results",
    "platform": "platform",
    "Platform": "platform",
    "Result": "result",
    "workload": "workload",
    "Workload": "workload",
    "load": "workload",
}
"""Names that are loaded when they are first used, and the modules they are in."""

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
    "collective",
    "compare",
    "design",
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
